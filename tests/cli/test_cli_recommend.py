"""hushvec recommend: what the function says, and the next command."""

import json
import warnings

import numpy as np
import pytest

from cli.command import assert_one_line, hushvec_here
from hushvec.mechanisms import PublicCodebook
from hushvec.mechanisms.recommend import recommend

VECTORS = ("recommend", "--epsilon", 8, "--dimension", 384)


def answer(*arguments):
    finished = hushvec_here("recommend", *arguments, "--json")
    assert finished.code == 0, finished.err
    return json.loads(finished.out)


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ((), {}),
        (("--n", 1000), {"n": 1000}),
        (("--delta", 0, "--task", "release", "--any-length"), {"delta": 0.0, "task": "release", "unit_rows": False}),
        (("--task", "mean", "--n", 50, "--rows-per-person", 2), {"task": "mean", "n": 50, "rows_per_person": 2}),
        (("--clip-norm", 3, "--task", "release"), {"clip_norm": 3.0, "task": "release"}),
    ],
)
def test_it_is_the_function(arguments, settings):
    expected = recommend(384, 8.0, **settings)
    found = answer(*VECTORS[1:], *arguments)
    assert (found["mechanism"], found["why"]) == (expected.options[0].name, expected.why)
    assert [option["figures"] for option in found["options"]] == [dict(option.figures) for option in expected.options]
    assert [option["cost"] and tuple(option["cost"]) for option in found["options"]] == [
        None if option.mechanism is None else option.mechanism.cost for option in expected.options
    ]


def test_tasks_without_a_dimension():
    assert answer("--epsilon", 1, "--task", "labels", "--labels", 5, "--n", 1000)["mechanism"] == "randomized_response"
    assert answer("--epsilon", 1, "--task", "top_k", "--k", 3)["mechanism"] == "gumbel_top_k"


def test_what_is_printed():
    lines = hushvec_here(*VECTORS, "--task", "release", "--any-length").out.splitlines()
    assert lines[1].startswith("gaussian")
    assert "  privunit: releases directions only, and unit_rows is False" in lines
    assert lines[-1] == "Next  hushvec privatize IN -o OUT --mechanism gaussian --epsilon 8 --delta 1e-05"
    assert max(map(len, lines)) <= 80


def test_no_command_where_none_says_it():
    """The split of epsilon for n rows, and rows of one person, have no options of `hushvec privatize`."""
    assert "Next  hushvec privatize IN -o OUT --mechanism privunit --epsilon 8\n" in hushvec_here(*VECTORS).out
    for more in (("--n", 1000), ("--rows-per-person", 2)):
        assert "Next" not in hushvec_here(*VECTORS, *more).out


def test_a_codebook_and_a_sample(tmp_path):
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((20, 16))
    public, sample = (np.float32(centers[rng.integers(0, 20, 200)] + 0.1 * rng.standard_normal((200, 16))) for _ in range(2))
    PublicCodebook.of(public).save(tmp_path / "book.npz")
    np.save(tmp_path / "sample.npy", sample)
    files = ("--codebook", tmp_path / "book.npz", "--public-sample", tmp_path / "sample.npy")
    assert answer("--epsilon", 8, "--dimension", 16, *files)["mechanism"] == "codebook"


def test_a_warning_is_one_line(tmp_path):
    """A codebook that does not fit the sample."""
    public, sample = np.random.default_rng(0).standard_normal((2, 200, 16)).astype(np.float32)
    PublicCodebook.of(public).save(tmp_path / "book.npz")
    np.save(tmp_path / "sample.npy", sample)
    files = ("--codebook", tmp_path / "book.npz", "--public-sample", tmp_path / "sample.npy")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        finished = hushvec_here("recommend", "--epsilon", 1, "--dimension", 16, *files)
    assert finished.code == 0 and finished.err.startswith("hushvec recommend: warning: ")
    assert [line.partition(" ")[0] for line in finished.err.splitlines()] == ["hushvec", "hushvec"]
    assert finished.err.splitlines()[1].startswith("hushvec recommend: took 200 rows x 16 columns of ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--epsilon", 8], "--dimension must be given for --task retrieval: elements in a vector"),
        (["--dimension", 384], "the following arguments are required: --epsilon"),
        (["--epsilon", 0, "--dimension", 384], "epsilon must be > 0, got 0.0"),
        (["--epsilon", 8, "--dimension", 384, "--task", "mean"], "n must be given for task 'mean'"),
        (["--epsilon", 8, "--dimension", 384, "--labels", 3], "labels must be None for task 'retrieval', got 3"),
        (["--epsilon", 8, "--dimension", 384, "--codebook", "absent.npz"], "absent.npz"),
    ],
)
def test_bad_input(arguments, text):
    assert_one_line(hushvec_here("recommend", *arguments), text)
