"""hushvec codebook, and hushvec privatize --codebook: from public rows to a release with a receipt."""

import json

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec_here
from hushvec.budget import PrivacyBudget
from hushvec.mechanisms import PublicCodebook
from hushvec.receipts.labels import LabelReceipt
from hushvec.retrieval import PrivateIndex

pytest.importorskip("faiss")


def rows(count, seed):
    centers = np.random.default_rng(9).standard_normal((20, 16))
    rng = np.random.default_rng(seed)
    return (centers[rng.integers(0, 20, count)] + 0.4 * rng.standard_normal((count, 16))).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    for name, count in (("public", 400), ("private", 60), ("sample", 100)):
        np.save(tmp_path / f"{name}.npy", rows(count, len(name)))
    return tmp_path


def made(folder, *more):
    return hushvec_here("codebook", folder / "public.npy", "-o", folder / "book.npz", "--epsilon", 8, *more)


def released(folder, *more):
    return hushvec_here(
        "privatize", folder / "private.npy", "-o", folder / "out.npy", "--epsilon", 8, "--codebook", folder / "book.npz", *more
    )


def test_from_public_rows_to_a_receipt_that_holds(folder):
    done = made(folder, "--check", folder / "sample.npy", "--json")
    assert done.code == 0, done.err
    codebook, said = PublicCodebook.load(folder / "book.npz"), json.loads(done.out)
    assert said["digest"] == codebook.digest and said["codes"] == len(codebook)
    assert said["fit"] == codebook.check(np.load(folder / "sample.npy"), epsilon=8.0)._asdict()
    assert released(folder).code == 0
    receipt = LabelReceipt.from_json((folder / "out.npy.receipt.json").read_text())
    assert hv.verify_receipt(receipt).status == "holds" and (receipt.codebook, receipt.answers) == (codebook.digest, 60)
    table = {row.tobytes() for row in codebook.mechanism(8.0).table}
    assert {row.tobytes() for row in np.load(folder / "out.npy")} <= table


def test_what_a_person_reads(folder):
    assert "the codebook is expected to do better" in made(folder, "--check", folder / "sample.npy").out
    assert PublicCodebook.load(folder / "book.npz").digest[:16] in released(folder).out


def test_a_budget_pays(folder):
    made(folder)
    with PrivacyBudget(max_epsilon=10.0, persist_key="k", store=folder / "ledger.db"):
        pass
    done = released(folder, "--budget", "k", "--budget-store", folder / "ledger.db")
    assert done.code == 0, done.err
    with PrivacyBudget.reopen("k", store=folder / "ledger.db") as budget:
        assert budget.consumed() == 8.0


@pytest.mark.parametrize("codes, count", [("all", 400), ("12", 12)])
def test_the_number_of_codes_can_be_given(folder, codes, count):
    assert made(folder, "--codes", codes).code == 0
    assert len(PublicCodebook.load(folder / "book.npz")) == count


@pytest.mark.parametrize(
    "more, text",
    [
        (("--mechanism", "privunit"), "--codebook must come without --mechanism"),
        (("--clip-norm", 2), "--codebook must come without --mechanism"),
        (("--sigma", 1), "epsilon and sigma must be left out"),
    ],
)
def test_what_does_not_go_with_it(folder, more, text):
    made(folder)
    done = released(folder, *more)
    assert_one_line(done, text)
    assert not (folder / "out.npy").exists()


def test_the_rows_it_was_made_from_are_refused(folder):
    made(folder)
    private = np.load(folder / "private.npy")
    private[-1] = np.load(folder / "public.npy")[0]
    np.save(folder / "private.npy", private)
    assert_one_line(released(folder), f"row {len(private) - 1} of x is one that it was fitted on")
    assert not (folder / "out.npy").exists()


@pytest.mark.parametrize(
    "more, text", [(("--codes", "many"), "--codes must be auto, all or a whole number"), (("--codes", "401"), "at most 400")]
)
def test_bad_numbers_of_codes(folder, more, text):
    assert_one_line(made(folder, *more), text)
    assert not (folder / "book.npz").exists()


def built(folder, *more):
    given = ("--codebook", folder / "book.npz", "--store", "numpy", *more)
    return hushvec_here("retrieve", "build", folder / "private.npy", "-o", folder / "index", *given)


def test_an_index_of_codes(folder):
    assert made(folder, "--purpose", "search").code == 0
    codebook = PublicCodebook.load(folder / "book.npz")
    assert codebook == PublicCodebook.fit(np.load(folder / "public.npy"), epsilon=8.0, purpose="search")
    assert built(folder, "--epsilon", 8).code == 0
    index = PrivateIndex.load(folder / "index")
    assert index.receipts[0].codebook == codebook.digest and index.document_guarantee() == (8.0, 0.0)
    table = codebook.decode(np.arange(len(codebook)), 8.0)
    assert all((np.abs(table - row).max(axis=1) < 1e-6).any() for row in index.vectors())


@pytest.mark.parametrize(
    "more, text",
    [
        ((), "--epsilon must be given with --codebook"),
        (("--epsilon", 8, "--per", "release"), "--codebook must come without --sigma"),
        (("--epsilon", 8, "--sigma", 1), "--codebook must come without --sigma"),
        (("--epsilon", 8, "--renormalize"), "--codebook must come without --sigma"),
    ],
)
def test_indexes_of_codes_that_cannot_be(folder, more, text):
    made(folder)
    assert_one_line(built(folder, *more), text)
    assert not (folder / "index").exists()
