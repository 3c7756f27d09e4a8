"""Rows that adapters hand to hosts: of unit length after the noise, by a receipt that says so and that both verifiers accept."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.integrations._source import NOTE_UNIT_ROWS, PrivateSource, at_unit_length
from hushvec.mechanisms import MECHANISMS, PublicCodebook
from hushvec.middleware import EmbeddingMiddleware, EmbeddingResult
from integrations.adapter_cases import DIMENSION, ToyModel, faint, unit_row
from receipts.forgeries import SCRIPT, module_of

TEXTS = ["a", "b", "c"]
CODEBOOK = PublicCodebook.of(np.stack([unit_row(str(number)) for number in range(8)]))


def noise(name, **more):
    if name == "codebook":
        return hv.dp_embedding_middleware(mechanism=CODEBOOK.mechanism(4.0), **more)
    return hv.dp_embedding_middleware(mechanism=name, **({"sigma": 1.0} if name == "empirical" else {"epsilon": 4.0}), **more)


class Last(EmbeddingMiddleware):
    """Keeps what the noise left."""

    def wrap(self, result, model):
        self.result = result
        return result


@pytest.mark.parametrize("name", [*MECHANISMS, "codebook"])
@pytest.mark.parametrize("unit_rows", [True, False])
def test_released_rows_come_to_unit_length_and_the_receipt_says_so(name, unit_rows):
    last, seen, budget = Last(), [], hv.PrivacyBudget(100.0, max_delta=1e-3)
    kept = {"budget": budget} if name != "l2_laplace" else {}  # whose float grade no budget is charged for
    rows = PrivateSource(ToyModel(), [noise(name, **kept), last], seen.append, unit_rows=unit_rows).embed(TEXTS, "document")
    raw, receipt = last.result.values, rows.receipt
    assert seen == [receipt]
    lengths = np.linalg.norm(rows.values.astype(np.float64), axis=1)
    if name == "codebook" or not unit_rows:
        assert (rows.values == raw).all() and receipt == last.result.receipts[0]
    else:
        np.testing.assert_allclose(rows.values, raw / np.linalg.norm(raw, axis=1, keepdims=True), rtol=1e-6)
        assert receipt.renormalize and "brought to unit length after the noise" in str(receipt)
    assert (np.abs(lengths - 1) < 1e-6).all() == (unit_rows or name == "codebook")
    verdict = hv.verify_receipt(receipt).status
    assert verdict == module_of(SCRIPT.read_text()).check_receipt(receipt.to_dict())[0]
    assert verdict == ("not a DP claim" if name == "l2_laplace" else "holds")
    if kept:
        assert hv.verify_charges([receipt], budget.export()).status == "holds"


def test_clean_rows_stay_as_they_are():
    source = PrivateSource(lambda texts: [[3.0, 0.0]] * len(texts), noise("gaussian", clip_norm=5.0), unit_rows=True)
    rows = source.embed(TEXTS, "query")
    assert rows.receipt is None and (rows.values == [[3.0, 0.0]] * 3).all()


def test_rows_of_a_middleware_that_did_it_keep_their_bits():
    rows = PrivateSource(ToyModel(), noise("privunit", renormalize=True), unit_rows=True).embed(TEXTS, "document")
    again = at_unit_length(rows)
    assert again is rows and rows.receipt.renormalize


def test_int8_values_that_a_step_made_get_a_note():
    release = hv.privatize(np.stack([unit_row(text) for text in TEXTS]), epsilon=4.0, dtype="int8")

    class InBytes(EmbeddingMiddleware):
        adds_noise = True

        def wrap(self, result, model):
            return EmbeddingResult(release.to_float32(), (release.receipt,))

    rows = PrivateSource(ToyModel(), InBytes(), unit_rows=True).embed(TEXTS, "document")
    assert rows.receipt.notes[-1] == NOTE_UNIT_ROWS and not rows.receipt.renormalize
    assert hv.verify_receipt(rows.receipt).status == "holds"
    assert module_of(SCRIPT.read_text()).check_receipt(rows.receipt.to_dict())[0] == "holds"


def test_unit_rows_must_be_true_or_false():
    with pytest.raises(TypeError, match="unit_rows must be True or False, got int"):
        PrivateSource(ToyModel(), faint(), unit_rows=1)
    assert DIMENSION == CODEBOOK.dimension
