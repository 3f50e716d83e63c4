"""Files written whole: what a reader can see, what is kept, what a refusal leaves and says."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from peek_backend.errors import PeekError
from peek_backend.snapshot import atomic
from peek_backend.snapshot.atomic import read_bytes, write_bytes, write_text


def test_missing_folders_are_made(tmp_path):
    """The folders on the way to a file come into being with it."""
    path = tmp_path / "a" / "b" / "c.json"
    write_bytes(path, b"x")
    assert path.read_bytes() == b"x"


def test_permissions_of_an_existing_file_are_kept(tmp_path):
    """Replacing a file changes its content, not who may read it."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_bytes(path, b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)


def test_new_file_gets_the_umask(tmp_path):
    """A new file is as readable as any other that the user makes."""
    old = os.umask(0o027)
    try:
        write_bytes(tmp_path / "f", b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640


def test_symbolic_link_is_followed(tmp_path):
    """Writing to a link changes the file behind it and leaves the link."""
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "f"
    target.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_device_is_written_through():
    """A device stays a device: it is written to, not replaced."""
    write_bytes("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    """When the disk fills up in the middle, the old content stays and no temporary file is left."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    real, calls = os.write, []

    def write(descriptor, data):
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:3])

    monkeypatch.setattr(atomic.os, "write", write)
    with pytest.raises(PeekError) as caught:
        write_bytes(path, b"new content")
    assert "the disk is full" in str(caught.value) and str(path) in str(caught.value)
    assert os.listdir(tmp_path) == ["f"] and path.read_bytes() == b"old"


def test_real_full_device():
    """The system's own full device gives the same message."""
    with pytest.raises(PeekError, match="the disk is full"):
        write_bytes("/dev/full", b"x")


def test_interrupt_leaves_no_temporary_file(tmp_path, monkeypatch):
    """Ctrl-C while writing leaves the folder as it was."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "f", b"x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("folder", "it is a folder"),
        ("file/below", "a part of the path is a file"),
        ("n" * 300, "the name is too long"),
        ("a\0b", "null"),
    ],
)
def test_bad_path_is_one_error(tmp_path, name, says):
    """Each kind of path that cannot be written to is named with its reason."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PeekError) as caught:
        write_bytes(tmp_path / name, b"x")
    assert says in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_permission_denied_is_explained(tmp_path, monkeypatch):
    """A folder that is not ours is named as such."""

    def denied(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(atomic.os, "open", denied)
    with pytest.raises(PeekError, match="permission denied"):
        write_bytes(tmp_path / "f", b"x")


def test_long_name_still_fits(tmp_path):
    """A name of the longest length that the system takes can be written; the temporary name is no longer."""
    name = "n" * 255
    write_bytes(tmp_path / name, b"x")
    assert os.listdir(tmp_path) == [name]


def test_lone_surrogate_is_written_as_its_escape(tmp_path):
    """Text with a part of a file name that is no UTF-8 can still be written."""
    write_text(tmp_path / "f", "a\udcff")
    assert (tmp_path / "f").read_bytes() == b"a\\udcff"


@pytest.mark.parametrize(("name", "says"), [("", "it is a folder"), ("none", "there is no such file")])
def test_unreadable_is_one_error(tmp_path, name, says):
    """Reading a folder, or nothing, says so."""
    with pytest.raises(PeekError, match=says):
        read_bytes(tmp_path / name)
