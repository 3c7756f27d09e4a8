"""What callers of hushvec._native get where they leave an argument out."""

import pytest

from room_classes import numbers_left_out

pytest.importorskip("torch")   # which one of the modules is for

LEFT_OUT = """
arrays.nonfinite_error(first_row=0)
arrays.shared(written=False)
rowwise.checked_unit_rows(first_row=0)
rowwise.require_finite(first_row=0)
torch_ops.stream_state(rounds=20)
"""


def test_what_a_caller_leaves_out_means_what_it_did():
    """A default is a part of every call that does not name it: another one changes those calls without a word."""
    assert numbers_left_out("_native") == LEFT_OUT.split("\n")[1:-1]
