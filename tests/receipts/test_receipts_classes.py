"""The dataclasses of hushvec.receipts: which can be changed, which take arguments by place, and which are equal by value."""

from room_classes import by_place, by_value, classes_of, numbers_left_out, that_change, with_arrays


def test_nothing_can_be_changed_after_it_is_made():
    assert that_change("receipts") == set()


def test_arguments_are_named_but_for_those_of_few():
    assert by_place("receipts") == {"AggregateStatistic"}


def test_those_without_arrays_are_equal_by_value_and_the_others_by_identity():
    others = with_arrays("receipts")
    assert by_value("receipts") == classes_of("receipts").keys() - others


LEFT_OUT = """
aggregates.AggregateReceipt(receipt_version=1)
aggregates.AggregateStatistic(repeats=1)
base.Number(optional=False)
base.WholeNumber(below=9223372036854775808, optional=False)
base.digest(digits=64)
base.json_object(most_characters=1048576)
base.key_fields(on_device=False, half_words=False)
labels.LabelReceipt(receipt_version=1)
labels.receipt_of_answers(on_device=False)
reports.ReportReceipt(delta=0.0, receipt_version=1)
selections.SelectionReceipt(receipt_version=1)
training.TrainingReceipt(resumed=0, receipt_version=1)
vectors.Receipt(receipt_version=1)
verify.verify_charges(independent_samples=False)
"""


def test_what_a_caller_leaves_out_means_what_it_did():
    """A default is a part of every call that does not name it: another one changes those calls without a word."""
    assert numbers_left_out("receipts") == LEFT_OUT.split("\n")[1:-1]
