"""A fixed run of the array fuzzer, and proof that its judge notices what it should."""

import numpy as np
import pytest

from evidence.fuzz import fuzz_arrays
from evidence.fuzz.fuzz_arrays import CALLS, Call, Violation, one_case
from hushvec._native import _core

SEED = 0
CASES = 4_000   # about 10 seconds


def test_no_array_breaks_a_promise():
    outcomes = [one_case(SEED, number) for number in range(CASES)]
    for name in CALLS:
        assert outcomes.count((name, "accepted")) > CASES // 100, name
        assert outcomes.count((name, "refused")) > CASES // 100, name


def violations(monkeypatch, mutant, cases=1500):
    """What the judge says of a wrong `_core.clip`, with the right one for the copies."""
    right = fuzz_arrays.on_copies
    monkeypatch.setattr(fuzz_arrays, "on_copies", lambda _, *rest: right(CALLS["_core.clip"], *rest))
    calls = {"_core.clip": Call(mutant, public=False)}
    for number in range(cases):
        try:
            one_case(SEED, number, calls)
        except Violation as violation:
            yield str(violation)


def writes_before_it_refuses(x, out, p):
    out[...] = 0
    _core.clip(x, p.clip_norm, out)


def forgets_strides(x, out, p):
    flat = np.ndarray(x.shape, x.dtype, x.base, 0) if x.base is not None and x.nbytes <= x.base.nbytes else x
    _core.clip(flat, p.clip_norm, out)


def writes_past_the_end(x, out, p):
    _core.clip(x, p.clip_norm, out)
    if out.base is not None:
        out.base[-1] ^= 1


def accepts_read_only(x, out, p):
    _core.clip(x, p.clip_norm, out if out.flags.writeable else np.empty_like(out))


def accepts_overlap(x, out, p):
    _core.clip(x.copy(), p.clip_norm, out)


def refuses_every_stride(x, out, p):
    if not (x.flags.c_contiguous and out.flags.c_contiguous):
        raise ValueError("x must be contiguous")
    _core.clip(x, p.clip_norm, out)


def says_nothing(x, out, p):
    try:
        _core.clip(x, p.clip_norm, out)
    except (ValueError, TypeError):
        raise ValueError from None


def lets_any_exception_out(x, out, p):
    raise AttributeError("an accident inside")


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (writes_before_it_refuses, "refused and wrote"),
        (forgets_strides, "differs from the call on copies"),
        (writes_past_the_end, "wrote outside of out"),
        (accepts_read_only, "accepted"),
        (accepts_overlap, "accepted"),
        (refuses_every_stride, "refused: "),
        (says_nothing, "refused without a message"),
        (lets_any_exception_out, "raised AttributeError"),
    ],
)
def test_the_judge_notices(monkeypatch, mutant, message):
    def on_numpy(x, out, p):
        if all(type(array) is np.ndarray and array.dtype.kind == "f" for array in (x, out)):
            mutant(x, out, p)
        else:
            _core.clip(x, p.clip_norm, out)

    assert any(message in violation for violation in violations(monkeypatch, on_numpy))
