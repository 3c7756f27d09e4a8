"""The dataclasses of hushvec.budget: which can be changed, which take arguments by place, and which are equal by value."""

from room_classes import by_place, by_value, classes_of, numbers_left_out, that_change, with_arrays


def test_nothing_but_an_open_request_can_be_changed_after_it_is_made():
    assert that_change("budget") == {"_Request"}


def test_arguments_are_named_but_for_those_of_few():
    assert by_place("budget") == {"ChainReport", "Charge", "_Request"}


def test_those_without_arrays_are_equal_by_value_and_the_others_by_identity():
    others = with_arrays("budget") | {"_Request"}
    assert by_value("budget") == classes_of("budget").keys() - others


LEFT_OUT = """
arguments.terms_of_limits(per_person=False)
charge.BudgetState(per_person=False)
charge.Charge(repeated=False)
durable.DurableLedger(keeps_own_delta=False)
ledger.PrivacyBudget(per_person=False)
ledger.PrivacyBudget.aaffordable(delta=0.0)
ledger.PrivacyBudget.aconsume(delta=0.0)
ledger.PrivacyBudget.affordable(delta=0.0)
ledger.PrivacyBudget.charge_many(delta=0.0)
ledger.PrivacyBudget.consume(delta=0.0)
memory.MemoryLedger.charge(warns=True)
postgresql.PostgreSQLStore.write(keep=True)
sqlite.SQLiteStore.write(keep=True)
store.Store.write(keep=True)
store.StoreFailure(unknown=False)
store.Transaction.rows(behind=0, most=9223372036854775807)
"""


def test_what_a_caller_leaves_out_means_what_it_did():
    """A default is a part of every call that does not name it: another one changes those calls without a word."""
    assert numbers_left_out("budget") == LEFT_OUT.split("\n")[1:-1]
