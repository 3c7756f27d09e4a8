"""Rows that a public map or codebook was fitted on are refused in every release, and only those."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import PublicCodebook, PublicProjection
from hushvec.mechanisms import public_arrays as fitted_rows
from hushvec.mechanisms.public_arrays import FittedRows

RNG = np.random.default_rng(0)
PUBLIC = RNG.standard_normal((300, 24)).astype(np.float32)
PRIVATE = RNG.standard_normal((40, 24)).astype(np.float32)
MAP = PublicProjection.fit(PUBLIC, components=6)
BOOK = PublicCodebook.of(PUBLIC)
MIXED = np.concatenate([PRIVATE[:5], PUBLIC[17:18], PRIVATE[5:]])
SAID = "must be fitted on public rows, not on those to be released: row 5 of {} is one that it was fitted on"


def forms(rows):
    """The same numbers as other arrays."""
    yield "float64", rows.astype(np.float64)
    yield "columns first", np.asfortranarray(rows)
    yield "every second row and column of another", np.repeat(np.repeat(rows, 2, 0), 2, 1)[::2, ::2]
    yield "backwards twice", rows[:, ::-1].copy()[:, ::-1]
    yield "list", rows.tolist()
    torch = pytest.importorskip("torch")
    yield "torch", torch.from_numpy(rows)
    yield "torch float64, transposed", torch.from_numpy(rows).double().T.contiguous().T


def test_what_is_known_cannot_be_changed():
    known = FittedRows.of(PUBLIC)
    with pytest.raises(FrozenInstanceError):
        known.words = known.words[:, :0]
    with pytest.raises(ValueError, match="read-only"):
        known.words[:] = 0


@pytest.mark.parametrize("form", [name for name, _ in forms(MIXED)])
def test_a_row_is_found_in_every_dtype_and_layout(form):
    rows = dict(forms(MIXED))[form]
    with pytest.raises(ValueError, match="projection " + SAID.format("x")):
        hv.privatize(rows, epsilon=8.0, projection=MAP)
    assert len(hv.privatize(dict(forms(PRIVATE))[form], epsilon=8.0, projection=MAP).values) == 40


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_public_rows_are_found_as_float32(dtype):
    torch = pytest.importorskip("torch")
    narrow = torch.from_numpy(PUBLIC).to(getattr(torch, dtype))
    projection = PublicProjection.fit(narrow, components=6)
    for rows in (narrow[3:4], narrow[3:4].float().numpy()):
        with pytest.raises(ValueError, match="row 0 of x is one"):
            hv.privatize(rows, epsilon=8.0, projection=projection)


def test_float64_public_rows_are_found_after_rounding_to_float32():
    wide = RNG.standard_normal((50, 24))
    with pytest.raises(ValueError, match="row 0 of x is one"):
        hv.privatize(wide[7:8].astype(np.float32), epsilon=8.0, projection=PublicProjection.mean_only(wide))


@pytest.mark.parametrize(
    "change", [lambda row: row * 2, lambda row: np.nextafter(row, np.float32(9)), lambda row: row.astype(np.float16)]
)
def test_what_the_page_says_is_not_seen(change):
    assert hv.privatize(change(PUBLIC[17:18]), epsilon=8.0, projection=MAP).receipt.rows == 1
    one_element = PUBLIC[17:18].copy()
    one_element[0, 1] += 1e-3       # not among those that a key is made of
    assert hv.privatize(one_element, epsilon=8.0, projection=MAP).receipt.rows == 1


def test_rows_of_zeros_say_nothing():
    projection = PublicProjection.mean_only(np.concatenate([PUBLIC, np.full((1, 24), -0.0, np.float32)]))
    assert hv.privatize(np.zeros((2, 24), np.float32), epsilon=8.0, projection=projection).receipt.rows == 2


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9])
def test_any_number_of_columns(columns):
    rows = FittedRows.of(PUBLIC[:, :columns])
    assert rows.first_in(PRIVATE[:, :columns]) is None and rows.first_in(PUBLIC[40:, :columns]) == 0


def test_a_saved_one_knows_them_too(tmp_path):
    MAP.save(tmp_path / "map.npz")
    BOOK.save(tmp_path / "book.npz")
    with pytest.raises(ValueError, match="projection " + SAID.format("x")):
        hv.privatize(MIXED, epsilon=8.0, projection=PublicProjection.load(tmp_path / "map.npz"))
    with pytest.raises(ValueError, match="codebook " + SAID.format("x")):
        hv.privatize(MIXED, mechanism=PublicCodebook.load(tmp_path / "book.npz").mechanism(8.0))
    seedy = PublicProjection.johnson_lindenstrauss(24, 6, seed=1)
    seedy.save(tmp_path / "random.npz")
    hv.privatize(MIXED, epsilon=8.0, projection=PublicProjection.load(tmp_path / "random.npz"))


def test_of_many_rows_a_fixed_number_is_kept(monkeypatch):
    monkeypatch.setattr(fitted_rows, "MOST_KEPT", 100)
    known = FittedRows.of(PUBLIC)
    assert known.words.nbytes == 1600
    assert sum(known.first_in(row[None]) is not None for row in PUBLIC) == 100


def test_nothing_is_charged_and_an_index_stays_as_it_was():
    budget = hv.PrivacyBudget(max_epsilon=100.0)
    with pytest.raises(ValueError, match="projection " + SAID.format("x")):
        hv.privatize(MIXED, epsilon=8.0, projection=MAP, budget=budget)
    noise = hv.retrieval.VectorNoise(epsilon=8.0, budget=budget)
    index = hv.retrieval.PrivateIndex(24, documents=noise, projection=MAP)
    with pytest.raises(ValueError, match="projection " + SAID.format("vectors")):
        index.add(MIXED, ids=range(len(MIXED)))
    assert budget.consumed() == 0 and len(index) == 0
    clean = hv.retrieval.PrivateIndex(24, projection=MAP)
    clean.add(MIXED, ids=range(len(MIXED)))      # without noise nothing is promised: a public index may have them
    assert len(clean) == len(MIXED)


def test_a_question_may_be_a_public_row():
    index = hv.retrieval.PrivateIndex(24)
    index.add(PUBLIC)
    asker = hv.retrieval.PrivateQuery(BOOK, epsilon=12.0, fetch=20)
    assert asker.search(PUBLIC[17], index, k=5).receipt.codebook == BOOK.digest
    assert asker.codebook.fitted_rows is not None     # what it saves still knows them


def test_the_middleware_refuses_the_text_of_a_public_row():
    budget = hv.PrivacyBudget(max_epsilon=100.0)
    rows = {"public": PUBLIC[17].tolist(), "private": PRIVATE[0].tolist()}
    model = hv.wrap_embedding_model(
        lambda texts: [rows[text] for text in texts],
        hv.dp_embedding_middleware(epsilon=8.0, clip_norm=1.0, projection=MAP, budget=budget),
    )
    with pytest.raises(ValueError, match="row 1 of vectors is one that it was fitted on"):
        model.embed(["private", "public"])
    assert budget.consumed() == 0
