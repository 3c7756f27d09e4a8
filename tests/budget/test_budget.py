"""What a budget promises its user, in every store: memory, SQLite, PostgreSQL."""

import dataclasses
import math
import pickle
import re
import time

import pytest

from hushvec.budget import PrivacyBudget, budget_keys, implied_epsilon, verify_ledger
from hushvec.errors import BudgetError, PrivacyBudgetExhaustedError, PrivacyBudgetWarning


def test_the_source_documents_example(make):
    budget = make(10.0)
    budget.consume(1.0)
    assert (budget.remaining(), budget.consumed(), budget.is_exhausted()) == (9.0, 1.0, False)
    budget.reset()
    assert (budget.remaining(), budget.consumed()) == (10.0, 0.0)


def test_exactly_the_rest_is_allowed_and_the_next_charge_raises(make):
    budget = make(1.0)
    for _ in range(10):
        budget.consume(0.1)
    assert (budget.consumed(), budget.remaining(), budget.is_exhausted()) == (1.0, 0.0, True)
    with pytest.raises(PrivacyBudgetExhaustedError) as caught:
        budget.consume(5e-324)
    error = caught.value
    assert (error.code, error.max_epsilon, error.consumed_epsilon) == ("PRIVACY_BUDGET_EXHAUSTED", 1.0, 1.0)
    assert (error.max_delta, error.consumed_delta, error.max_rho, error.consumed_rho) == (1e-3, 0.0, None, None)
    assert "reset" in error.hint and error.hint in str(error)


def test_a_refused_charge_leaves_no_trace(make):
    budget = make(5.0)
    budget.consume(3.0, 1e-6)
    before = budget.state()
    with pytest.raises(PrivacyBudgetExhaustedError, match=r"\(2.5, 1e-05\) asked for, \(2.0, 0.000999\) left of \(5.0, 0.001\)"):
        budget.consume(2.5, 1e-5)
    assert budget.state() == before
    budget.consume(2.0)
    assert budget.verify().holds


def test_rows_have_the_time_of_their_charge_in_microseconds(make):
    begin = time.time_ns() // 1000
    budget = make(1.0)
    budget.consume(0.5)
    budget.reset()
    times = [row["time_us"] for row in budget.export()["rows"]]
    assert len(times) == 3 and begin <= times[0] <= times[1] <= times[2] <= time.time_ns() // 1000


def test_remaining_can_be_consumed(make):
    budget = make(1.0, 0.5)
    budget.consume(0.1 + 0.2, 1 / 3)
    budget.consume(1 / 3, 1e-17)
    budget.consume(budget.remaining(), budget.remaining_delta())
    assert budget.is_exhausted()


def test_delta_is_tracked_and_limits(make):
    budget = make(100.0, 3e-5)
    for _ in range(3):
        budget.consume(1.0, 1e-5)
    assert (budget.consumed_delta(), budget.remaining_delta(), budget.is_exhausted()) == (3e-5, 0.0, True)
    with pytest.raises(PrivacyBudgetExhaustedError) as caught:
        budget.consume(1.0, 1e-300)
    assert "delta" in caught.value.hint
    assert (caught.value.max_delta, caught.value.consumed_delta) == (3e-5, 3e-5)
    budget.consume(1.0)  # epsilon is left for a mechanism without delta
    assert budget.consumed() == 4.0


# a charge of privatize's default delta for every 0.1 of epsilon, at least 100, at most 1000 of them
@pytest.mark.parametrize(
    ("max_epsilon", "max_delta"), [(0.01, 1e-3), (1, 1e-3), (10.0, 1e-3), (50.0, 5e-3), (33.3, 0.00333), (1e6, 1e-2)]
)
def test_default_max_delta(max_epsilon, max_delta):
    assert PrivacyBudget(max_epsilon).state().max_delta == max_delta


def test_who_never_thought_of_delta_is_not_surprised_by_it():
    budget = PrivacyBudget(10.0)
    for _ in range(100):
        budget.consume(0.1, 1e-5)
    with pytest.raises(PrivacyBudgetExhaustedError) as caught:
        budget.consume(0.1, 1e-5)
    assert caught.value.consumed_epsilon == 10.0


def test_max_delta_zero_admits_pure_mechanisms_only(make):
    budget = make(1.0, 0.0)
    budget.consume(0.5)
    assert not budget.is_exhausted()
    with pytest.raises(PrivacyBudgetExhaustedError):
        budget.consume(0.1, 1e-300)


def test_a_charge_says_what_it_is(make):
    budget = make(1.0)
    charge = budget.consume(0.25, 1e-6, rho=0.01, purpose="a study")
    state, row = budget.state(), budget.export()["rows"][-1]
    assert dataclasses.is_dataclass(charge)
    assert (charge.epsilon, charge.delta, charge.rho, charge.sequence, charge.repeated) == (0.25, 1e-6, 0.01, 2, False)
    assert (charge.ledger, charge.entry_hash, charge.sequence) == (state.ledger, state.entry_hash, state.rows)
    assert (row["charge_id"], row["purpose"], row["entry_hash"]) == (charge.charge_id, "a study", charge.entry_hash)
    with pytest.raises(dataclasses.FrozenInstanceError):
        charge.epsilon = 0.0
    assert pickle.loads(pickle.dumps(charge)) == charge
    assert charge == dataclasses.replace(charge)
    assert charge.entry_hash in repr(charge)


def test_a_retry_charges_nothing(make):
    budget = make(1.0)
    first = budget.consume(0.75, 1e-6, charge_id="monday")
    again = budget.consume(0.75, 1e-6, charge_id="monday")
    assert again.repeated and not first.repeated
    assert dataclasses.replace(again, repeated=False) == first
    assert budget.consumed() == 0.75
    assert budget.state().rows == 2


def test_a_retry_works_when_the_budget_is_used_up(make):
    budget = make(1.0)
    budget.consume(1.0, charge_id="all")
    assert budget.consume(1.0, charge_id="all").repeated


def test_a_made_up_id_can_be_repeated_too(make):
    budget = make(1.0)
    first = budget.consume(0.5)
    assert budget.consume(0.5, charge_id=first.charge_id).repeated
    assert budget.consumed() == 0.5
    assert budget.consume(0.5).charge_id != first.charge_id


@pytest.mark.parametrize("amounts", [(0.5, 1e-6), (0.25, 0.0), (0.25, 1e-6, 0.1)])
def test_an_id_with_other_amounts_is_an_error(make, amounts):
    budget = make(1.0)
    budget.consume(0.25, 1e-6, charge_id="monday")
    with pytest.raises(ValueError, match=r"charge_id 'monday' must keep its amounts: it was charged \(epsilon=0.25, delta=1e-06\)"):
        budget.consume(*amounts[:2], rho=amounts[2] if len(amounts) > 2 else None, charge_id="monday")
    assert budget.consumed() == 0.25


def test_after_a_reset_an_old_id_is_charged_again(make):
    budget = make(1.0)
    first = budget.consume(0.75, charge_id="monday")
    made_up = budget.consume(0.25)
    budget.reset(purpose="a new month")
    second = budget.consume(0.75, charge_id="monday")
    third = budget.consume(0.25, charge_id=made_up.charge_id)
    assert not second.repeated and not third.repeated and second.entry_hash != first.entry_hash
    assert budget.state().period == 1
    assert budget.consumed() == 1.0
    assert budget.verify().holds


def test_reset_is_a_row(make):
    budget = make(1.0)
    budget.consume(0.5)
    budget.reset(purpose="a new month")
    rows = budget.export()["rows"]
    found = [(row["kind"], row["period"], row["total_epsilon"]) for row in rows]
    assert found == [("open", 0, "0"), ("charge", 0, "0.5"), ("reset", 1, "0")]
    assert rows[-1]["purpose"] == "a new month"


def test_warn_records_what_is_over(make):
    budget = make(5.0, on_exhausted="warn")
    budget.consume(5.0)
    with pytest.warns(PrivacyBudgetWarning, match=r"^Privacy budget exhausted: consumed 6.00 of 5.00 epsilon$") as caught:
        budget.consume(1.0)
    assert caught[0].filename == __file__
    with pytest.warns(PrivacyBudgetWarning, match="epsilon and 0.01 of 0.001 delta"):
        budget.consume(1.0, 0.01)
    assert (budget.consumed(), budget.remaining(), budget.is_exhausted()) == (7.0, 0.0, True)
    assert budget.verify().holds


def test_a_warning_made_an_error_comes_after_the_charge(make):
    budget = make(1.0, on_exhausted="warn")
    with pytest.raises(PrivacyBudgetWarning):
        budget.consume(2.0)
    assert budget.consumed() == 2.0


def test_a_retry_does_not_warn_again(make):
    budget = make(1.0, on_exhausted="warn")
    with pytest.warns(PrivacyBudgetWarning):
        budget.consume(2.0, charge_id="big")
    assert budget.consume(2.0, charge_id="big").repeated


def test_rho(make):
    budget = make(max_rho=0.5)
    budget.consume(rho=0.125)
    budget.consume(3.0, 1e-5, rho=0.25)
    pure = budget.consume(0.25)  # epsilon^2 / 2
    assert pure.rho == 0.03125
    assert (budget.consumed(), budget.remaining(), budget.consumed_delta()) == (0.40625, 0.09375, 0.0)
    state = budget.state()
    assert state.guarantee(1e-6) == (implied_epsilon(0.40625, 1e-6), 1e-6)
    assert state.limit_guarantee(1e-6) == (implied_epsilon(0.5, 1e-6), 1e-6)
    with pytest.raises(PrivacyBudgetExhaustedError, match=r"rho 0\.1 asked for, 0\.09375 left of 0\.5") as caught:
        budget.consume(rho=0.1)
    assert (caught.value.max_rho, caught.value.consumed_rho, caught.value.max_epsilon) == (0.5, 0.40625, None)
    budget.consume(rho=0.09375)
    assert budget.is_exhausted()
    assert budget.verify().holds


def test_rho_needs_rho():
    budget = PrivacyBudget(max_rho=1.0)
    with pytest.raises(ValueError, match="rho must be given"):
        budget.consume(1.0, 1e-5)
    with pytest.raises(TypeError, match="delta must be given"):
        budget.state().guarantee()


def test_epsilon_delta_guarantee():
    budget = PrivacyBudget(1.0)
    budget.consume(0.5, 1e-6)
    assert budget.state().guarantee() == (0.5, 1e-6)
    assert budget.state().limit_guarantee() == (1.0, 1e-3)
    with pytest.raises(TypeError, match="delta must be None"):
        budget.state().guarantee(1e-6)


@pytest.mark.parametrize("rho", [0.0, 1e-9, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-9, 1e-5, 0.5])
def test_implied_epsilon_is_rounded_up(rho, delta):
    from mpmath import iv, mpf

    iv.prec = 200
    exact = iv.mpf(mpf(rho)) + 2 * iv.sqrt(iv.mpf(mpf(rho)) * -iv.log(iv.mpf(mpf(delta))))
    found = implied_epsilon(rho, delta)
    assert (found == 0) == (rho == 0)
    assert mpf(math.nextafter(found, 0)) <= exact.a and (mpf(found) >= exact.b or rho == 0)


def test_implied_epsilon_is_a_guarantee_for_a_gaussian():
    """A Gaussian mechanism with s = sigma / sensitivity has rho = 1 / (2 s^2); its exact delta is below the one claimed."""
    from hushvec.noise.calibration import gaussian_delta

    for ratio in (0.2, 1.0, 5.0):
        for delta in (1e-9, 1e-5, 1e-2):
            assert gaussian_delta(implied_epsilon(1 / (2 * ratio**2), delta), ratio, 1.0) <= delta


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "text"),
    [
        ((), {}, TypeError, "max_epsilon or max_rho must be given"),
        ((None, 1e-5), {}, TypeError, "max_epsilon or max_rho must be given"),
        ((1.0,), {"max_rho": 1.0}, TypeError, "max_rho must be the only limit"),
        ((0.0,), {}, ValueError, "max_epsilon must be > 0, got 0.0"),
        ((-1.0,), {}, ValueError, "max_epsilon must be > 0"),
        ((math.nan,), {}, ValueError, "max_epsilon must be finite"),
        ((math.inf,), {}, ValueError, "max_epsilon must be finite"),
        ((True,), {}, TypeError, "max_epsilon must be a number, got bool"),
        (("10",), {}, TypeError, "max_epsilon must be a number, got str"),
        ((1.0, -1e-9), {}, ValueError, "max_delta must be >= 0"),
        ((1.0, 1.0), {}, ValueError, "max_delta must be < 1, got 1.0"),
        ((1.0, math.nan), {}, ValueError, "max_delta must be finite"),
        ((), {"max_rho": 0}, ValueError, "max_rho must be > 0"),
        ((1.0,), {"on_exhausted": "ignore"}, ValueError, "on_exhausted must be one of 'block', 'warn', got 'ignore'"),
        ((1.0,), {"on_exhausted": None}, TypeError, "on_exhausted must be a str"),
        ((1.0,), {"persist_key": ""}, ValueError, "persist_key must be 1 to 1000 printable characters"),
        ((1.0,), {"persist_key": "a\nb"}, ValueError, "persist_key must be"),
        ((1.0,), {"persist_key": 7}, TypeError, "persist_key must be a str, got int"),
        ((1.0,), {"store": "mysql://root@127.0.0.1/x"}, ValueError, "store must be a path, sqlite:///path or postgresql://"),
        ((1.0,), {"store": "sqlite://x"}, ValueError, "store must be sqlite:///"),
        ((1.0,), {"store": "sqlite:///x?mode=ro"}, ValueError, "store must be sqlite:///"),
        ((1.0,), {"store": ""}, ValueError, "store must be the path of a file"),
        ((1.0,), {"store": 7}, TypeError, "store must be a path, an address or a hushvec.extend.Store, got int"),
    ],
)
def test_bad_budgets(arguments, options, kind, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUSHVEC_BUDGET_STORE", str(tmp_path / "default.sqlite"))
    with pytest.raises(kind, match=text):
        PrivacyBudget(*arguments, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon must be > 0"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be finite"),
        ({"epsilon": -1.0}, ValueError, "epsilon must be > 0"),
        ({"epsilon": True}, TypeError, "epsilon must be a number, got bool"),
        ({"epsilon": 1.0, "delta": math.nan}, ValueError, "delta must be finite"),
        ({"epsilon": 1.0, "delta": 1.0}, ValueError, "delta must be"),
        ({"epsilon": 1.0, "rho": -1.0}, ValueError, "rho must be > 0"),
        ({"epsilon": 1.0, "charge_id": ""}, ValueError, "charge_id must be 1 to 1000 printable characters"),
        ({"epsilon": 1.0, "charge_id": "a\x00"}, ValueError, "charge_id must be"),
        ({"epsilon": 1.0, "charge_id": "\ud800"}, ValueError, "charge_id must be"),
        ({"epsilon": 1.0, "charge_id": 7}, TypeError, "charge_id must be a str, got int"),
        ({"epsilon": 1.0, "purpose": "a\u2028b"}, ValueError, "purpose must be"),
        ({"epsilon": 1.0, "purpose": "x" * 1001}, ValueError, "purpose must be"),
        ({}, TypeError, "epsilon must be given"),
    ],
)
def test_bad_charges_charge_nothing(make, options, kind, text):
    budget = make(10.0)
    with pytest.raises(kind, match=text):
        budget.consume(**options)
    assert budget.state().rows == 1


def test_text_of_any_language(make):
    budget = make(10.0)
    budget.consume(1.0, charge_id="Übung-7 研究 🙂", purpose="'; DROP TABLE --")
    assert budget.consume(1.0, charge_id="Übung-7 研究 🙂", purpose="another").repeated
    assert budget.verify().holds


def test_a_closed_budget_says_so(make):
    budget = make(1.0)
    with budget as entered:
        assert entered is budget
    budget.close()
    for call in (lambda: budget.consume(0.1), budget.remaining, budget.reset, budget.state, budget.verify, budget.export):
        with pytest.raises(ValueError, match="the budget is closed"):
            call()
    assert "closed" in repr(budget)


def test_it_is_there_after_closing(make_durable):
    with make_durable(10.0, 1e-4) as budget:
        charge = budget.consume(3.0, 1e-5)
    with make_durable(10.0, 1e-4) as budget:
        assert (budget.consumed(), budget.remaining(), budget.consumed_delta()) == (3.0, 7.0, 1e-5)
        assert budget.state().ledger == charge.ledger
    with make_durable(reopen=True) as budget:
        assert budget.state().max_epsilon == 10.0
        assert budget.head() == (2, charge.entry_hash)


@pytest.mark.parametrize(
    ("limits", "options"),
    [((20.0,), {}), ((10.0, 1e-4), {}), ((10.0,), {"on_exhausted": "warn"}), ((), {"max_rho": 10.0})],
)
def test_an_existing_ledger_keeps_its_terms(make_durable, limits, options):
    make_durable(10.0, 1e-5).consume(1.0)
    with pytest.raises(ValueError, match="must keep what it was opened with") as caught:
        make_durable(*limits, **options)
    assert "max_epsilon=10, max_delta=0.00001, on_exhausted='block'" in str(caught.value)
    assert "got (max_" in str(caught.value)


def test_leaving_max_delta_out_accepts_the_ledgers_own(make_durable):
    make_durable(10.0, 1e-5).close()
    assert make_durable(10.0).state().max_delta == 1e-5


def test_budgets_in_one_store_are_apart(make_durable):
    first, second = make_durable(1.0), make_durable(2.0, key=make_durable.key + "-b")
    first.consume(1.0, charge_id="x")
    assert not second.consume(1.0, charge_id="x").repeated
    assert (first.remaining(), second.remaining()) == (0.0, 1.0)
    assert {make_durable.key, make_durable.key + "-b"} <= set(budget_keys(make_durable.store))
    assert first.verify().holds and second.verify().holds


def test_reopening_and_verifying_need_a_ledger(make_durable):
    make_durable(1.0)
    for call in (PrivacyBudget.reopen, verify_ledger):
        with pytest.raises(BudgetError, match="there is no budget with key 'nobody'"):
            call("nobody", store=make_durable.store)


def test_what_is_printed_counts_charges_and_resets(tmp_path):
    with PrivacyBudget(1.0, persist_key="k", store=tmp_path / "budget.sqlite") as budget:
        budget.consume(0.25)
        assert "reset" not in str(budget)
        budget.reset()
        budget.consume(0.5)
        assert re.search("charges +2, in 2 periods", str(budget)) and "1 reset: what was spent before" in str(budget)


def test_reopening_makes_no_file(tmp_path):
    with pytest.raises(BudgetError, match="there is no such file"):
        PrivacyBudget.reopen("k", store=tmp_path / "budget.sqlite")
    assert not any(tmp_path.iterdir())


def test_the_folders_of_a_new_ledger_are_made_private(tmp_path):
    with PrivacyBudget(1.0, persist_key="k", store=tmp_path / "team" / "ledgers" / "budget.sqlite") as budget:
        budget.consume(0.5)
    assert (tmp_path / "team" / "ledgers").stat().st_mode & 0o777 == 0o700


def test_two_objects_see_each_other(make_durable):
    first, second = make_durable(1.0), make_durable(1.0)
    first.consume(0.75)
    assert second.remaining() == 0.25
    with pytest.raises(PrivacyBudgetExhaustedError):
        second.consume(0.5)


def test_pickling_opens_the_same_ledger(make_durable):
    budget = make_durable(1.0)
    budget.consume(0.5)
    with pickle.loads(pickle.dumps(budget)) as copy:
        copy.consume(0.25)
    assert budget.remaining() == 0.25


def test_a_pickled_budget_finds_its_file_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with PrivacyBudget(1.0, store="b.sqlite") as budget:
        budget.consume(0.5)
        sent = pickle.dumps(budget)
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pickle.loads(sent) as copy:
        assert copy.consumed() == 0.5


def test_memory_cannot_be_pickled():
    with pytest.raises(TypeError, match="a budget in memory, or a closed one, cannot be sent to another process"):
        pickle.dumps(PrivacyBudget(1.0))


def test_errors_can_be_pickled():
    budget = PrivacyBudget(1.0, max_delta=1e-3)
    with pytest.raises(PrivacyBudgetExhaustedError) as caught:
        budget.consume(2.0)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.max_epsilon, copy.hint, str(copy)) == (1.0, caught.value.hint, str(caught.value))
    failed = pickle.loads(pickle.dumps(BudgetError("gone", "id", True)))
    assert (failed.charge_id, failed.may_be_charged, str(failed)) == ("id", True, str(BudgetError("gone", "id", True)))


def test_privatize_charges_it():
    import numpy as np

    import hushvec as hv

    budget = PrivacyBudget(max_epsilon=2.0)
    hv.privatize(np.ones((3, 8), np.float32), epsilon=1.0, budget=budget)
    assert (budget.consumed(), budget.consumed_delta()) == (1.0, 1e-5)
    hv.privatize(np.ones((3, 8), np.float32), epsilon=1.0, budget=budget)
    with pytest.raises(PrivacyBudgetExhaustedError):
        hv.privatize(np.ones((3, 8), np.float32), epsilon=1.0, budget=budget)


def test_the_default_file(tmp_path, monkeypatch):
    monkeypatch.delenv("HUSHVEC_BUDGET_STORE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with PrivacyBudget(1.0, persist_key="notes") as budget:
        budget.consume(0.5)
    file = tmp_path / "hushvec" / "budget.sqlite"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert budget_keys() == ["notes"]
    monkeypatch.setenv("HUSHVEC_BUDGET_STORE", f"sqlite:///{tmp_path}/other.sqlite")
    with PrivacyBudget(1.0, persist_key="other"):
        assert budget_keys() == ["other"]


def test_a_store_without_a_key_and_memory_with_one(tmp_path):
    with PrivacyBudget(1.0, store=tmp_path / "b.sqlite") as budget:
        assert budget.state().key == "default"
    with PrivacyBudget(1.0, persist_key="k", store="memory") as budget:
        assert budget.state().key == "k"
    assert [file.name for file in tmp_path.iterdir()] == ["b.sqlite"]


def test_a_missing_driver_names_the_extra(monkeypatch):
    import sys

    from hushvec.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"hushvec\[postgresql\]"):
        PrivacyBudget(1.0, store="postgresql://u@127.0.0.1/d")
