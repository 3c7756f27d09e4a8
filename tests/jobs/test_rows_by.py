"""A job names its rows in one way: whatever order of kinds is tried, from copies and files, no row has two releases."""

import copy
import json
import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushvec as hv
from evidence.reference.sizes import scaled
from hushvec.jobs import NoiseJob, noise_batch
from hushvec.jobs.job import ROWS_BY

ROWS = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)
WAYS = {  # of naming the 20 rows
    "numbers": {},
    "partitions": {"partition": 0},
    "integer-ids": {"ids": np.arange(20)},
    "text-ids": {"ids": [str(i) for i in range(20)]},
}
CROSSINGS = {
    "pickle": lambda job, path: pickle.loads(pickle.dumps(job)),
    "copy": lambda job, path: copy.deepcopy(job),
    "file": lambda job, path: NoiseJob.load(path),
    "start": lambda job, path: NoiseJob.start(dimension=6, epsilon=4.0, path=path),
}


@settings(max_examples=scaled(40, 1000), deadline=None, derandomize=True)
@given(
    rows_by=st.sampled_from([None, *ROWS_BY]),
    tries=st.lists(st.tuples(st.sampled_from([*WAYS]), st.sampled_from([*CROSSINGS])), min_size=2, max_size=6),
)
def test_no_row_has_two_releases(rows_by, tries, tmp_path_factory):
    path = tmp_path_factory.mktemp("job") / "job.json"
    budget, released = hv.PrivacyBudget(10.0), set()
    job = NoiseJob.start(dimension=6, epsilon=4.0, path=path, rows_by=rows_by, budget=budget)
    for way, crossing in tries:
        job = CROSSINGS[crossing](job, path).charge(budget)
        with suppress(ValueError):
            released.add(noise_batch(ROWS, job, **WAYS[way]).tobytes())
    assert len(released) <= 1 and budget.consumed() == 4.0


@pytest.mark.parametrize("started", ROWS_BY)
@pytest.mark.parametrize("asked", WAYS)
def test_another_kind_is_refused_and_ids_that_print_alike_are_one(started, asked):
    job = NoiseJob.start(dimension=6, epsilon=4.0, rows_by=started)
    if started == asked or (started.endswith("ids") and asked.endswith("ids")):
        assert (noise_batch(ROWS, job, **WAYS[asked]) == noise_batch(ROWS, job, **WAYS[started])).all()
        return
    kind = "ids" if asked.endswith("ids") else asked
    with pytest.raises(
        ValueError, match=f"^rows must be named by {started} in this job, got {kind}: under other names they would be"
    ):
        noise_batch(ROWS, job, **WAYS[asked])


@pytest.mark.parametrize("text", ["07", "+7", " 7", "7.0", "1_000", "-0", "٧", "a", "", "9" * 21])
def test_a_text_that_no_number_prints_as_is_refused_among_integers(text):
    job = NoiseJob.start(dimension=6, epsilon=4.0, rows_by="integer-ids")
    with pytest.raises(ValueError, match=r"^ids must hold whole numbers in a job with rows_by='integer-ids', got .* in row 1$"):
        noise_batch(ROWS[:2], job, ids=["1", text])


def test_the_file_says_it_and_another_kind_is_refused_there(tmp_path):
    path = tmp_path / "job.json"
    NoiseJob.start(dimension=6, epsilon=4.0, path=path, rows_by="text-ids")
    assert json.loads(path.read_text())["rows_by"] == "text-ids" and NoiseJob.load(path).rows_by == "text-ids"
    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(ValueError, match=r"holds a job with other parameters: rows_by text-ids, asked for rows_by numbers$"):
        NoiseJob.start(dimension=6, epsilon=4.0, path=path, rows_by="numbers", budget=budget)
    assert budget.consumed() == 0.0
    with pytest.raises(
        ValueError, match=r"^rows_by must be one of 'numbers', 'partitions', 'integer-ids', 'text-ids', got 'ids'$"
    ):
        NoiseJob.start(dimension=6, epsilon=4.0, rows_by="ids")
