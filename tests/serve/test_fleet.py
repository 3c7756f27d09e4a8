"""Two machines, one of them with two workers, on one PostgreSQL: one budget, one answer for a key, and numbers that add up."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from postgres_server import PostgresServer, why_not
from serve.services import charges, free_port, policy_fields, server, write_policy

FITTING = 40   # requests that the budget pays for
REQUESTS = 60
CLIENTS = 8


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Addresses of both machines, and the store."""
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("fleet")
    with PostgresServer() as database:
        fields = policy_fields(database.url, epsilon=0.5, limit=0.5 * FITTING)
        policy = write_policy(folder / "policy.yaml", fields)
        first, second = free_port(), free_port()
        with (
            server(policy, first, log=folder / "first", workers=2),
            server(policy, second, log=folder / "second"),
        ):
            yield [f"http://127.0.0.1:{port}" for port in (first, second)], database.url


def asked(address, key):
    """One request on a connection of its own, so that any worker may get it."""
    return httpx.post(f"{address}/v1/embeddings", json={"input": key}, headers={"Idempotency-Key": key}, timeout=60)


def counted(address):
    """Requests for embeddings that a machine's metrics have counted."""
    text = httpx.get(f"{address}/metrics").text
    found = re.findall(r'^hushvec_requests_total\{route="/v1/embeddings".*\} (.*)$', text, re.M)
    return sum(map(float, found))


def test_a_fleet_spends_one_budget_once(fleet):
    addresses, store = fleet
    keys = [f"key-{number}" for number in range(REQUESTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        # Every key goes to both machines at once.
        both = list(pool.map(lambda number: asked(addresses[number % 2], keys[number // 2]), range(2 * REQUESTS)))
    released = {}
    for number, answer in enumerate(both):
        assert answer.status_code in (200, 402, 409), answer.text
        if answer.status_code == 200:
            released.setdefault(keys[number // 2], set()).add(answer.content)
    assert len(released) == FITTING
    assert all(len(bodies) == 1 for bodies in released.values())
    rows = charges(store)
    assert len(rows) == FITTING and sum(float(row["epsilon"]) for row in rows) == 0.5 * FITTING
    paid = {json.loads(next(iter(bodies)))["hushvec"]["receipt"]["charge"]["charge_id"] for bodies in released.values()}
    assert paid == {row["charge_id"] for row in rows}
    # A repeated key has its answer on the other machine too, long after.
    again = asked(addresses[1], next(iter(released)))
    assert again.content in next(iter(released.values())) and again.headers["idempotent-replayed"] == "true"


def test_a_scrape_counts_for_all_workers(fleet):
    addresses, _ = fleet
    before = counted(addresses[0])
    for number in range(20):
        asked(addresses[0], f"counted-{number}")
    assert {counted(addresses[0]) for _ in range(6)} == {before + 20}
