"""Numbers at the ends of their range, in receipts of every kind: each verifier has an answer or one clear error, and soon."""

import contextlib
import json
import math
import time
import warnings

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec_here
from evidence.reference.sizes import scaled
from hushvec.accounting import compose
from hushvec.errors import ReceiptError
from hushvec.receipts import receipt_from_json
from receipts.forgeries import HOSTILE, SCRIPT, genuine, module_of, training_receipt

EXTREME = (
    *(value for value in HOSTILE if not isinstance(value, str)), math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 5e-324, -5e-324,
    2.0**-64, 2.0**-65, 1 - 2.0**-53, 2.0**-1022, 2**31, 2**40, 2**62, 10**30, "18446744073709551616", "9" * 20, "9" * 5000,
)  # fmt: skip
SECONDS = 1.0


def kinds():
    """One receipt for each kind and law, by name."""
    found = {}
    for fields in genuine()[0][0]:
        name = f"{fields.get('receipt_kind', 'vectors')} {fields['mechanism']} {fields.get('dtype', '')} {fields.get('clipping', '')}"
        found.setdefault(name.strip(), fields)
    found["training sampled"] = training_receipt(sampling_probability=0.01, sigma=4.0).to_dict()
    return found


@pytest.fixture(scope="module")
def checker():
    return module_of(SCRIPT.read_text())


def numbers_of(fields):
    return [name for name, value in fields.items() if isinstance(value, (int, float)) and not isinstance(value, bool)] + [
        name for name in fields if name.endswith("_values")
    ]


def everything_about(fields):
    """What is done with a receipt of others: it is checked, shown, and added to one more like it."""
    receipt = receipt_from_json(json.dumps(fields))
    status = hv.verify_receipt(receipt).status
    str(receipt)
    if status == "holds" and receipt.has_loss:
        with contextlib.suppress(ValueError):   # one clear error, such as for a rho beyond floats
            compose([receipt, receipt], delta=min(0.9, 2 * receipt.delta + 1e-9))
            assert receipt.rho >= 0
    return status


def in_time(function, *arguments, seconds=SECONDS):
    began = time.process_time()
    try:
        return function(*arguments)
    finally:
        assert time.process_time() - began < seconds, arguments


def extremes(fields, seed):
    """Every number of a receipt at every extreme, and some of them together."""
    names, rng = numbers_of(fields), np.random.default_rng((31, seed))
    for name in names:
        for value in EXTREME:
            yield {**fields, name: value}
    for _ in range(scaled(200, 5000)):
        changed = rng.choice(names, size=rng.integers(2, 5))
        yield {**fields, **{name: EXTREME[rng.integers(len(EXTREME))] for name in changed}}


@pytest.mark.alone
@pytest.mark.parametrize("name", kinds())
def test_a_verifier_answers_whatever_the_numbers(checker, name):
    """In a second; where a training is sampled, in eight times what it takes as issued."""
    warnings.simplefilter("error")   # NaN on its way to an answer
    as_issued, answers = kinds()[name], set()
    assert in_time(everything_about, as_issued) in ("holds", "not a DP claim")
    seconds = 4 * SECONDS if name == "training sampled" else SECONDS
    for changed in extremes(as_issued, len(name)):
        try:
            answers.add(in_time(everything_about, changed, seconds=seconds))
        except ReceiptError:
            answers.add("error")
        if name == "training sampled" or changed.get("sampling_probability", 1) != 1:
            continue   # the script takes its own time: see below
        with contextlib.suppress(checker.Unreadable):
            in_time(checker.check_receipt, changed)
    assert {"does not hold", "error"} < answers


@pytest.mark.alone
@pytest.mark.parametrize(
    "changed",
    [
        {"steps": 2**40 - 1, "sampling_probability": 1e-9, "noise_multiplier": 1000.0, "sigma": 500.0},
        {"steps": 2**20, "sampling_probability": 1e-3, "noise_multiplier": 5.0},
        {"steps": 2**40 - 1, "sampling_probability": 0.5, "noise_multiplier": 1e10, "sigma": 1e10},
        {"delta": 5e-324},
        {"delta": 1e-22},
        {"steps": 3, "sampling_probability": 1 - 2.0**-53, "noise_multiplier": 0.06},
    ],
    ids=str,
)
def test_the_script_ends_with_sampled_training(changed):
    """With a tenth of its points; it took minutes for delta = 5e-324 and for 2^40 steps."""
    coarse = module_of(SCRIPT.read_text().replace("POINTS = 2000", "POINTS = 150"))
    fields = {**kinds()["training sampled"], "sigma": 4.0, **changed}
    assert in_time(coarse.check_receipt, fields, seconds=20)[0] in ("holds", "does not hold", "undecided")


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("name", kinds())
@pytest.mark.parametrize("hostile", [nested(90_000), '{"a":' * 90_000 + "1" + "}" * 90_000, "9" * 100_000, "1e400", "-" + "9" * 4000])
def test_deep_and_long_json_is_refused(checker, tmp_path, name, hostile):
    fields = kinds()[name]
    for field in ("epsilon", "notes", "charge"):
        text = json.dumps({**fields, field: "HERE"}).replace('"HERE"', hostile)
        with pytest.raises(ReceiptError):
            in_time(receipt_from_json, text)
        with pytest.raises((ValueError, RecursionError)):
            in_time(lambda text: checker.check_receipt(checker.parse(text)), text)
    path = tmp_path / "receipt.json"
    path.write_text(text)
    assert_one_line(hushvec_here("verify", path))


def test_a_selection_that_overflows_does_not_hold(tmp_path):
    fields = {**kinds()["selection gumbel_top_k"], "epsilon_per_pick": 1.7e308}
    found = hv.verify_receipt(fields)
    assert found.status == "does not hold" and "give epsilon = 1.02000e+309, more than the 3.0 stated" in found.reasons[0]
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps({**fields, "selections": 1, "picks": 1, "epsilon": 1.7e308}))
    assert hushvec_here("verify", path).code == 0
    assert_one_line(hushvec_here("verify", path, path))   # rho is beyond floats
