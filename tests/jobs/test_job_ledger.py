"""A job is charged once in PostgreSQL, from however many machines it is started: here, processes at one server."""

import multiprocessing
import shutil

import pytest

import hushvec as hv
from hushvec.jobs import NoiseJob
from postgres_server import PostgresServer, why_not


@pytest.fixture(scope="module")
def url():
    if why_not():
        pytest.skip(why_not())
    with PostgresServer() as server:
        yield server.url


def start(arguments):
    """One machine: it has the job's file and its own connection."""
    url, path = arguments
    with hv.PrivacyBudget(10.0, persist_key="fleet", store=url) as budget:
        job = NoiseJob.start(dimension=16, epsilon=2.0, budget=budget, path=path)
    return job.id, job.entry


def test_a_fleet_charges_once(tmp_path, url):
    original = tmp_path / "job-0.json"
    NoiseJob.start(dimension=16, epsilon=2.0, path=original)
    copies = [tmp_path / f"job-{machine}.json" for machine in range(1, 4)]
    for copy in copies:
        shutil.copy(original, copy)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        started = pool.map(start, [(url, path) for path in [original, *copies] * 2], chunksize=1)
        pool.close()  # and not terminated: a child that is just being forked may miss the signal
        pool.join()
    assert len(set(started)) == 1
    with hv.PrivacyBudget.reopen("fleet", store=url) as budget:
        assert budget.consumed() == 2.0
        receipt = NoiseJob.load(original).receipt(1_000_000)
        assert hv.verify_charges([receipt], budget.export()).status == "holds"
