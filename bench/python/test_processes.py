"""Programs with workers: questions and answers, the audit's bound and event, and samples that are refused."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import discrete
import federated
from processes import Process

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from processes import answer_all

def answer(do):
    print("noise of a library")
    if do == "import":
        import no_such_package_at_all
    if do == "end":
        sys.exit(3)
    return {{"did": do, "half": 1 / (do != "divide")}}

answer_all(answer)
"""


@pytest.fixture
def process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(folder=str(Path(__file__).parent)))
    started = Process(sys.executable, program)
    yield started
    started.close()


def test_a_process_answers_and_outlives_an_error(process):
    assert process.ask(do="this") == {"did": "this", "half": 1.0}
    assert process.ask(do="import") == {"failed": "not installed (No module named 'no_such_package_at_all')"}
    assert process.ask(do="divide") == {"failed": "ZeroDivisionError: division by zero"}
    assert process.ask(do="that")["did"] == "that"
    assert process.ask(do="end") == {"failed": "ended with code 3"}
    assert process.ask(do="this") == {"failed": "ended with code 3"}


def test_the_bound_is_that_of_clopper_and_pearson():
    """All hits and no alarms have closed forms: a = (alpha / 10)^(1/n), b = 1 - (0.9 alpha)^(1/n)."""
    alpha, n, m, delta = 1 - federated.CONFIDENCE, 500, 40_000, 1e-5
    a, b = (alpha / 10) ** (1 / n) - delta, 1 - (0.9 * alpha) ** (1 / m)
    assert federated.lower_bound(n, n, 0, m, delta) == pytest.approx(math.log(a / b), rel=1e-6)
    assert federated.lower_bound(0, n, 0, m, delta) == 0
    assert federated.lower_bound(n, n, m, m, delta) == 0


@pytest.mark.parametrize(("distance", "least", "most"), [(4.13, 7.0, 11.5), (2.0, 3.5, 10.0), (40_000.0, 8.5, 9.0)])
def test_the_event_tells_normal_sums_apart(distance, least, most):
    """n = 4,000 and 40,000 sums with a seed, confidence 0.999. Epsilon is 25.4, 10.0 and 8e8 at delta 1e-5; 8.7 is the most seen."""
    rng = np.random.default_rng(5)
    end = federated.end_of_event(distance + rng.standard_normal(1000), rng.standard_normal(1000), 4000, 40_000, 1e-5)
    hits, alarms = int((distance + rng.standard_normal(4000) >= end).sum()), int((rng.standard_normal(40_000) >= end).sum())
    assert least <= federated.lower_bound(hits, 4000, alarms, 40_000, 1e-5) <= most


def test_samples_of_another_law_are_refused():
    """n = 100,000: one of 6 standard errors is 1.3 % of the variance; a wrong sigma of 1 % is 2 %."""
    def draw(sigma, shift=0):
        return lambda count, rng=np.random.default_rng(6): np.rint(sigma * rng.standard_normal(count)).astype(np.int64) + shift

    def complaint(draw, count=100_000):
        return discrete.complaint(draw(count), draw, count, 100.0)

    assert complaint(draw(100.0)) is None
    assert complaint(draw(102.0)).startswith("variance ")
    assert complaint(draw(100.0, shift=4)).startswith("mean ")
    assert complaint(lambda count: np.zeros(count)) == "not integers but float64"
    same = draw(100.0)(5000)
    assert complaint(lambda count: same[:count], 5000) == "the same samples again"
