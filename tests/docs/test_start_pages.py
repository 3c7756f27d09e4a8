"""The pages in docs/start print and say what hushvec computes."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import hushvec as hv
from hushvec.mechanisms import Gaussian, PrivUnit, RandomizedResponse

START = Path(__file__).parents[2] / "docs" / "start"


def outputs_in(code):
    """A comment below a loop, or after print(...) and up to a semicolon, is a line of the output."""
    return ["".join(pair) for pair in re.findall(r"^# (.*)$|print\(.*\) +# ([^;\n]*)", code, re.MULTILINE)]


# Those that show what they print; tests/docs/test_blocks.py runs all of them.
BLOCKS = [
    pytest.param(code, id=f"{path.name}:{number}")
    for path in sorted(START.glob("*.md"))
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE), 1)
    if outputs_in(code)
]
EPSILONS = (0.5, 1, 2, 4, 8, 16)
LENGTHS = (2, 10, 1000, 100_000)


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_prints_what_its_comments_say(code):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    assert printed.getvalue().splitlines() == outputs_in(code)


def percent(share):
    """Two digits; from 99 % on as many as tell it from 100 %."""
    value = 100 * share
    digits = ".2g" if value < 10 else ".0f" if value < 99 else ".4g" if value < 99.999 else ".7g"
    return f"{value:{digits}} %"


def row(epsilon):
    found = [percent(RandomizedResponse(epsilon=epsilon, k=length).probability_of_truth) for length in LENGTHS]
    kept = [f"{one.expected_cosine():.2g}" for one in mechanisms(epsilon)]
    return "| " + " | ".join([f"{epsilon:g}", *found, *kept]) + " |"


def mechanisms(epsilon):
    return PrivUnit(epsilon=epsilon, dimension=384), Gaussian(epsilon=epsilon, delta=1e-5, dimension=384)


def test_the_table_of_epsilons_is_what_hushvec_computes():
    table = re.search(r"<!-- figures: epsilon -->\n(.*?)<!-- end of figures -->", (START / "epsilon.md").read_text(), re.DOTALL)[1]
    assert table.splitlines()[3:] == [row(epsilon) for epsilon in EPSILONS]


def test_a_list_of_candidates_bounds_everyone():
    """The columns are those of randomized response over the list, which reaches the bound of membership_bound.md, claim 5."""
    from hushvec.retrieval.attacks.bounds import identification_bound

    for epsilon in EPSILONS:
        for length in LENGTHS:
            reached = RandomizedResponse(epsilon=epsilon, k=length).probability_of_truth
            assert reached == pytest.approx(identification_bound(epsilon, 0.0, length), rel=1e-9)


def test_the_output_of_recommend_is_that_on_the_page():
    page = (START / "mechanism.md").read_text()
    shown = re.search(r"<!-- output of recommend -->\n```\n(.*?)```", page, re.DOTALL)[1]
    printed = str(hv.recommend(384, 8.0, 1e-5)).splitlines()
    assert shown.splitlines() == [line.rstrip() for line in printed[:7]]


def test_the_clinic_s_epsilon_is_the_largest_below_five_percent():
    at_39, at_40 = (RandomizedResponse(epsilon=epsilon, k=1000).probability_of_truth for epsilon in (3.9, 4.0))
    assert at_39 < 0.05 < at_40
    assert f"{PrivUnit(epsilon=3.9, dimension=384).expected_cosine():.3f}" == "0.075"
