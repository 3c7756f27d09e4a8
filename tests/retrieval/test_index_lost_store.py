"""Stores that fail between the charge and the answer: nothing is charged twice, no row is there half or twice, the next call works.

Connections are ended by the server (pg_terminate_backend), by the network around COMMIT (a proxy that cuts), and with the server
(SIGKILL of all its processes).
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from budget.cutting_proxy import CuttingProxy
from hushvec.errors import StoreError
from hushvec.retrieval import PrivateIndex, VectorNoise
from postgres_server import PostgresServer
from retrieval.index_cases import filled, made, some_rows, unit, why_missing

ROWS = some_rows(40)

needs_pgvector = pytest.mark.skipif(bool(why_missing("pgvector")), reason=why_missing("pgvector") or "")


def ledger(budget):
    """Epsilons of its charges, in order."""
    return [float(row["epsilon"]) for row in budget.export()["rows"] if row["kind"] == "charge"]


def private(store, **settings):
    """An index with 20 rows of noise in it, and the two budgets that pay."""
    documents, queries = hv.PrivacyBudget(1000.0), hv.PrivacyBudget(1000.0)
    index = made(
        16,
        store=store,
        documents=VectorNoise(epsilon=2.0, budget=documents),
        queries=VectorNoise(epsilon=1.0, budget=queries),
        **settings,
    )
    index.add(ROWS[:20])
    assert ledger(documents) == [2.0]
    return index, documents, queries


def require_whole(index, rows):
    """As many rows as ids and receipts say, each found by itself, and nothing else in the store."""
    assert len(index) == len(index.ids) == rows == sum(receipt.rows for receipt in index.receipts)
    vectors = index.vectors()
    assert vectors.shape == (rows, 16)
    _, nearest = index._content.store.search(unit(vectors), rows)
    assert nearest.shape == (rows, rows)


def failing(monkeypatch, owner, name, *, times, error=None, after=False):
    """Let a method fail so many times: before its work, or after it."""
    work, left = getattr(owner, name), [times]

    def failed(*arguments, **options):
        if left[0] == 0:
            return work(*arguments, **options)
        left[0] -= 1
        if after:
            work(*arguments, **options)
        raise error or OSError("no space left")

    monkeypatch.setattr(owner, name, failed)


# ---- any store ----


def test_the_same_call_goes_on_with_what_was_released(monkeypatch):
    index, documents, _ = private("numpy")
    failing(monkeypatch, index._content.store, "add", times=3)
    for rows in (ROWS[20:30], ROWS[30:], ROWS[20:30]):  # two calls, the first of them twice
        with pytest.raises(StoreError, match="no space left; no row was added; the charge stands and its release is kept"):
            index.add(rows)
    assert ledger(documents) == [2.0] * 3 and len(index) == 20 and len(index._unstored) == 2
    released_rows = [kept for kept, _ in index._unstored._kept.values()]
    receipts = [index.add(ROWS[30:]), index.add(ROWS[20:30])]
    assert ledger(documents) == [2.0] * 3 and len(index._unstored) == 0
    np.testing.assert_array_equal(index.vectors()[20:], np.concatenate(released_rows[::-1]))
    assert list(index.receipts[1:]) == receipts
    assert sorted(receipt.charge.sequence for receipt in index.receipts) == [2, 3, 4]
    require_whole(index, 40)
    index.add(ROWS[20:30])  # a new release again
    assert ledger(documents) == [2.0] * 4


@pytest.mark.parametrize(
    ("rows", "ids"), [(ROWS[20:30] * 2, None), (ROWS[20:29], None), (ROWS[20:30], range(50, 60)), (ROWS[20:30].astype(float), None)]
)
def test_another_call_is_another_release(monkeypatch, rows, ids):
    index, documents, _ = private("numpy")
    failing(monkeypatch, index._content.store, "add", times=1)
    with pytest.raises(StoreError):
        index.add(ROWS[20:30])
    index.add(rows, None if ids is None else list(ids))
    assert ledger(documents) == [2.0] * 3
    index.add(ROWS[20:30])  # still kept
    assert ledger(documents) == [2.0] * 3


@pytest.mark.parametrize("module", ("numpy", "torch"))
def test_rows_that_float32_makes_equal_are_another_call(monkeypatch, module):
    convert = pytest.importorskip(module).asarray
    first, second = np.full((2, 1, 16), 1e300)
    second[0, 0] = 2e300
    index, documents, _ = private("numpy")
    failing(monkeypatch, index._content.store, "add", times=1)
    with pytest.raises(StoreError):
        index.add(convert(first))
    index.add(convert(second))
    assert ledger(documents) == [2.0] * 3
    index.add(convert(first))
    assert ledger(documents) == [2.0] * 3


def test_a_search_that_failed_is_not_charged_again(monkeypatch):
    index, _, queries = private("numpy")
    failing(monkeypatch, index._content.store, "search", times=2)
    for _ in range(2):
        with pytest.raises(StoreError, match="no space left; nothing was answered; the charge stands"):
            index.search(ROWS[:3], k=2)
    found = index.search(ROWS[:3], k=5)
    assert ledger(queries) == [3.0] and found.query_receipt.charge.sequence == 2
    index.search(ROWS[:3], k=5)
    assert ledger(queries) == [3.0, 3.0]
    clean = filled(ROWS, store="numpy")
    failing(monkeypatch, clean._content.store, "search", times=1)
    with pytest.raises(StoreError, match=r"no space left; nothing was answered$"):
        clean.search(ROWS[:3], k=2)


def test_askers_who_give_up_do_not_fill_the_memory(monkeypatch):
    index, _, _ = private("numpy")
    failing(monkeypatch, index._content.store, "search", times=300)
    for number in range(300):
        with pytest.raises(StoreError):
            index.search(np.full(16, number + 1.0, np.float32), k=1)
    assert len(index._unanswered) == 256


def test_a_store_that_fails_to_delete(monkeypatch):
    """Rows are replaced in two steps: what was released for the second waits until the first has happened."""
    index, documents, _ = private("numpy")
    failing(monkeypatch, index._content.store, "delete", times=3)
    with pytest.raises(StoreError, match=r"no space left; the rows count as there until the same call succeeds$"):
        index.delete([3])
    for _ in range(2):
        with pytest.raises(StoreError, match="no row was added; the charge stands and its release is kept"):
            index.add(ROWS[20:22], [3, 50], replace=True)
    require_whole(index, 20)
    index.add(ROWS[20:22], [3, 50], replace=True)
    assert ledger(documents) == [2.0, 2.0] and len(index) == 21
    assert index.delete([3]) == 1


def test_an_interrupt_keeps_the_release_too(monkeypatch):
    index, documents, _ = private("numpy")
    failing(monkeypatch, index._content.store, "add", times=1, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        index.add(ROWS[20:])
    index.add(ROWS[20:])
    assert ledger(documents) == [2.0, 2.0]


def test_a_collection_of_qdrant_has_no_half_of_the_rows(monkeypatch):
    if reason := why_missing("qdrant"):
        pytest.skip(reason)
    index, documents, _ = private("qdrant")
    monkeypatch.setattr("hushvec.retrieval.stores.folders._AT_ONCE", 8)
    upsert, calls = index._content.store._client.upsert, []

    def second_fails(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise OSError("no space left")
        return upsert(*arguments, **options)

    monkeypatch.setattr(index._content.store._client, "upsert", second_fails)
    with pytest.raises(StoreError):
        index.add(ROWS[20:])
    require_whole(index, 20)
    index.add(ROWS[20:])
    require_whole(index, 40)
    assert ledger(documents) == [2.0, 2.0]


# ---- PostgreSQL ----


@pytest.fixture(scope="module")
def server():
    """One that may be killed."""
    with PostgresServer("vector") as server:
        yield server


@pytest.fixture
def table(request, server):
    return {"path": server.url, "store_options": {"table": f"t{abs(hash(request.node.name))}"}}


def terminate(store):
    """End the session of a store from another one, and wait for its end."""
    import psycopg

    with psycopg.connect(store._address, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [store._connection.info.backend_pid])


def stored(index):
    """Keys in the table, whatever the store makes of them."""
    import psycopg

    store = index._content.store
    with psycopg.connect(store._address) as other:
        return [key for (key,) in other.execute(psycopg.sql.SQL("SELECT key FROM {} ORDER BY key").format(store._table))]


def terminated(monkeypatch, store, name, *, times, after):
    """End the session so many times, before or after a method's work within its transaction."""
    work, left = getattr(store, name), [times]

    def cut(*arguments, **options):
        if left[0] == 0:
            return work(*arguments, **options)
        left[0] -= 1
        if not after:
            terminate(store)
        answer = work(*arguments, **options)
        terminate(store)
        return answer

    monkeypatch.setattr(store, name, cut)


@needs_pgvector
class TestPostgreSQL:
    def test_a_session_that_ended_between_charge_and_store(self, table):
        class Ending:
            """A budget whose charge is the last that the connection lives to see."""

            def __init__(self):
                self.budget, self.store = hv.PrivacyBudget(10.0), None

            def consume(self, epsilon, delta):
                self.budget.consume(epsilon, delta)
                terminate(self.store)

        budget = Ending()
        index = PrivateIndex(16, store="pgvector", documents=VectorNoise(epsilon=2.0, budget=budget), **table)
        budget.store = index._content.store
        index.add(ROWS)
        assert ledger(budget.budget) == [2.0] and stored(index) == list(range(40))
        require_whole(index, 40)

    @pytest.mark.parametrize("after", (False, True))
    def test_a_session_that_ends_during_the_insert(self, monkeypatch, table, after):
        index, documents, _ = private("pgvector", **table)
        with monkeypatch.context() as patched:
            terminated(patched, index._content.store, "_insert", times=1, after=after)
            index.add(ROWS[20:30])  # made anew, and done again
        assert ledger(documents) == [2.0] * 2 and stored(index) == list(range(30))
        terminated(monkeypatch, index._content.store, "_insert", times=2, after=after)
        with pytest.raises(StoreError, match=r"table 't\d+' of PostgreSQL: .*; no row was added; the charge stands"):
            index.add(ROWS[30:])
        assert ledger(documents) == [2.0] * 3 and stored(index) == list(range(30))
        require_whole(index, 30)
        index.add(ROWS[30:])
        assert ledger(documents) == [2.0] * 3 and stored(index) == list(range(40))
        require_whole(index, 40)

    @pytest.mark.parametrize("lost", ("request", "answer"))
    def test_a_network_that_cuts_around_commit(self, server, table, lost):
        """Of a commit whose answer is lost nobody knows whether it happened: the work is done again, on top or not."""
        with CuttingProxy(server._port) as proxy:
            address = server.url.replace(str(server._port), str(proxy.port))
            index, documents, queries = private("pgvector", **{**table, "path": address})
            proxy.arm(lost)
            index.add(ROWS[20:])
            assert ledger(documents) == [2.0] * 2 and stored(index) == list(range(40)) and proxy._armed is None
            proxy.arm(lost)
            assert index.delete([3, 4]) == 2 and proxy._armed is None
            proxy.arm(lost)
            assert index.search(ROWS[:3], k=38).ids.shape == (3, 38) and proxy._armed is None
            assert ledger(queries) == [3.0]
            require_whole_after_deletion(index, 38)

    def test_rows_of_a_commit_that_counted_as_failed_are_not_found(self, monkeypatch, table):
        index, documents, _ = private("pgvector", **table)
        commit = index._content.store._once

        def unanswered(work):
            commit(work)
            index._content.store._unsettled = 20, 39  # as it is while nobody knows
            raise index._content.store._psycopg.OperationalError("server closed the connection unexpectedly")

        with monkeypatch.context() as patched:
            patched.setattr(index._content.store, "_once", unanswered)
            with pytest.raises(StoreError, match="server closed the connection unexpectedly; no row was added"):
                index.add(ROWS[20:])
        assert stored(index) == list(range(40))
        require_whole(index, 20)
        assert stored(index) == list(range(20))
        index.add(ROWS[20:25])  # fewer, under the same keys
        index.add(ROWS[20:])
        require_whole(index, 45)
        assert ledger(documents) == [2.0] * 3

    @pytest.mark.parametrize("after", (False, True))
    def test_a_session_that_ends_during_a_search(self, monkeypatch, table, after):
        index, _, queries = private("pgvector", **table)
        with monkeypatch.context() as patched:
            terminated(patched, index._content.store, "_nearest", times=1, after=after)
            assert index.search(ROWS[:3], k=20).ids.shape == (3, 20)
        assert ledger(queries) == [3.0]
        terminated(monkeypatch, index._content.store, "_nearest", times=2, after=after)
        with pytest.raises(StoreError, match="nothing was answered; the charge stands"):
            index.search(ROWS[:3], k=20)
        index.search(ROWS[:3], k=20)
        assert ledger(queries) == [3.0, 3.0]

    def test_a_server_that_is_killed_and_comes_back(self, server, table):
        index, documents, queries = private("pgvector", **table)
        server.kill()
        try:
            for _ in range(2):
                with pytest.raises(StoreError, match="no row was added; the charge stands"):
                    index.add(ROWS[20:])
                with pytest.raises(StoreError, match="nothing was answered; the charge stands"):
                    index.search(ROWS[:2], k=3)
                with pytest.raises(StoreError):
                    index.delete([0])
        finally:
            server.start()
        index.add(ROWS[20:])
        index.search(ROWS[:2], k=3)
        assert ledger(documents) == [2.0] * 2 and ledger(queries) == [2.0]
        require_whole(index, 40)
        index.delete([0])
        require_whole_after_deletion(index, 39)

    def test_rows_that_others_wrote_or_deleted_are_noticed(self, table):
        import psycopg

        index, _, _ = private("pgvector", **table)
        name = table["store_options"]["table"]
        first = unit(index.vectors([0]))  # nearest to itself and its copy: a search for another row may leave the copy out
        with psycopg.connect(table["path"], autocommit=True) as other:
            other.execute(f"INSERT INTO {name} SELECT 1000, embedding FROM {name} WHERE key = 0")
            for ask in (lambda: index.vectors(), lambda: index._content.store.search(first, 20)):
                with pytest.raises(StoreError, match="must hold the rows of the index and no others"):
                    ask()
            other.execute(f"DELETE FROM {name} WHERE key IN (1000, 4)")
        with pytest.raises(StoreError, match="must hold the rows of the index and no others"):
            index.vectors()

    def test_a_forked_child_has_a_connection_of_its_own(self, table):
        index, _, _ = private("pgvector", **table)
        parent = index._content.store._connection.info.backend_pid
        child = os.fork()
        if child == 0:
            try:
                index._content.store.search(unit(ROWS[:1]), 20)
                os._exit(0 if index._content.store._connection.info.backend_pid != parent else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        require_whole(index, 20)
        assert index._content.store._connection.info.backend_pid == parent

    def test_a_graph_finds_its_rows_and_goes_back_to_all_of_them(self, table):
        table["store_options"]["index"] = "hnsw"
        index = PrivateIndex(16, store="pgvector", **table)
        index.add(some_rows(400))
        (plan,) = index._content.store._run(
            lambda connection: connection.execute(
                "SELECT indexdef FROM pg_indexes WHERE tablename = %s AND indexdef LIKE '%%hnsw%%'", [table["store_options"]["table"]]
            ).fetchall()
        )
        assert "vector_ip_ops" in plan[0] and "m='16'" in plan[0]
        found = index.search(some_rows(400)[:30], k=1)
        assert (found.ids.ravel() == np.arange(30)).mean() >= 0.9
        np.testing.assert_array_equal(np.sort(index.search(ROWS[:2], k=400).ids), np.tile(np.arange(400), (2, 1)))


def require_whole_after_deletion(index, rows):
    assert len(index) == rows and index.vectors().shape == (rows, 16)


PASSWORD = "s3cr3t/p@ss"
WRITTEN = "s3cr3t%2Fp%40ss"


@needs_pgvector
class TestPassword:
    def test_it_is_in_no_file_and_in_no_text(self, server, table, tmp_path):
        address = table["path"].replace("hushvec@", f"hushvec:{WRITTEN}@")
        index, _, _ = private("pgvector", **{**table, "path": address})
        index.save(tmp_path / "index")
        told = [path.read_bytes() for path in (tmp_path / "index").iterdir()]
        told += [text.encode() for text in (repr(index), repr(index.settings), repr(index.receipts), *index.describe())]
        told += [json.dumps(index.settings.to_dict()).encode(), repr(index._content.store).encode()]
        assert len(told) > 6
        assert not any(secret in text for text in told for secret in (PASSWORD.encode(), WRITTEN.encode(), b"127.0.0.1"))
        with pytest.raises(ValueError, match="path must be an address like postgresql://user@host/database for store 'pgvector'"):
            PrivateIndex.load(tmp_path / "index", without_budgets=True)
        again = PrivateIndex.load(tmp_path / "index", path=address, without_budgets=True)
        np.testing.assert_array_equal(again.vectors(), index.vectors())

    @pytest.mark.parametrize(
        ("address", "error"),
        [
            (f"postgresql://u:{WRITTEN}@127.0.0.1:1/db", StoreError),
            (f"postgresql://u:{WRITTEN}@127.0.0.1:1/db?application_name={WRITTEN}", StoreError),
            (f"postgresql://u:{PASSWORD}@127.0.0.1/db", ValueError),
            ("postgresql://u:s3cr3t-p@ss@127.0.0.1/db", ValueError),
            ("postgresql://u:12/s3cr3t@127.0.0.1/db", ValueError),
            ("postgresql://u:s3cr3t%zz@127.0.0.1/db", ValueError),
            ("postgresql://u@127.0.0.1/db?s3cr3t=1", ValueError),
            ("mysql://u:s3cr3t@127.0.0.1/db", ValueError),
            ("host=127.0.0.1 password=s3cr3t", ValueError),
            (Path("postgresql://u:s3cr3t@127.0.0.1/db"), ValueError),
            ("postgresql://me%40corp:s3cr3t@127.0.0.1:1/db", StoreError),
            (None, ValueError),
            (5, ValueError),
        ],
    )
    def test_it_is_in_no_error(self, address, error):
        with pytest.raises(error) as refused:
            PrivateIndex(16, store="pgvector", path=address)
        text = repr(refused.value)
        assert "s3cr3t" not in text and "ss@" not in text
        assert "path must be an address" in text or "of PostgreSQL: " in text

    @pytest.mark.parametrize("address", ("postgresql://u:s3cr3t@127.0.0.1/db", "host=127.0.0.1 password = s3cr3t"))
    @pytest.mark.parametrize("store", ("flat", "lancedb", "qdrant"))
    def test_other_stores_do_not_repeat_it(self, store, address, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match=f"path must be .* store '{store}'.*got an address$") as refused:
            PrivateIndex(16, store=store, path=address)
        assert "s3cr3t" not in repr(refused.value) and not list(tmp_path.iterdir())


@needs_pgvector
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"table": ""}, ValueError, "table must be a name"),
        ({"table": "a.b.c"}, ValueError, "table must be a name"),
        ({"table": "x" * 59}, ValueError, "table must be a name"),
        ({"table": 3}, ValueError, "table must be a name"),
        ({"table": "nowhere.rows"}, StoreError, 'schema "nowhere" does not exist'),
        ({"table": "pg_catalog.pg_class"}, ValueError, "must have rows of 16 elements, and keys"),
        ({"index": "ivfflat"}, ValueError, "index must be one of 'hnsw'"),
        ({"neighbors": 8}, ValueError, "neighbors must be left out without index='hnsw'"),
        ({"index": "hnsw", "neighbors": 1}, ValueError, "neighbors must be >= 2"),
        ({"index": "hnsw", "neighbors": 101}, ValueError, "neighbors must be <= 100"),
        ({"index": "hnsw", "ef_search": 1001}, ValueError, "ef_search must be <= 1000"),
        ({"index": "hnsw", "ef_search": True}, TypeError, "ef_search must be a whole number"),
        ({"index": "hnsw", "neighbors": 40, "ef_construction": 79}, ValueError, "ef_construction must be >= twice the 40 neighbors"),
        ({"host": "h"}, ValueError, r"store_options must be among those of 'pgvector' \(table, index,"),
    ],
)
def test_options_of_a_table_that_are_refused(options, error, message, server):
    with pytest.raises(error, match=message):
        PrivateIndex(16, store="pgvector", path=server.url, store_options=options)


@needs_pgvector
def test_a_table_of_other_columns_or_with_rows_is_refused(table):
    index = PrivateIndex(16, store="pgvector", **table)
    with pytest.raises(ValueError, match=r"must have rows of 8 elements, and keys, got .*vector\(16\)"):
        PrivateIndex(8, store="pgvector", **table)
    index.add(ROWS[:3])
    with pytest.raises(ValueError, match="path must be new, or of an index that is loaded: 'pgvector' there holds 3 rows"):
        PrivateIndex(16, store="pgvector", **table)
    with pytest.raises(ValueError, match="index must be None for more than 2000 columns"):
        PrivateIndex(2001, store="pgvector", path=table["path"], store_options={"index": "hnsw"})


@needs_pgvector
def test_rows_after_the_save_are_not_in_the_index_that_is_loaded(table, tmp_path):
    index, _, _ = private("pgvector", **table)
    index.save(tmp_path)
    assert not list(tmp_path.glob("rows-*"))
    index.add(ROWS[20:])
    again = PrivateIndex.load(tmp_path, path=table["path"], without_budgets=True)
    assert len(again) == 20 and stored(again) == list(range(20))
    require_whole(again, 20)


@needs_pgvector
def test_some_rows_without_the_others():
    index = filled(ROWS, store="pgvector")
    index.delete([2, 5])
    for places in ([7, 0, 7, 37], []):
        np.testing.assert_array_equal(index._content.store.rows(np.array(places, np.int64)), index.vectors()[places].reshape(-1, 16))
