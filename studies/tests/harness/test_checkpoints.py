"""Folders that training writes, as the library reads them."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from hushvec.embedders.gtr import GTREmbedder
from hushvec.text.inverters import Vec2TextInverter
from hushvec.text.inverters.vec2text.loading import load_corrector, load_inversion
from hushvec_studies.harness.checkpoints import save_checkpoint
from text import tiny_vec2text as tiny

ROWS = tiny.embeddings(3)


def texts(place, **options):
    return Vec2TextInverter.from_pretrained(place, device="cpu", **options).invert(ROWS)


def test_a_saved_checkpoint_needs_no_other_folder(tmp_path):
    folder = tiny.write_all(tmp_path / "models")
    for load, name in ((load_inversion, "saved"), (load_corrector, "saved__correct")):
        source = load(folder / (tiny.INVERSION if name == "saved" else tiny.CORRECTOR), device="cpu")
        save_checkpoint(tmp_path / name, source.model, source.tokens)
        again = load(tmp_path / name, device="cpu").model.state_dict()
        assert all(np.array_equal(again[one], tensor) for one, tensor in source.model.state_dict().items())
    assert texts(tmp_path / "saved", num_steps=0) == texts(folder / tiny.INVERSION, num_steps=0)
    embedder = GTREmbedder(folder / "embedder", max_length=tiny.MAX_SEQ_LENGTH, device="cpu")
    found, whole = (texts(place, num_steps=1, embedder=embedder) for place in (tmp_path / "saved", folder / tiny.INVERSION))
    assert found == whole
