"""The dataclasses of hushvec.release: which can be changed, which take arguments by place, and which are equal by value."""

from room_classes import by_place, by_value, classes_of, numbers_left_out, that_change, with_arrays


def test_nothing_can_be_changed_after_it_is_made():
    assert that_change("release") == set()


def test_arguments_are_named_but_for_those_of_few():
    assert by_place("release") == {"ReleasePlan"}


def test_those_without_arrays_are_equal_by_value_and_the_others_by_identity():
    others = with_arrays("release")
    assert by_value("release") == classes_of("release").keys() - others


LEFT_OUT = """
charging.ChargeOnce.consume(delta=0.0)
vectors.ReleasePlan(half_words=True)
vectors.ReleasePlan.receipt(on_device=False)
vectors.ReleasePlan.run(first_row=0, finite=False)
vectors.ReleasePlan.vector_receipt(on_device=False, chosen_sigma=True)
vectors.plan_release(normalize=False, renormalize=False)
vectors.privatize(delta=1e-05, clip_norm=1.0, normalize=False, renormalize=False)
"""


def test_what_a_caller_leaves_out_means_what_it_did():
    """A default is a part of every call that does not name it: another one changes those calls without a word."""
    assert numbers_left_out("release") == LEFT_OUT.split("\n")[1:-1]
