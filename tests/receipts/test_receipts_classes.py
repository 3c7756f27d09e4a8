"""The dataclasses of hushvec.receipts: which can be changed, which take arguments by place, and which are equal by value."""

from room_classes import by_place, by_value, classes_of, that_change, with_arrays


def test_nothing_can_be_changed_after_it_is_made():
    assert that_change("receipts") == set()


def test_arguments_are_named_but_for_those_of_few():
    assert by_place("receipts") == {"AggregateStatistic"}


def test_those_without_arrays_are_equal_by_value_and_the_others_by_identity():
    others = with_arrays("receipts")
    assert by_value("receipts") == classes_of("receipts").keys() - others
