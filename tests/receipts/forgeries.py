"""Forged receipts and ledgers, each decided by a seed: valid ones of every kind, and what forgers make of them."""

import copy
import dataclasses
import json
import math
import types
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

import hushvec as hv
from collect.surveys import vocabulary
from hushvec._native import _core
from hushvec._util.rounding import float32_up, fraction_down, product_up
from hushvec.accounting import compose
from hushvec.accounting.correlated import CorrelatedNoise
from hushvec.aggregates import private_snapshot
from hushvec.collect import BloomFilter, Memo
from hushvec.noise.calibration import gaussian_epsilon
from hushvec.receipts.aggregates import AggregateReceipt, AggregateStatistic, squared_mu
from hushvec.receipts.selections import SelectionReceipt
from hushvec.receipts.training import TrainingReceipt, sensitivity_factor
from hushvec.release.charging import entry_of_charge
from hushvec.release.labels import privatize_labels

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_receipt.py"
UNIFORM = 2**64
ROWS = np.ones((4, 32), np.float32)
HOSTILE_TEXTS = ("", "1", "01", "+1", " 1", "1_0", "\uff11", "\ud800", "\u202e", "\x1b[2K", "A" * 64, "0" * 64, "Block", "1/2", "é")
HOSTILE_NUMBERS = (
    0, 1, -1, 2, 3, 2**24, 2**24 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**300, 10**400, 0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 128.0,
    5e-324, 1e-300, 2.0**-100, 2.0**-101, 2.0**-53, 2.0**-10, 1e-9, 2.0**100, 2.0**101, 1e300, 1.7976931348623157e308, 20.0,
)  # fmt: skip
HOSTILE = (*HOSTILE_TEXTS, *HOSTILE_NUMBERS, True, False, None, [], {}, [1], ["note"], [["note"]], ["\ud800"], {"a": 1})


def module_of(source):
    """The script of this source, loaded without being run."""
    module = types.ModuleType("check_receipt")
    exec(compile(source, str(SCRIPT), "exec"), module.__dict__)
    return module


@cache
def genuine():
    """(receipts as mappings, export of the ledger that paid for them), one pair for each currency."""
    return [_paid_by(hv.PrivacyBudget(1e6, 0.5)), _paid_by(hv.PrivacyBudget(max_rho=1e9))]


def _paid_by(budget):
    receipts = []
    arguments = {"gaussian": {}, "laplacian": {}, "l2_laplace": {}, "privunit": {}, "empirical": {"epsilon": None, "sigma": 0.3}}
    for mechanism, own in arguments.items():
        for per, epsilon in (("record", 8.0), ("release", 0.5)):
            settings = {"epsilon": epsilon, "mechanism": mechanism, "per": per, "budget": budget, **own}
            receipts.append(hv.privatize(ROWS, **settings).receipt)
    for mechanism in ("gaussian", "privunit", "empirical"):
        settings = {"epsilon": 8.0, "mechanism": mechanism, "budget": budget, "dtype": "int8", **arguments[mechanism]}
        receipts.append(hv.privatize(ROWS, **settings).receipt)
    for mechanism in ("discrete_gaussian", "discrete_laplacian"):
        for counts, per, dtype in ((1, "record", "int64"), (32, "record", "int32"), (32, "release", "int64")):
            settings = {"mechanism": mechanism, "per": per, "epsilon": 2.0, "clip_norm": 20.5, "budget": budget}
            receipts.append(hv.privatize(np.ones((4, counts), dtype), **settings).receipt)
    for per, answers in (("record", 1), ("release", 3)):
        receipts.append(privatize_labels([1] * answers, range(5), epsilon=1.5, per=per, budget=budget).receipt)
    for mechanism in ("k_rr", "unary", "hadamard"):
        words = vocabulary(30, 2.0, mechanism, words_per_person=2)
        receipts.append(words.release(["word1", "word2"], per="release", budget=budget).receipt)
        receipts.append(words.release("word1", budget=budget).receipt)
    for settings in ({}, {"p": 0.0, "q": 1.0}):
        words = BloomFilter(64, 2, epsilon=2.0, **settings)
        receipts.append(words.release("word1", budget=budget).receipt)
        receipts.append(words.release("word1", per="release", memo=Memo(), budget=budget).receipt)
    instantaneous = BloomFilter(64, 2, f=0, words_per_person=2)
    receipts.append(instantaneous.release("word1", budget=budget).receipt)
    receipts.append(instantaneous.release(["word1", "word2"], per="release", budget=budget).receipt)
    selection = SelectionReceipt(
        epsilon=3.0, delta=0.0, selections=3, picks=2, candidates=8, score_low=-1.0, score_high=1.0, sensitivity=1.0,
        epsilon_per_pick=0.5, key_source="os", cipher="chacha20", rounds=20, format_version=1, is_dp_claim=True,
        library_version=hv.__version__,
    )  # fmt: skip
    receipts.append(dataclasses.replace(selection, charge=entry_of_charge(budget, 3.0, 0.0, selection.loss.rho, "search")))
    kinds = ({"adjacency": "replace-one"}, {"clipping": "batch"}, {"grade": "float", "is_dp_claim": False})
    correlated = {"correlation": CORRELATED, "planned_steps": 120, "sigma": product_up(4.0, CORRELATED.sensitivity)}
    for settings in ({}, *kinds, correlated, {**correlated, "adjacency": "replace-one"}):
        receipts.append(_paid(budget, training_receipt(**settings), "training"))
    for settings in ({}, {"statistics": (SUMS, MOMENTS)}, {"adjacency": "replace-one", "rows": 10_003}, {"rows_per_person": 3}):
        receipts.append(_paid(budget, aggregate_receipt(**settings), "aggregates"))
    public = {"pool": np.eye(4), "texts": list("abcd"), "components": 2, "epsilon": 2.0, "delta": 1e-5, "budget": budget}
    made = private_snapshot(np.eye(4)[[0, 1] * 9], [0, 1] * 9, labels=2, **public)  # all its statistics are of one receipt
    receipts.append(made.receipt)
    return [json.loads(receipt.to_json()) for receipt in receipts], json.loads(json.dumps(budget.export()))


CORRELATED = CorrelatedNoise.bisr(bands=4, steps=120, min_separation=30, max_participations=3)


@lru_cache(maxsize=None, typed=True)  # seconds, where the steps are of samples; 1.0 is not 1
def training_receipt(**settings):
    """Of 100 steps, without sampling unless told otherwise; epsilon is what they cost."""
    fields = {
        "adjacency": "add-remove", "epsilon": 0.0, "delta": 1e-5, "steps": 100, "sampling_probability": 1.0, "noise_multiplier": 8.0,
        "clip_norm": 0.5, "clipping": "auto", "sigma": 4.0, "expected_batch_size": 64.0, "theorem": "gaussian", "grade": "exact",
        "key_source": "os", "cipher": "chacha20", "rounds": 20, "format_version": 1, "is_dp_claim": True,
        "library_version": hv.__version__, **settings,
    }  # fmt: skip
    clipped = "batch" if fields["clipping"] == "batch" else "example"
    factor = sensitivity_factor(fields["adjacency"], clipped, fields["sampling_probability"])
    receipt = TrainingReceipt(**fields, sensitivity=factor * fields["clip_norm"])
    return dataclasses.replace(receipt, epsilon=compose([receipt], delta=receipt.delta).epsilon)


SUMS = AggregateStatistic(
    statistic="sums", purpose="sums of each class", groups=77, dimension=384, clip_norm=1.0, sigma=4.25, count_sigma=12.0
)
COUNTS = AggregateStatistic(statistic="counts", purpose="people of each class", groups=77, dimension=0, count_sigma=9.5)
MOMENTS = AggregateStatistic(statistic="moments", purpose="second moments", groups=1, dimension=384, clip_norm=0.5, sigma=3.5)


def aggregate_receipt(**settings):
    """Of class sums with counts, and counts, unless told otherwise; the multiplier and epsilon are what they give."""
    fields = {
        "adjacency": "add-remove", "rows_per_person": 1, "rows_bound": "people", "delta": 1e-5, "statistics": (SUMS, COUNTS),
        "rows": None, "grade": "exact", "key_source": "os", "cipher": "chacha20", "rounds": 20, "format_version": 1,
        "is_dp_claim": True, "library_version": hv.__version__, **settings,
    }  # fmt: skip
    square = squared_mu(fields["statistics"], fields["adjacency"], fields["rows_per_person"])
    multiplier = fields.pop("noise_multiplier", _inverse_root(square))
    epsilon = fields.pop("epsilon", None)
    if epsilon is None:
        epsilon = gaussian_epsilon(fields["delta"], multiplier)
    return AggregateReceipt(**fields, noise_multiplier=multiplier, epsilon=epsilon)


def _inverse_root(square):
    """The largest float that is at most 1 / sqrt(square)."""
    root = fraction_down(Fraction(math.isqrt(2**800 * square.denominator // square.numerator), 2**400))
    above = math.nextafter(root, math.inf)
    return above if Fraction(above) ** 2 * square <= 1 else root


def _paid(budget, receipt, purpose):
    return dataclasses.replace(receipt, charge=entry_of_charge(budget, receipt.epsilon, receipt.delta, receipt.rho, purpose))


def forged_receipt(seed, kind=None):
    """The text of a receipt, one in twenty as it was issued; of any kind, or of one."""
    rng = np.random.default_rng((17, seed))
    receipts, _ = genuine()[rng.integers(2)]
    receipts = [receipt for receipt in receipts if kind in (None, receipt.get("receipt_kind"))]
    receipt = copy.deepcopy(receipts[rng.integers(len(receipts))])
    if rng.random() < 0.05:
        return json.dumps(receipt)
    for change in sorted(rng.choice(len(_CHANGES), size=1 + (rng.random() < 0.25), p=_WEIGHTS)):
        receipt = _CHANGES[change](rng, receipt)
    if receipt.get("receipt_kind") == "training" and isinstance(receipt.get("sampling_probability"), float):
        receipt["sampling_probability"] = max(1.0, receipt["sampling_probability"])  # what sampling costs takes seconds to recompute
    text = json.dumps(receipt, ensure_ascii=bool(rng.integers(2)))
    return _TRICKS[rng.integers(len(_TRICKS))](rng, text) if rng.random() < 0.15 else text


def _pick(rng, options):
    return options[rng.integers(len(options))]


def _about_1(rng):
    return 1 + rng.choice([-1, 1]) * 10.0 ** -rng.integers(1, 17)


def _any_field(rng, receipt):
    """A field set to a value that some other field may have."""
    return {**receipt, _pick(rng, list(receipt)): copy.deepcopy(_pick(rng, HOSTILE))}


def _other_kind(rng, receipt):
    """The same value written as another JSON type."""
    name = _pick(rng, list(receipt))
    value = receipt[name]
    forms = [str(value), [value], {name: value}, value is True, float(value) if isinstance(value, int) else 1]
    return {**receipt, name: _pick(rng, forms)}


def _fields(rng, receipt):
    """A field dropped, added or renamed."""
    name = _pick(rng, list(receipt))
    rest = {one: value for one, value in receipt.items() if one != name}
    return _pick(rng, [rest, {**receipt, "surprise": 1}, {**rest, name.upper(): receipt[name]}, {**receipt, "receipt_kind": "labels"}])


def _promise(rng, receipt):
    """epsilon or delta moved by a part of 10^-1 to 10^-17, or to the next float."""
    name = _pick(rng, ["epsilon", "epsilon", "epsilon", "delta"])
    value = receipt[name]
    if not isinstance(value, float) or isinstance(value, bool):
        return receipt
    factor = _about_1(rng)
    return {**receipt, name: _pick(rng, [value * factor, value * factor, math.nextafter(value, math.inf), math.nextafter(value, 0)])}


def _neighbours(rng, receipt):
    """A number moved a little, or by a power of two."""
    names = [name for name, value in receipt.items() if type(value) in (int, float)]
    if not names:
        return receipt
    name = _pick(rng, names)
    value = receipt[name]
    if type(value) is int:
        return {**receipt, name: _pick(rng, [value + 1, value - 1, 2 * value, value // 2, -value])}
    changed = [math.nextafter(value, 0), math.nextafter(value, math.inf), 2 * value, value / 2, value * (1 + 1e-6), -value]
    return {**receipt, name: _pick(rng, changed)}


def _words(rng, receipt):
    """A word of a fixed set replaced by another one, or by one of none; a flag turned."""
    words = {
        "mechanism": "gaussian laplacian l2_laplace privunit empirical k_rr unary hadamard bloom randomized_response Gaussian",
        "per": "record release Record", "sensitivity_norm": "l1 l2 linf", "grade": "exact float EXACT", "key_source": "os seed OS",
        "dtype": "float32 float64 float16 bfloat16 float8 int8", "scores": "none uniform source all", "nonfinite": "raise zero",
        "receipt_kind": "labels reports selection vectors training aggregate", "adjacency": "replace-one add-remove",
        "rows_bound": "people promised People",
        "clipping": "auto exact estimated batch none",
    }  # fmt: skip
    flags = [name for name, value in receipt.items() if isinstance(value, bool)]
    # Fields of few kinds come more often: their kinds are few among the receipts.
    name = _pick(rng, [name for name in (*words, *flags, *["scores", "memoised"] * 5) if name in receipt])
    value = not receipt[name] if name in flags else _pick(rng, words[name].split())
    return {**receipt, "is_dp_claim": bool(rng.integers(2)), name: value}


def _cipher(rng, receipt):
    """Another cipher, with its own rounds and format version or with those of another; or none."""
    ciphers = {"aes256": (14, 2), "chacha20": (20, 1), "chacha12": (12, 1), "chacha8": (8, 1)}
    name = _pick(rng, [*ciphers, *ciphers, receipt.get("cipher"), "aes128", "AES256", "chacha", None])
    others = _pick(rng, [*ciphers.values(), (receipt.get("rounds"), receipt.get("format_version"))])
    rounds, version = ciphers.get(name, others)
    of_format = _pick(rng, [version, others[1], 3])
    forged = {**receipt, "cipher": name, "rounds": _pick(rng, [rounds, others[0]]), "format_version": of_format}
    return forged if rng.random() < 0.7 else {field: value for field, value in forged.items() if field != "cipher"}


def _law(rng, receipt):
    """Another law, mostly one that adds up; epsilon about what it gives."""
    if receipt.get("mechanism") == "privunit":
        p = _pick(rng, [2.0**-10, 2.0**-53, 2.0**-54, 1e-9, 0.5, 0.97, 1 - 2.0**-53, rng.random()])
        t = _pick(rng, [0.0, 0.5, 1.2815515655446004, 3.0, 6.0, 8.2, 40.0, 128.0])
        rows = receipt["rows"] if receipt["per"] == "release" else 1
        needed = rows * _core.privunit_epsilon(p, t) if (p * 2**53).is_integer() else 7.0
        return {**receipt, "cap_probability": p, "threshold": t, "epsilon": _pick(rng, [1e-6, 40.0, needed * _about_1(rng)])}
    if receipt.get("receipt_kind") == "aggregate":
        return _statistic(rng, receipt)
    if "truth_values" not in receipt:
        return _promise(rng, receipt)
    name = "cells" if "cells" in receipt else "label_count"
    cells = _pick(rng, [2, 3, 4, 5, 6, 64, 1000, 2**24, receipt[name]])
    other = int(_pick(rng, [0, 1, 2, 2**40, UNIFORM // cells, UNIFORM // (2 * cells), int(receipt["other_values"])]))
    truth = UNIFORM - (cells - 1) * other + _pick(rng, [0, 0, 0, 0, 1, -1])
    changed = {**receipt, name: cells, "truth_values": str(truth), "other_values": str(other)}
    if rng.random() < 0.8 and truth > other > 0:
        rows = receipt.get("words_of_one", receipt.get("answers", 1))
        changed["epsilon"] = rows * math.log(truth / other) * max(1, 2 * receipt.get("hashes", 0)) * _about_1(rng)
    if "hashes" in receipt and rng.random() < 0.3:
        changed["hashes"] = _pick(rng, [0, 1, 2, 2**40])
        changed["one_values"] = str(_pick(rng, [0, 1, 2**63, UNIFORM - 1, UNIFORM, UNIFORM + 1]))
        changed["zero_values"] = str(_pick(rng, [0, 1, 2**62, UNIFORM - 1, UNIFORM]))
    return changed


def _statistic(rng, receipt):
    """One statistic changed: null where something is given, or given where there is null; another kind, clip norm or noise."""
    statistics = receipt["statistics"]
    if type(statistics) is not list or not all(type(one) is dict and one for one in statistics):
        return _promise(rng, receipt)   # changed before
    place = rng.integers(len(statistics))
    one, name = statistics[place], _pick(rng, [*statistics[place], "clip_norm", "sigma", "count_sigma"])
    values = {
        "statistic": ["sums", "counts", "moments", "means"], "purpose": ["", "votes", "\x1b[2K", None, 1, "\ud800"],
        "groups": [1, 1, 2, 0, 1.0, 2**63], "dimension": [0, 1, 384, -1, True, 2**63], "repeats": [1, 2, 0, 2.0, None, 2**62, 2**63],
    }  # fmt: skip
    value = one[name]
    near = []
    if type(value) is float:
        near = [2 * value, value / 2, math.nextafter(value, 0), float(np.float32(value * _about_1(rng)))]
    odd = [None, None, 1.0, 4.0, 7, 0.1, 0.0, -1.0, 2.0**-100, 2.0**-101, 2.0**100, 2.0**101, "1", True]
    changed = {**one, name: _pick(rng, values.get(name, [*near, *near, *odd]))}
    others = [*statistics[:place], *statistics[place + 1 :]]
    rest = {field: value for field, value in one.items() if field != name}
    lists = [[*others, changed]] * 40 + [others, [*statistics, one], [*others, {**one, "surprise": 1}], [*others, rest]]
    return {**receipt, "statistics": _pick(rng, [*lists, [one] * 64, [one] * 65, [*statistics, None], {"0": one}])}


def _aggregates(rng, receipt):
    """Other statistics, with a multiplier and an epsilon about what they give, or what a laxer sensitivity would."""
    noise = [float(float32_up(Fraction(2.0 ** rng.uniform(-3, 6)))) for _ in range(2)]
    if rng.random() < 0.1:
        noise = [_pick(rng, [2.0**-100, 2.0**100, 0.1, 2.0**-60]) for _ in range(2)]
    clip_norm = _pick(rng, [1.0, 1, 0.1, 0.75, 2.0, 2.0**-100, 2.0**100]) if rng.random() < 0.5 else 2.0 ** rng.uniform(-3, 3)
    made = [
        dataclasses.replace(SUMS, clip_norm=clip_norm, sigma=noise[0], count_sigma=_pick(rng, [None, noise[1]])),
        dataclasses.replace(COUNTS, count_sigma=noise[0], repeats=_pick(rng, [1, 1, 16, 1000])),
        dataclasses.replace(MOMENTS, clip_norm=clip_norm, sigma=noise[1]),
    ]
    statistics = [_pick(rng, made) for _ in range(rng.integers(1, 5))]
    adjacency, rows = _pick(rng, ["add-remove", "replace-one"]), _pick(rng, [1, 1, 1, 2, 3, 2**40])
    changed = {
        "statistics": [dataclasses.asdict(one) for one in statistics], "adjacency": adjacency, "rows_per_person": rows,
        "rows_bound": _pick(rng, ["people", "promised"]), "delta": _pick(rng, [1e-5, 1e-12, 1e-300, 0.5]),
        "rows": _pick(rng, [None, None, 0, 10**6] if adjacency == "replace-one" and rows == 1 else [None] * 7 + [5]),
    }  # fmt: skip
    if not all(one.sigma is None or np.float32(one.sigma) == one.sigma for one in statistics) or 0.1 in noise:
        return {**receipt, **changed}
    # As stated; of one release for many; of the other adjacency; of one row; of C for 2 C; without the counts.
    square = squared_mu(statistics, adjacency, rows)
    without = [dataclasses.replace(one, count_sigma=None) for one in statistics if one.statistic == "sums"]
    once = [dataclasses.replace(one, repeats=1) for one in statistics]
    lax = [
        squared_mu(once, adjacency, rows), squared_mu(without, adjacency, rows) or square, square / rows**2, square / 4,
        squared_mu(statistics, "add-remove", rows), squared_mu(statistics, "replace-one", rows),
    ]  # fmt: skip
    multiplier = _inverse_root(square if rng.random() < 0.75 else _pick(rng, lax))
    about = [multiplier, multiplier, math.nextafter(multiplier, math.inf), math.nextafter(multiplier, 0), multiplier * _about_1(rng)]
    multiplier = _pick(rng, about)
    if rng.random() < 0.2:
        odd = [{"groups": 2}, {"count_sigma": 4.0}, {"count_sigma": None}, {"dimension": 0}, {"dimension": 3}, {"clip_norm": None}]
        changed["statistics"][0] |= _pick(rng, odd)
    epsilon = float(gaussian_epsilon(changed["delta"], multiplier))
    epsilon = _pick(rng, [epsilon, epsilon, epsilon * (1 + 1e-9), epsilon * _about_1(rng)])
    return {**receipt, **changed, "noise_multiplier": multiplier, "epsilon": epsilon if math.isfinite(epsilon) else 1e300}


def _correlation(rng, receipt):
    """Another schedule or other coefficients, with a sigma about what they need, or what a laxer sensitivity would; or odd ones."""
    steps, separation = _pick(rng, [1, 2, 30, 120, 121]), _pick(rng, [1, 7, 30, 120, 200])
    tail = [[], [-0.5], [-0.5, -0.125, -0.0625], [-0.25, 0.0, -0.5], [-1.0], [float(np.float32(-0.3))], [0.0, -1.0]]
    most = _pick(rng, [None, 1, 2, 3, 50])
    given = (1.0, *_pick(rng, tail))
    noise = CorrelatedNoise(coefficients=given, steps=steps, min_separation=separation, max_participations=most)
    once = dataclasses.replace(noise, max_participations=1)
    needed = [product_up(receipt["noise_multiplier"], 0.5, one.sensitivity) for one in (noise, noise, once)]
    sigma = _pick(rng, [*needed, math.nextafter(needed[0], 0), math.nextafter(needed[0], math.inf), needed[0] * _about_1(rng)])
    written = noise.to_dict()
    odd = [{"steps": 2**20 + 1}, {"steps": 0}, {"min_separation": True}, {"max_participations": None}, {"max_participations": 10**6}]
    odd += [{"coefficients": [1, -0.5]}, {"coefficients": [1.0, -0.3]}, {"coefficients": [1.0, 0.5]}, {"coefficients": [1.0, -0.0]}]
    odd += [{"coefficients": []}, {"coefficients": [1.0] * 33}, {"coefficients": "1"}, {"surprise": 1}]
    written = {**written, **_pick(rng, odd)} if rng.random() < 0.3 else written
    planned, taken = _pick(rng, [steps, steps, steps, steps, steps + 1, None]), _pick(rng, [0, 1, steps, steps, 120])
    return {**receipt, "correlation": written, "sigma": sigma, "planned_steps": planned, "steps": taken}


def _noise(rng, receipt):
    """Another sigma or scale on its grid or beside it, and an epsilon about what it gives."""
    if receipt.get("receipt_kind") == "aggregate":
        return _aggregates(rng, receipt)
    name = next((name for name in ("sigma", "scale") if isinstance(receipt.get(name), float)), None)
    if name is None:
        return _law(rng, receipt)
    if isinstance(receipt.get("correlation"), dict) and rng.random() < 0.9:
        return _correlation(rng, receipt)
    if receipt.get("receipt_kind") == "training":
        noise = _pick(rng, [receipt["noise_multiplier"], 2.0, 0.0, 20.0])
        changed = {"steps": _pick(rng, [0, 1, 100, 10**6]), "noise_multiplier": noise, "sigma": max(noise, 1.0), "clip_norm": 1.0}
        changed |= {"planned_steps": _pick(rng, [None, 99, 100, 10**7]), "epsilon": None}
        changed["sensitivity"] = _pick(rng, [1.0, 2.0, 4.0, 4.0])
        if noise > 0:
            spread = math.sqrt(changed["steps"]) * _pick(rng, [1, 2, changed["sensitivity"]])
            changed["epsilon"] = float(gaussian_epsilon(receipt["delta"], noise, spread)) * _about_1(rng) if spread else 0.0
        return {**receipt, **changed}
    value = float(np.float32(receipt[name] * 2.0 ** rng.uniform(-8, 8)))
    value = _pick(rng, [value, value, value, math.nextafter(value, 0)])
    grid = 2.0 ** (math.frexp(value)[1] - 1 - _pick(rng, [3, 6, 6, 6, 7]))
    epsilon = receipt["epsilon"] * receipt[name] / value
    delta = _pick(rng, [receipt["delta"], receipt["delta"], 1e-12, 1e-300, 0.5])
    if receipt["mechanism"] in ("gaussian", "empirical") and 0 < delta < 1:
        epsilon = float(gaussian_epsilon(delta, value, receipt["sensitivity"]))
    epsilon *= _about_1(rng)
    changed = {name: value, "grid": _pick(rng, [grid, grid, None]), "epsilon": epsilon, "delta": delta}
    if "saturation_probability" in receipt:
        changed["saturation_probability"] = _pick(rng, [receipt["saturation_probability"], 2.0**-64, 1e-9, 1e-4, 1.0])
        changed["grid"] = _pick(rng, [grid, 2.0 ** math.floor(math.log2(value) - 3), 2 * grid])
    return {**receipt, **changed}


def _charge(rng, receipt):
    """The charge's own fields."""
    charge = receipt["charge"]
    if not isinstance(charge, dict):
        return {**receipt, "charge": _pick(rng, HOSTILE)}
    name = _pick(rng, list(charge))
    rest = {one: value for one, value in charge.items() if one != name}
    values = [*HOSTILE, "0" * 64, "another", charge.get("sequence")]
    changed = {**charge, name: _pick(rng, values)}
    return {**receipt, "charge": _pick(rng, [*[changed] * 8, rest, {**charge, "surprise": 1}, list(charge)])}


# In this order where there are several: the first two read fields that those behind them break.
_CHANGES = (_law, _noise, _promise, _neighbours, _words, _cipher, _charge, _any_field, _other_kind, _fields)
_WEIGHTS = (0.16, 0.16, 0.14, 0.08, 0.10, 0.06, 0.06, 0.16, 0.05, 0.03)


def _replace_number(text):
    """Epsilon written as JSON must not be, or may be but rarely is."""

    def trick(rng, written):
        head, _, tail = written.partition('"epsilon": ')
        if not tail:
            return written
        end = min(place for place in (tail.find(","), tail.find("}")) if place >= 0)
        return f'{head}"epsilon": {text}{tail[end:]}'

    return trick


def _twice(rng, written):
    """A field a second time, in the receipt or in its charge."""
    name = _pick(rng, ["epsilon", "delta", "is_dp_claim", "notes", "ledger", "sequence"])
    head, _, tail = written.partition(f'"{name}": ')
    end = min((place for place in (tail.find(", "), tail.find("}")) if place >= 0), default=0)
    return f'{head}"{name}": {tail[:end]}, "{name}": {tail}' if tail else written


_TRICKS = (
    *map(_replace_number, ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1E1", "01", "1.", ".5", "0x10", "-0", "9" * 5000)),
    *[_twice] * 4,
    lambda rng, written: "\ufeff" + written,
    lambda rng, written: written + _pick(rng, [" ", "\n", "\x00", "{}", ",", "]", "\u00a0"]),
    lambda rng, written: _pick(rng, [" ", "\n\t", "\u2028", "\x0c", "//\n"]) + written,
    lambda rng, written: written[: rng.integers(len(written))],
    lambda rng, written: "[" * int(_pick(rng, [1, 200, 2000, 100_000])) + written,
    lambda rng, written: written.replace('"notes": [', '"notes": ' + "[" * int(_pick(rng, [2, 90, 5000])), 1),
    lambda rng, written: written.replace('"notes": []', '"notes": ["\\ud800"]').replace('"notes": ["', '"notes": ["\\ud83d\\ude00'),
    lambda rng, written: written.replace("e", "\\u0065", 1),
    lambda rng, written: written.replace('"', "'"),
    lambda rng, written: written.replace(", ", _pick(rng, [",", " , ", ",,", "\x0b, "])),
    lambda rng, written: f"[{written}]",
    lambda rng, written: json.dumps(written),
    lambda rng, written: written.replace('"library_version": "', '"library_version": "' + _pick(rng, ["\n", "\t", "\\n", "\x7f"])),
    lambda rng, written: written.replace('"notes": [', '"notes": ["' + "n" * 2**20 + '", ') if rng.random() < 0.05 else written,
)


def forged_ledger(seed, row_hash):
    """(export, receipts) of a ledger in which something was changed, and of which a forger may have written all hashes anew."""
    rng = np.random.default_rng((23, seed))
    receipts, export = copy.deepcopy(genuine()[rng.integers(2)])
    export["rows"] = export["rows"][: int(_pick(rng, [2, 3, 5, len(export["rows"])]))]
    _sealed_anew(export, row_hash)
    if rng.random() < 0.9:
        _LEDGER_CHANGES[rng.integers(len(_LEDGER_CHANGES))](rng, export)
    if rng.random() < 0.7:
        _sealed_anew(export, row_hash)
    chosen = [copy.deepcopy(_pick(rng, receipts[: int(_pick(rng, [1, 2, 5]))])) for _ in range(rng.integers(0, 4))]
    if rng.random() < 0.5:
        _name_rows(export, chosen)
    if chosen and rng.random() < 0.4:
        place = rng.integers(len(chosen))
        chosen[place] = _charge(rng, chosen[place])
    return export, chosen


def _row(rng, export):
    rows = export["rows"]
    row = rows[rng.integers(len(rows))]
    name = _pick(rng, list(row))
    texts = ["", "0", "1", "10.5", "1/2", "1e1", "-1", "0.50", "01", ".5", "+1", " 1", "١", "0." + "0" * 322 + "1", "9" * 1001]
    values = [*HOSTILE, *texts, "open", "charge", "reset", "block", "warn", "Block", "a\nb", "a\rb", "a\u2028b", rows[0].get(name)]
    row[name] = _pick(rng, values)


def _amount(rng, export):
    row = _pick(rng, export["rows"])
    name = _pick(rng, ["epsilon", "delta", "rho", "total_epsilon", "total_delta", "total_rho"])
    row[name] = _pick(rng, ["", "0", "1/2", "0.5", "1e6", "1e1", "8"])


def _terms(rng, export):
    name = _pick(rng, ["policy", "epsilon", "rho", "kind"])
    export["rows"][0][name] = _pick(rng, ["Block", "warn", "block", "", "1/2", "0.5", "1000000"])


def _header(rng, export):
    name = _pick(rng, list(export))
    if name != "rows" or rng.random() < 0.3:
        export[name] = copy.deepcopy(_pick(rng, [*HOSTILE, True, 1.0, {"rows": True, "entry_hash": "0" * 64}, [{}], "0" * 64]))


def _order(rng, export):
    rows = export["rows"]
    place = int(rng.integers(len(rows)))
    moved = rows.pop(place)
    rows[int(rng.integers(len(rows) + 1)) : 0] = [] if rng.random() < 0.4 else [moved] * int(_pick(rng, [1, 1, 2]))


def _row_fields(rng, export):
    rows = export["rows"]
    place = int(rng.integers(len(rows)))
    name = _pick(rng, list(rows[place]))
    rest = {one: value for one, value in rows[place].items() if one != name}
    rows[place] = _pick(rng, [rest, {**rows[place], "surprise": 1}, [], None, "row"])


def _reset(rng, export):
    row = _pick(rng, export["rows"])
    row |= {"kind": "reset", "epsilon": _pick(rng, ["", "", "0", "1"]), "delta": _pick(rng, ["", "", "0"]), "rho": ""}


_LEDGER_CHANGES = (_row, _row, _row, _amount, _amount, _terms, _header, _order, _row_fields, _reset)


def _sealed_anew(export, row_hash):
    """Sequences, hashes, and often periods and totals as a forger would write them, as far as the rows allow it."""
    previous = "0" * 64
    try:
        for number, row in enumerate(export["rows"], 1):
            if type(row["sequence"]) is int:
                row["sequence"] = number
            row["previous_hash"] = previous
            previous = row["entry_hash"] = row_hash(export["budget_key"], row)
        if isinstance(export["head"], dict) and export["rows"]:
            export["ledger"] = export["rows"][0]["entry_hash"]
            export["head"] = {"rows": len(export["rows"]), "entry_hash": previous}
    except (KeyError, TypeError, UnicodeEncodeError):
        pass


def _name_rows(export, receipts):
    """Charges that name the rows as they are now."""
    rows = export["rows"]
    for receipt in receipts:
        charge = receipt["charge"]
        if isinstance(charge, dict) and isinstance(rows, list) and 0 < charge["sequence"] <= len(rows):
            row = rows[charge["sequence"] - 1]
            if isinstance(row, dict) and isinstance(row.get("entry_hash"), str) and isinstance(export["ledger"], str):
                receipt["charge"] = {**charge, "ledger": export["ledger"], "entry_hash": row["entry_hash"]}
