"""A mechanism of one class and one line works in everything that takes mechanisms: nothing has a table of its own.

The class is `Staircase`. Its epsilon claim is proved in its docstring; here it is tried against its law and its receipt.
"""

import ast
import dataclasses
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
import hushvec.extend
from cli.command import hushvec_here
from hushvec import mechanisms
from hushvec.audit import MechanismTarget, audit_mechanism
from hushvec.jobs import NoiseJob
from hushvec.mechanisms import MECHANISMS
from hushvec.mechanisms.recommend import recommend
from hushvec.retrieval import PrivateIndex, VectorNoise, embedding_inversion, membership_inference
from hushvec.retrieval.measures import theoretical_cosine
from hushvec.text import Rewriter
from hushvec.text.corpus import PublicCorpus
from hushvec.text.inverters.posterior import CandidateLaw
from hushvec.text.inverters.public import PublicInverter
from mechanisms.staircase import Staircase
from retrieval.attacks.small_indexes import directions

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_receipt.py"
PACKAGE = Path(hv.__file__).parent
CLEAN = directions(60, 4, seed=1)


@pytest.fixture(autouse=True)
def known():
    with mechanisms.registered(Staircase):
        yield


def seeded(seed=1):
    return hv.Generator.unsafe_seeded(seed)


# ---- its own law ----


def test_it_keeps_its_contract():
    assert len(hushvec.extend.check_mechanism(Staircase)) > 10


@pytest.mark.parametrize(("epsilon", "clip_norm", "dimension", "rows"), [(1.0, 1.0, 1, 1), (0.3, 1.5, 4, 2), (8.0, 0.1, 384, 1)])
def test_its_epsilon_is_that_of_all_elements_of_a_person(epsilon, clip_norm, dimension, rows):
    made = Staircase(epsilon=epsilon, clip_norm=clip_norm, dimension=dimension, rows_per_person=rows)
    assert Fraction(made.step) >= 2 * Fraction(clip_norm) > Fraction(made.step) / 2
    assert dimension * rows * Fraction(made.step) / Fraction(made.scale) <= Fraction(epsilon)
    assert made.cost == (epsilon, 0.0)


def test_its_noise_falls_by_one_factor_a_step():
    """100,000 numbers at epsilon = 2: the steps against (1 - a) / (1 + a) a^|k| and places in a step against a uniform, alpha 1e-6."""
    values = hv.privatize(np.zeros((100_000, 1)), epsilon=2.0, mechanism="staircase", generator=seeded()).values[:, 0]
    steps = np.floor(values / 2.0 + 0.5)
    a = math.exp(-2.0)
    counts = [(np.abs(steps) == k).sum() for k in range(4)]
    shares = [(1 - a) / (1 + a) * a**k * (1 if k == 0 else 2) for k in range(4)]
    counts.append(len(values) - sum(counts))
    shares.append(1 - sum(shares))
    assert stats.chisquare(counts, np.array(shares) * len(values)).pvalue > 1e-6
    assert stats.kstest(values / 2.0 + 0.5 - steps, "uniform").pvalue > 1e-6
    wrong = np.array([(1 - b) / (1 + b) * b**k * (1 if k == 0 else 2) for b in [math.exp(-2.1)] for k in range(4)])
    assert stats.chisquare(counts, np.append(wrong, 1 - wrong.sum()) * len(values)).pvalue < 1e-6


# ---- what takes mechanisms ----


def test_privatize_knows_it_by_name():
    release = hv.privatize(CLEAN, epsilon=4.0, mechanism="staircase")
    assert release.values.shape == CLEAN.shape and release.values.dtype == CLEAN.dtype
    receipt = release.receipt
    assert (receipt.mechanism, receipt.epsilon, receipt.delta, receipt.scale) == ("staircase", 4.0, 0.0, 2.0)
    assert receipt.is_dp_claim and receipt.sensitivity == 8.0 and receipt.grid == 2.0**-19
    with pytest.raises(TypeError, match="epsilon must be given for mechanism 'staircase'"):
        hv.privatize(CLEAN, mechanism="staircase")
    budget = hv.PrivacyBudget(10.0)
    paid = hv.privatize(CLEAN, epsilon=4.0, mechanism="staircase", budget=budget).receipt
    assert hv.verify_charges([paid], budget.export()).status == "holds"


def test_its_receipts_hold_and_forged_ones_do_not():
    receipt = hv.privatize(CLEAN, epsilon=4.0, mechanism="staircase", clip_norm=1.5, per="release").receipt
    assert hv.verify_receipt(receipt).status == "holds"
    assert hv.verify_receipt(json.loads(receipt.to_json())).status == "holds"
    forged = [{"epsilon": 3.99}, {"scale": receipt.scale / 2}, {"rows": 61}, {"dimension": 5}, {"clip_norm": 2.1}, {"delta": 1e-9}]
    forged += [{"grid": 1.0}, {"sigma": 1.0}, {"scale": None}, {"threshold": 1.0}, {"sensitivity": 1.0}, {"format_version": 3}]
    for changes in forged:
        assert hv.verify_receipt(dataclasses.replace(receipt, **changes)).status == "does not hold", changes


def test_hushvec_verify_reads_its_receipts(tmp_path):
    path = tmp_path / "receipt.json"
    path.write_text(hv.privatize(CLEAN, epsilon=4.0, mechanism="staircase").receipt.to_json())
    found = hushvec_here("verify", path)
    assert found.code == 0 and "holds" in found.out
    path.write_text(path.read_text().replace('"epsilon": 4.0', '"epsilon": 1.0'))
    assert hushvec_here("verify", path).code == 1


def test_the_independent_verifier_refuses_what_it_does_not_know(tmp_path):
    path = tmp_path / "receipt.json"
    path.write_text(hv.privatize(CLEAN, epsilon=4.0, mechanism="staircase").receipt.to_json())
    found = subprocess.run([sys.executable, str(SCRIPT), str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 3 and "mechanism" in found.stdout + found.stderr


def test_its_losses_compose():
    receipts = [hv.privatize(CLEAN, epsilon=epsilon, mechanism="staircase").receipt for epsilon in (1.0, 2.0)]
    assert hv.accounting.compose(receipts, delta=0.0).epsilon == 3.0
    assert receipts[0].rho == Staircase(epsilon=1.0, dimension=4).loss.rho


def test_it_is_audited_by_its_own_law():
    made = Staircase(epsilon=2.0, dimension=2)
    target = MechanismTarget(made, seeded)
    assert np.abs(target.log_ratio(target.stream()(np.tile(target.pair[0], (2000, 1))))).max() == pytest.approx(2.0, rel=1e-6)
    assert 0 < target.collision < 1e-9
    assert not audit_mechanism(made, samples=20_000).flagged
    assert audit_mechanism(dataclasses.replace(made, epsilon=1.0), samples=20_000, method="pair").results[0].epsilon_lower > 0.5


def test_the_audit_catches_it_with_half_its_noise():
    class Halved(Staircase):
        @property
        def noise_norm(self):
            return super().noise_norm / 2

        def _release(self, x, out, source, out_is_fresh):
            return dataclasses.replace(self, epsilon=2 * self.epsilon)._release_as(Staircase, x, out, source)

        def _release_as(self, kind, x, out, source):
            return kind._release(self, x, out, source, True)

    assert audit_mechanism(Halved(epsilon=2.0, dimension=1), samples=40_000, method="pair").flagged


def index_of(generator):
    noise = VectorNoise(mechanism="staircase", epsilon=16.0)
    return PrivateIndex(4, documents=noise, store="numpy", generator=generator)


def test_attacks_on_indexes_know_its_density():
    release = hv.privatize(CLEAN, epsilon=256.0, mechanism="staircase", generator=seeded())
    found = embedding_inversion(release.values, CLEAN, receipt=release.receipt, resamples=20)
    assert found.identified[1].low > 5 / 60  # chance is 1 / 60; within its step a row leaves no trace
    attack = membership_inference(index_of, CLEAN, attack="released", shadow_models=4, k=5, resamples=20)
    assert 0 <= attack.auc.value <= 1 and attack.epsilon_claimed == 16.0
    assert 0 < theoretical_cosine(release.receipt) == Staircase(epsilon=256.0, dimension=4).expected_cosine()


def test_recommend_compares_it():
    found = recommend(1, 4.0, 0.0, task="release", unit_rows=False)
    assert found.mechanism == Staircase(epsilon=4.0, dimension=1)  # with one number and a large epsilon, less noise than Laplace
    assert "staircase: noise norm" in found.why and ", against noise norm" in found.why and "laplacian" in found.why
    assert recommend(384, 8.0, 0.0, task="release", unit_rows=False).mechanism.name == "laplacian"


class Words:
    dimension = 4

    def embed(self, texts):
        return np.stack([CLEAN[len(text) % 60] for text in texts])


def corpus():
    return PublicCorpus(tuple(f"public text {number}" for number in range(60)), CLEAN)


def test_rewrite_takes_it_and_decodes_by_its_law():
    rewriter = Rewriter(epsilon=200.0, mechanism="staircase", embedder=Words(), inverter=PublicInverter(corpus()), projection=None)
    found = rewriter.rewrite("some words")
    assert found.mechanism == "staircase" and found.receipt.mechanism == "staircase" and found.output.startswith("public text")
    assert found.scale == found.receipt.scale and found.noise_sigma is None
    assert hv.verify_receipt(found.receipt).status == "holds"
    law = CandidateLaw(Staircase(epsilon=200.0, dimension=4), CLEAN, 1.0)
    noisy = hv.privatize(CLEAN, mechanism=law.mechanism, generator=seeded()).values
    own = law.weights(noisy)[np.arange(60), np.arange(60)]
    assert own.mean() > 5 / 60 and own.min() > 0


def test_the_services_policy_may_name_it(tmp_path):
    pytest.importorskip("starlette")
    from serve.services import client_of, policy_fields

    with client_of(policy_fields(tmp_path / "budget.sqlite", epsilon=8.0, mechanism="staircase")) as client:
        answer = client.post("/v1/embeddings", json={"input": ["a b", "c"], "model": "words"})
    assert answer.status_code == 200
    receipt = answer.json()["hushvec"]["receipt"]
    assert receipt["mechanism"] == "staircase" and hv.verify_receipt(receipt).status == "holds"


def test_the_command_line_offers_it(tmp_path):
    np.save(tmp_path / "in.npy", CLEAN)
    found = hushvec_here("privatize", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--epsilon", "8", "--mechanism", "staircase")
    assert found.code == 0 and np.load(tmp_path / "out.npy").shape == CLEAN.shape
    assert hushvec_here("verify", tmp_path / "out.npy.receipt.json").code == 0
    assert "staircase" in hushvec_here("privatize", "--help").out
    audited = hushvec_here("audit", "mechanism", "--mechanism", "staircase", "--epsilon", "2", "--samples", "2000", "--dimension", "1")
    assert audited.code == 0 and "staircase" in audited.out
    told = hushvec_here("recommend", "--dimension", "1", "--epsilon", "4", "--delta", "0", "--task", "release", "--any-length")
    assert "staircase" in told.out


# ---- what it cannot be used for, in words ----


def test_what_needs_more_of_a_mechanism_refuses_it():
    with pytest.raises(ValueError, match="mechanism must be one of jobs, got 'staircase'"):
        NoiseJob.start(dimension=4, mechanism="staircase", epsilon=4.0)
    with pytest.raises(ValueError, match="dtype must be None for mechanism 'staircase'"):
        hv.privatize(CLEAN, epsilon=4.0, mechanism="staircase", dtype="int8")
    with pytest.raises(ValueError, match="epsilon must leave noise of 2"):
        hv.privatize(CLEAN, epsilon=1e9, mechanism="staircase")


def test_a_name_belongs_to_one_class():
    assert mechanisms.register(Staircase) is Staircase  # again is no harm
    with pytest.raises(ValueError, match="mechanism must have a name of its own, got 'staircase', which is known"):
        mechanisms.register(type("Other", (Staircase,), {}))
    with pytest.raises(TypeError, match="mechanism must be a subclass of VectorMechanism, got dict"):
        mechanisms.register({})
    with pytest.raises(TypeError, match="mechanism must define noise_norm, got Half without"):
        mechanisms.register(type("Half", (mechanisms.VectorMechanism,), {"name": "half"}))


def test_after_the_block_it_is_unknown():
    with mechanisms.registered(type("Another", (Staircase,), {"name": "another"})):
        assert "another" in MECHANISMS
    assert "another" not in MECHANISMS
    with pytest.raises(ValueError, match="mechanism must be one of"):
        hv.privatize(CLEAN, epsilon=1.0, mechanism="another")


# ---- nothing else knows mechanisms by their class ----

OF_MECHANISMS = {kind.__name__ for kind in mechanisms.known_mechanisms().values()} | {"CodebookResponse", "AdditiveNoise"}


def test_no_class_of_a_mechanism_is_asked_for_outside_their_package():
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] in ("mechanisms", "accounting"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
                named = {leaf.id for leaf in ast.walk(node.args[1]) if isinstance(leaf, ast.Name)}
                found += [f"{path.relative_to(PACKAGE)}:{node.lineno}" for _ in named & OF_MECHANISMS]
    assert not found
