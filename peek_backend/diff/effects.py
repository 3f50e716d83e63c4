"""Which ops do more than give a value, so that their order counts, and which values share memory.

A snapshot knows targets by name only, so the rules are torch's naming rules: an op that ends in ``_`` writes its first operand.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..model.inplace import IN_PLACE_FUNCTIONS

# Results depend on the state of the random generator, so on the order among themselves.
_RANDOM = frozenset(
    {
        "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal",
        "bernoulli", "multinomial", "poisson", "binomial", "dropout", "dropout1d", "dropout2d", "dropout3d",
        "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "native_dropout", "rrelu",
        "gumbel_softmax", "fractional_max_pool2d", "fractional_max_pool3d", "manual_seed", "seed",
        "set_rng_state", "get_rng_state", "uniform", "exponential", "cauchy", "geometric", "log_normal",
        "philox_rand", "inductor_random", "inductor_seed", "inductor_seeds", "graphsafe_run_with_rng_state",
        "run_and_save_rng_state", "run_with_rng_state",
    }
)  # fmt: skip
# Ops that act on the world or on the state of the trace.
_ACTING = frozenset(
    {
        "copy_", "set_", "print", "warn", "setattr", "_enter_autocast", "_exit_autocast",
        "auto_functionalized", "auto_functionalized_v2", "with_effects", "triton_kernel_wrapper_mutation",
        "wait_tensor", "barrier", "send", "recv", "isend", "irecv", "lazy_load_decompositions",
        "synchronize", "record_stream", "record_event", "wait_event", "wait_stream",
    }
)  # fmt: skip
_ACTING_START = re.compile(
    r"_?assert|sym_constrain_range|_check|_set_grad|_vmap_\w*nesting|_grad_\w*nesting|_jvp_\w*nesting|_saved_tensors_hooks|set_stream|_exit|_enter"
)
_COLLECTIVES = re.compile(
    r"(?:^|\.)_?c10d(?:_functional)?\.|torch\.distributed\.|(?:all_reduce|all_gather|reduce_scatter|all_to_all|broadcast)(?:_|$)"
)
_WRITES_FIRST = IN_PLACE_FUNCTIONS | {"delitem"}
# The result shares memory with the first operand (the op schemas' alias information, by name).
_VIEWS = frozenset(
    {
        "view", "reshape", "transpose", "permute", "expand", "expand_as", "squeeze", "unsqueeze", "getitem",
        "select", "narrow", "t", "T", "mT", "H", "mH", "detach", "chunk", "split", "split_with_sizes",
        "tensor_split", "unbind", "flatten", "unflatten", "view_as", "real", "imag", "diagonal", "swapaxes",
        "swapdims", "movedim", "moveaxis", "as_strided", "unfold", "alias", "contiguous", "to",
        "view_as_real", "view_as_complex", "hsplit", "vsplit", "dsplit", "slice", "ravel", "numpy_T",
        "type", "float", "half", "double", "bfloat16", "type_as", "positive", "conj", "requires_grad_",
    }
)  # fmt: skip
_INPLACE_KEYWORD = re.compile(r"\binplace=True\b|\bout=")
# A dropout that drops nothing: p is 0, or training is False, as keywords or by position.
_OFF = re.compile(r"\b(?:p=0(?:\.0)?|training=False)(?=,|$)|^\0, (?:0(?:\.0)?(?=,|$)|[0-9.]+, False(?=,|$))")
_ATTENTION_DROPS = re.compile(r"\bdropout_p=(?!0(?:\.0)?(?:,|$))")


def _op(target: str) -> str:
    """The op's own name: ``add_`` for ``.add_`` and for ``aten.add_.Tensor``."""
    parts = target.split(".")
    return parts[1] if len(parts) == 3 and parts[0] not in ("torch", "") else parts[-1]


@lru_cache(maxsize=16_384)
def writes_first(target: str, template: str) -> bool:
    """Whether the op changes its first operand in place."""
    op = _op(target)
    in_place = op.endswith("_") and not op.endswith("__") and op not in ("requires_grad_",)
    return in_place or op in _WRITES_FIRST or bool(_INPLACE_KEYWORD.search(template))


@lru_cache(maxsize=16_384)
def is_view(target: str, template: str) -> bool:
    """Whether the result shares memory with the first operand."""
    return _op(target) in _VIEWS or writes_first(target, template)


@lru_cache(maxsize=16_384)
def is_impure(target: str, template: str) -> bool:
    """Whether the op's place among its like counts: in-place ops, random numbers, asserts, prints, collectives, modes."""
    op = _op(target)
    if op in _RANDOM:
        return not ("dropout" in op and _OFF.search(template))
    if op == "scaled_dot_product_attention":
        return bool(_ATTENTION_DROPS.search(template))
    acts = op in _ACTING or _ACTING_START.match(op) or _COLLECTIVES.search(target)
    return bool(acts) or writes_first(target, template)
