"""An op without a fake kernel: its schema, and the ``register_fake`` to write."""

from __future__ import annotations

import re
from typing import Any

import torch

_NO_FAKE = (
    re.compile(r"no fake impl registered for <CustomOpDef\((\w+)::(\w+)\)>"),
    re.compile(r"(\w+)::(\w+): attempted to run this operator with Meta tensors"),
    re.compile(r"unsupported operator: (\w+)\.(\w+)\.\w+"),
    re.compile(r"[Ff]ake(?:/meta)? (?:kernel|impl)\w* (?:for|of) (\w+)::(\w+)"),
)


def fake_kernel_stub(text: str) -> str:
    """For an op without a fake kernel: a line of advice, then the code of a ``register_fake`` to fill in, schema as a comment.

    Empty where the text tells of no such op.
    """
    found = next((m for pattern in _NO_FAKE if (m := pattern.search(text))), None)
    schema = _schema(found[1], found[2]) if found else None
    if found is None or schema is None:
        return ""
    name = f"{found[1]}::{found[2]}"
    return "\n".join(
        [
            "write a fake kernel, which says the shapes of its outputs without computing them:",
            f"# {schema}",
            f'@torch.library.register_fake("{name}")',
            f"def {found[2]}_fake({_parameters(schema)}):",
            f"    return {_returns(schema)}  # shape, dtype and stride as the real kernel returns them",
        ]
    )


def _schema(namespace: str, name: str) -> Any:
    try:
        packet = getattr(getattr(torch.ops, namespace), name)
        return getattr(packet, packet.overloads()[0])._schema
    except (AttributeError, IndexError):
        return None


def _parameters(schema: Any) -> str:
    """The op's arguments as Python writes them, keyword-only ones after a star."""
    parts, star = [], False
    for argument in schema.arguments:
        if argument.kwarg_only and not star:
            parts.append("*")
            star = True
        default = f"={argument.default_value!r}" if argument.has_default_value() else ""
        parts.append(argument.name + default)
    return ", ".join(parts)


def _returns(schema: Any) -> str:
    tensors = [a.name for a in schema.arguments if str(a.type) in ("Tensor", "Optional[Tensor]")]
    like = f"torch.empty_like({tensors[0]})" if tensors else "torch.empty(...)"
    values = [like if str(r.type) == "Tensor" else _DEFAULTS.get(str(r.type), "...") for r in schema.returns]
    return ", ".join(values) if values else "None"


_DEFAULTS = {"int": "0", "float": "0.0", "bool": "False", "List[Tensor]": "[...]"}
