"""`hushvec.extend.check_store`: stores of the library and of the guide pass, and mistakes planted in the latter are named."""

import pytest

from extend.examples import example, require_named
from hushvec import PrivacyBudget
from hushvec.budget import open_store
from hushvec.extend import check_store, checking_stores
from hushvec.retrieval import PrivateIndex, VectorNoise
from hushvec.retrieval.stores.numpy_flat import NumpyStore


def ledgers(*changes):
    return example("JsonLedgers", "with tempfile", *changes)


def half_store(*changes):
    return example("HalfStore", "check_store", *changes)


def test_the_stores_of_the_library_and_of_the_guide_pass(tmp_path):
    rows, halves = check_store(lambda: NumpyStore(8)), check_store(lambda: half_store()(8))
    assert rows == halves and rows[0] == ORDER and len(rows) == 4
    sqlite = check_store(lambda: open_store(tmp_path / "budget.sqlite", create=True))
    json = check_store(lambda: ledgers()(tmp_path / "ledgers.json"))
    assert sqlite == json and sqlite[0] == "another connection reads the rows of a ledger as they were written" and len(json) == 6


WRITTEN = "another connection reads the rows of a ledger as they were written"
LEFT = "a write that fails, or is not kept, leaves nothing in any of its ledgers"
ONCE = "no row takes the place or the charge id of another"
GOES_ON = "a budget goes on with its charges and people: after `close`, opened anew, and by its address"
YIELD = "            yield [JsonTransaction(content, key) for key in keys]\n"
CAUGHT = f"            try:\n    {YIELD}            except RuntimeError:\n                pass\n"
READ = "        yield JsonTransaction(self.content(), key)\n"
LOCKED = f'        with open(f"{{self.path}}.lock", "w") as lock:\n            fcntl.flock(lock, fcntl.LOCK_EX)\n    {READ}'


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("self.ledger[-1]", "self.ledger[0]")], f"{WRITTEN}: first and last must be"),
        ([("[behind:][:most]", "[behind:]")], f"{WRITTEN}: rows(2, 2) gave other rows"),
        ([("(row.period, row.charge_id) == (period, charge_id)", "row.charge_id == charge_id")], f"{WRITTEN}: find gave another row"),
        ([("if not keep:", "if False:")], f"{LEFT}: rows were kept with keep=False"),
        ([(YIELD, CAUGHT)], f"{LEFT}: rows were kept with keep=True"),
        ([("if row.sequence != len", "if False and row.sequence != len")], f"{ONCE}: the last row with"),
        ([(READ, LOCKED)], "a reader sees one moment, and keeps no writer waiting: TimeoutError"),
        ([("fcntl.flock(lock, fcntl.LOCK_EX)", "pass")], "charges of several connections at once never spend more than the limit: "),
        ([('self.content["secrets"][self.key] = key', "pass")], f"{GOES_ON}: BudgetError"),
        ([("return self  #", "return self.name  #")], f"{GOES_ON}: BudgetError"),
    ],
)
def test_a_mistake_in_a_store_of_ledgers_is_named(tmp_path, monkeypatch, changes, words):
    monkeypatch.setattr(checking_stores, "_SECONDS", 0.5)
    store = ledgers(*changes)
    with pytest.raises(AssertionError) as failure:
        check_store(lambda: store(tmp_path / "ledgers.json"))
    require_named(failure, "JsonLedgers", words)


ORDER = "rows come back in their order, and by place, in arrays of their own"
BEST = "a search gives places and inner products of the best rows, largest first"
ADD, SEARCH = "np.concatenate([self.halves, rows.astype(np.float16)])", "best_of_matrix(self.vectors(), queries, k)"
WHOLE = [("(0, columns), np.float16", "(0, columns), np.float32"), ("rows.astype(np.float16)", "rows")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([(ADD, "np.concatenate([rows.astype(np.float16), self.halves])")], f"{ORDER}: rows must be those that were added"),
        ([("self.halves[places]", "self.halves[np.sort(places)]")], f"{ORDER}: rows must be those that were added"),
        ([("return self.halves.astype(np.float32)", "return self.halves")], f"{ORDER}: it must have 20 rows, float32 (20, 8), got"),
        ([(ADD, f"{ADD} if len(self) else rows")], f"{ORDER}: rows must be those that were added"),
        ([*WHOLE, ("return self.halves.astype(np.float32)", "return self.halves")], f"{ORDER}: rows must be those that were added"),
        ([("np.delete(self.halves, places, axis=0)", "self.halves[len(places) :]")], "deleted rows are gone, and the others keep"),
        ([(SEARCH, "best_of_matrix(self.vectors(), -queries, k)")], f"{BEST}: scores must be inner products"),
        ([(SEARCH, "best_of_matrix(self.vectors(), queries, min(k, 12))")], f"{BEST}: it must give int64 and float32 [m, k]"),
        ([(SEARCH, f"[found[:, ::-1] for found in {SEARCH}]")], f"{BEST}: scores must be the largest, largest first"),
        ([("    def rows(", "    def read(self, path):\n        self.add(np.load(path)[1:])\n\n    def rows(")], "what `write` wrote"),
    ],
)
def test_a_mistake_in_a_store_of_rows_is_named(changes, words):
    store = half_store(*changes)
    with pytest.raises(AssertionError) as failure:
        check_store(lambda: store(8))
    require_named(failure, "HalfStore", words)


def test_an_index_takes_a_store_of_your_own(tmp_path):
    rows = checking_stores._unit_rows()
    index = PrivateIndex(8, documents=VectorNoise(epsilon=50.0), store=half_store()(8))
    index.add(rows, ids=[f"row {n}" for n in range(20)])
    index.delete(["row 3"])
    index.save(tmp_path / "index")
    loaded = PrivateIndex.load(tmp_path / "index", store=half_store()(8))
    assert (loaded.search(rows, 5).ids == index.search(rows, 5).ids).all() and len(loaded) == 19
    assert "store='own'" in repr(index) and "store='flat'" in repr(index.fresh())
    PrivateIndex(8).save(tmp_path / "flat")
    refused = [
        (lambda: PrivateIndex.load(tmp_path / "index"), "store must be the object where it is one of your own, got none"),
        (lambda: PrivateIndex(8, store="own"), "store must be the object where it is one of your own, got none"),
        (
            lambda: PrivateIndex.load(tmp_path / "flat", store=half_store()(8)),
            "store must be None for an index that was saved with 'flat', got HalfStore",
        ),
        (
            lambda: PrivateIndex(8, store=half_store()(8), path=tmp_path),
            "store_options and path must be None with a store of your own, which has its own",
        ),
        (
            lambda: PrivateIndex(8, store=loaded._content.store),
            "path must be new, or of an index that is loaded: 'own' there holds 19 rows",
        ),
    ]
    for call, words in refused:
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == words
    with pytest.raises(TypeError, match="store must be a str, got"):
        PrivateIndex(8, store=NumpyStore)


def test_a_store_that_is_none_is_refused():
    with pytest.raises(TypeError, match=r"store must be a path, an address or a hushvec\.extend\.Store, got NumpyStore"):
        PrivacyBudget(1.0, store=NumpyStore(8))
