"""Lower case and stop words: what is embedded, that other vectors are other runs, and that the defaults change nothing."""

import numpy as np
import pytest
import study_stand_ins as stand_ins

from hushvec_studies.retrieval.configuration import to_values
from hushvec_studies.retrieval.inputs import AllInputs
from hushvec_studies.retrieval.key_phrases import prepared_text, stop_words
from hushvec_studies.retrieval.plan import first_difference, planned

BOTH = ("data.lower_case=true", "data.drop_stop_words=true")


@pytest.mark.parametrize(
    ("text", "lower_case", "drop", "expected"),
    [
        ("The Noise, and THE vectors.", False, False, "The Noise, and THE vectors."),
        ("The Noise, and THE vectors.", True, False, "the noise, and the vectors."),
        ("The Noise, and THE vectors.", False, True, "Noise, vectors."),
        ("It isn’t here", False, True, "It isn’t here"),  # stop words alone: they stay
        ("theory of noise", True, True, "theory noise"),
        ("", True, True, ""),
    ],
)
def test_prepared_text(text, lower_case, drop, expected):
    assert prepared_text(text, lower_case=lower_case, drop=drop) == expected


def test_only_whole_words_are_dropped():
    assert "the" in stop_words()
    assert prepared_text("theatre breathe lathe", drop=True) == "theatre breathe lathe"


class Recording:
    """An embedder that remembers what it was given."""

    model_id = "recording"

    def __init__(self):
        self.texts = []

    def embed(self, texts):
        self.texts += texts
        return np.random.default_rng(len(self.texts)).standard_normal((len(texts), 4)).astype(np.float32)


def test_documents_and_queries_are_prepared_before_they_are_embedded(tmp_path):
    source = tmp_path / "notes.jsonl"
    source.write_text("".join(f'{{"text": "The Patient number{n} has asthma And a Cough."}}\n' for n in range(6)))
    given = []
    for changes in ((), BOTH):
        model = Recording()
        configuration = stand_ins.small(tmp_path, f"data.source={source}", "embedding.model=recording", *changes)
        AllInputs(tmp_path / f"cache{len(changes)}", lambda _: model, False).of(planned(configuration)[0])  # noqa: B023
        given.append(model.texts)
    plain, prepared = given
    assert any("The Patient" in text for text in plain)
    assert prepared and all(text == text.lower() and not set(text.split()) & {"the", "and", "a", "has"} for text in prepared)


def test_other_preparations_are_other_inputs_and_other_runs(tmp_path):
    plain, prepared = (planned(stand_ins.small(tmp_path, *changes)) for changes in ((), BOTH))
    inputs = AllInputs(tmp_path / "cache", stand_ins.model, progress=False)
    here, there = inputs.of(plain[0]), inputs.of(prepared[0])
    assert here is not there and here.documents.shape == there.documents.shape
    assert plain[1].fingerprint("", "") != prepared[1].fingerprint("", "") and plain[1].seed("index") != prepared[1].seed("index")
    assert "data.lower_case is False there and True here" in first_difference(
        prepared[0].configuration, to_values(plain[0].configuration)
    )


def test_the_defaults_are_no_part_of_a_run(tmp_path):
    """So that studies from before these settings keep the names and the noise of their runs."""
    (run, *_) = planned(stand_ins.small(tmp_path))
    assert not {"lower_case", "drop_stop_words"} & set(run.settings()["data"])
    older = to_values(run.configuration)
    del older["data"]["lower_case"], older["data"]["drop_stop_words"]
    assert first_difference(run.configuration, older) is None
