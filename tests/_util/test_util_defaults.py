"""What callers of hushvec._util get where they leave an argument out."""

from room_classes import numbers_left_out

LEFT_OUT = """
lines.decoded(start=0)
os_files.lock(wait=True)
publish.published_bytes(mode=384)
publish.published_text(mode=384)
publish.unfinished(mode=384)
rounding.down(units=8.0)
rounding.exp_up(units=8.0)
rounding.log_ratio_up(times=1)
rounding.up(units=8.0)
validate.delta(zero_allowed=False)
"""


def test_what_a_caller_leaves_out_means_what_it_did():
    """A default is a part of every call that does not name it: another one changes those calls without a word."""
    assert numbers_left_out("_util") == LEFT_OUT.split("\n")[1:-1]
