"""The dataclasses of hushvec.accounting: which can be changed, which take arguments by place, and which are equal by value."""

from room_classes import by_place, by_value, classes_of, numbers_left_out, that_change, with_arrays


def test_nothing_can_be_changed_after_it_is_made():
    assert that_change("accounting") == set()


def test_arguments_are_named_but_for_those_of_few():
    assert by_place("accounting") == {"LossDistribution", "Profile", "Releases", "Repeated", "SampleRange", "Tilted"}


def test_those_without_arrays_are_equal_by_value_and_the_others_by_identity():
    others = with_arrays("accounting")
    assert by_value("accounting") == classes_of("accounting").keys() - others


LEFT_OUT = """
accountant.Accountant.add(count=1, independent_samples=False)
composition.Composition(unamplified=0)
composition.compose(independent_samples=False)
composition.gaussian_sigma_for(sensitivity=1.0)
discrete.DiscreteReleases(times=1)
losses.DiscreteGaussianDP(sensitivity=1.0, coordinates=1)
releases.Releases(unamplified=0)
releases.Releases.of(unamplified=0)
"""


def test_what_a_caller_leaves_out_means_what_it_did():
    """A default is a part of every call that does not name it: another one changes those calls without a word."""
    assert numbers_left_out("accounting") == LEFT_OUT.split("\n")[1:-1]
