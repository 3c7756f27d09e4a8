"""The dataclasses of hushvec.mechanisms: which can be changed, which take arguments by place, and which are equal by value."""

import numpy as np

from hushvec.mechanisms import FrequencyEstimate
from room_classes import by_place, by_value, classes_of, that_change, with_arrays


def test_nothing_can_be_changed_after_it_is_made():
    assert that_change("mechanisms") == set()


def test_arguments_are_named_but_for_those_of_few():
    found = {"FrequencyEstimate", "MetricEpsilon", "Option", "Recommendation"}
    assert by_place("mechanisms") == found | {"FittedRows", "PublicCodebook", "PublicProjection"}


def test_those_without_arrays_are_equal_by_value_and_the_others_by_identity():
    others = with_arrays("mechanisms") | {"MetricEpsilon", "PublicData"}   # one has its own rule, one takes any array
    assert by_value("mechanisms") == classes_of("mechanisms").keys() - others


def test_two_estimates_can_be_compared_and_kept_in_a_set():
    one, other = (FrequencyEstimate(np.ones(2), np.ones(2), 2) for _ in range(2))
    assert one != other and len({one, other, one}) == 2
