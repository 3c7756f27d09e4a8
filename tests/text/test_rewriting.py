"""From text to text: chunks, noise, receipts and budgets, with an embedder and inverters made for the tests."""

import csv
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, PublicProjection
from hushvec.text import Redactor, Rewriter, rewrite
from hushvec.text.rewriting.chunks import Chunking, Part, joined
from text.rewriting_parts import DIMENSION, LawRecorder, Recorder, WordEmbedder

VECTORS = Path(__file__).parent.parent / "evidence" / "vectors" / "seed_receipts.csv"
CONTACT = "Contact Jane Doe at jane@example.com."
MEETING = "Contact Jane Doe at jane@example.com or call 415-555-0188 about the merger. Our office is downtown."


def grouped(**arguments):
    """Arguments of `Rewriter`, of which the fields of `Chunking` are given by themselves."""
    of_chunks = {name: arguments.pop(name) for name in Chunking.__dataclass_fields__ if name in arguments}
    return {**arguments, **({"chunking": Chunking(**of_chunks)} if of_chunks else {})}


def rewriter(**changes):
    return Rewriter(**grouped(**{"embedder": WordEmbedder(), "inverter": Recorder(), "mechanism": "gaussian", **changes}))


def text_of(chunks):
    """A text with so many chunks: words between e-mail addresses."""
    return " a@example.com ".join(["some words"] * chunks)


# the clip norm


class Bounded(WordEmbedder):
    norm_bound = 2.0


@pytest.mark.parametrize(
    "embedder, given, clip_norm, note",
    [
        (WordEmbedder(), None, 1.5, "clip_norm is 1.5, the default: no bound on the norms of the embedder's rows is known"),
        (Bounded(), None, 2.0, "clip_norm is 2, the stated bound on the norms of the embedder's rows, which are clipped to it"),
        (Bounded(), 0.5, 0.5, None),
    ],
)
def test_the_clip_norm_is_the_bound_of_the_embedder_if_it_states_one(embedder, given, clip_norm, note):
    result = rewriter(embedder=embedder, clip_norm=given).rewrite("some words")
    assert (result.clip_norm, result.receipt.clip_norm) == (clip_norm, clip_norm)
    assert [one for one in result.receipt.notes if "clip_norm is" in one] == ([] if note is None else [note])


def test_unit_rows_get_two_thirds_of_the_noise():
    class Unit(WordEmbedder):
        model_id = "team/all-MiniLM-L6-v2"

    plain, unit = (rewriter(embedder=embedder).rewrite("some words") for embedder in (WordEmbedder(), Unit()))
    assert unit.sigma == pytest.approx(plain.sigma * 2 / 3, rel=1e-12)


def test_directions_have_no_note_about_the_clip_norm():
    receipt = rewriter(mechanism="privunit", level="document").rewrite("some words").receipt
    assert not any("clip_norm is" in note for note in receipt.notes)


@pytest.mark.parametrize(
    "bound, kind, words", [("1", TypeError, "norm_bound must be a number"), (-1.0, ValueError, "norm_bound must be > 0")]
)
def test_a_bound_that_is_none_is_refused(bound, kind, words):
    embedder = WordEmbedder()
    embedder.norm_bound = bound
    with pytest.raises(kind, match=words):
        rewriter(embedder=embedder)


def test_a_call_with_the_names_of_the_paper():
    parts = {"embedder": WordEmbedder(), "inverter": Recorder(), "mechanism": "gaussian"}
    published = rewrite(
        MEETING, epsilon=16.0, delta=1e-3, clip_radius=0.5, num_steps=5, whitelist_categories=["full person name"], max_len=8,
        device=None, seed=0, **parts,
    )  # fmt: skip
    here = rewrite(
        MEETING, clip_norm=0.5, redactor=Redactor(allow_categories=["full person name"]), chunking=Chunking(max_length=8),
        generator=hv.Generator.unsafe_seeded(0), **parts,
    )  # fmt: skip
    assert published == here and published.clip_norm == 0.5 and "Jane Doe" in published.spans[0].text
    assert rewrite(MEETING, whitelist_categories=None, seed=None, **parts).n_chunks == 4
    with pytest.raises(TypeError, match="clip_norm must be given once, got clip_radius as well"):
        rewrite(MEETING, clip_radius=0.5, clip_norm=0.5, **parts)
    with pytest.raises(ValueError, match="seed must be >= 0, got -1"):
        rewrite(MEETING, seed=-1, **parts)


@pytest.mark.parametrize(
    "name, place",
    [
        ("allow_categories", "redactor=Redactor(allow_categories=...)"),
        ("level", "chunking=Chunking(level=...)"),
        ("max_length", "chunking=Chunking(max_length=...)"),
        ("max_chunks", "chunking=Chunking(max_chunks=...)"),
        ("composition", "chunking=Chunking(composition=...)"),
    ],
)
def test_an_earlier_argument_says_where_it_is(name, place):
    for call in (Rewriter, lambda **arguments: rewrite(CONTACT, **arguments)):
        with pytest.raises(TypeError, match=re.escape(f"{name} must be given as {place}, got Rewriter({name}=...)")):
            call(**{name: None})


# chunks and placeholders


def test_placeholders_and_chunks_alternate_as_in_the_text():
    result = rewriter(composition="basic").rewrite(MEETING)
    assert result.output == "text0 [PERSON] text1 [EMAIL] text2 [PHONE] text3"
    assert [(span.text, span.is_pii, span.category, span.placeholder, span.chunk_idx) for span in result.spans] == [
        ("Contact ", False, None, None, 0),
        ("Jane Doe", True, "full person name", "[PERSON]", None),
        (" at ", False, None, None, 1),
        ("jane@example.com", True, "email address", "[EMAIL]", None),
        (" or call ", False, None, None, 2),
        ("415-555-0188", True, "phone number", "[PHONE]", None),
        (" about the merger. Our office is downtown.", False, None, None, 3),
    ]
    assert [span.rewritten for span in result.spans if span.chunk_idx is not None] == ["text0", "text1", "text2", "text3"]
    # the published line for this text
    assert result.dp_line == "[DP] eps_total=16.0 delta_total=0.001 K=4 eps/chunk=4.0000 sigma=2.7196 clip=1.5"


def test_what_has_no_letter_or_digit_is_dropped_and_no_chunk():
    embedder = WordEmbedder()
    result = rewriter(embedder=embedder, composition="basic").rewrite(CONTACT)
    assert embedder.calls == [["Contact", "at"]]
    assert result.output == "text0 [PERSON] text1 [EMAIL]"
    assert result.spans[-1] == type(result.spans[-1])(".", False, None, None, None, None)
    assert result.dp_line == "[DP] eps_total=16.0 delta_total=0.001 K=2 eps/chunk=8.0000 sigma=1.4992 clip=1.5"


def test_nothing_of_a_chunk_is_copied():
    output = rewriter().rewrite("Zanzibar! \N{PARTY POPPER} quokka: 12345 \N{SKULL}").output
    assert output == "text0"


def test_the_same_text_has_the_same_chunks_and_placeholders():
    made = [rewriter().rewrite(MEETING) for _ in range(3)]
    assert len({(one.output, one.n_chunks, one.sigma, one.dp_line) for one in made}) == 1


def test_allowed_categories_are_rewritten():
    result = rewriter(redactor=Redactor(allow_categories=["full person name"])).rewrite(CONTACT)
    assert result.output == "text0 [EMAIL]"
    assert result.spans[0].text == "Contact Jane Doe at "


def test_an_own_redactor():
    result = rewriter(redactor=Redactor(patterns=["email"], replacement="<gone>")).rewrite(CONTACT)
    assert result.output == "text0 <gone>"


@pytest.mark.parametrize("words", [8, 9, 30, 31, 32, 33, 64, 65, 200])
def test_long_stretches_are_cut(words):
    text = " ".join(f"word{number}" for number in range(words))
    embedder = WordEmbedder()
    result = rewriter(embedder=embedder, max_length=32).rewrite(text)
    assert "".join(span.text for span in result.spans) == text
    assert all(len(chunk.split()) <= 32 for chunk in embedder.calls[0])
    assert result.n_chunks == len(embedder.calls[0]) == math.ceil(words / 32)


def test_sentences_are_not_cut_where_it_can_be_helped():
    text = "One two three four. Five six seven eight nine. Ten eleven twelve."
    embedder = WordEmbedder()
    rewriter(embedder=embedder, max_length=7).rewrite(text)
    assert embedder.calls[0] == ["One two three four.", "Five six seven eight nine.", "Ten eleven twelve."]


def test_a_text_of_personal_data_alone_is_not_charged():
    budget = hv.PrivacyBudget(20.0, max_delta=0.01)
    result = rewriter().rewrite("jane@example.com", budget=budget)
    assert (result.output, result.n_chunks, result.receipt, result.epsilon_total, result.delta_total) == ("[EMAIL]", 0, None, 0.0, 0.0)
    assert budget.consumed() == 0.0


# noise


@pytest.mark.parametrize("row", list(csv.DictReader(VECTORS.read_text().splitlines())), ids=lambda row: row["n_chunks"])
def test_sigma_of_published_receipts(row):
    chunks = int(row["n_chunks"])
    basic = rewriter(composition="basic").rewrite(text_of(chunks))
    joint = rewriter().rewrite(text_of(chunks))
    assert (basic.n_chunks, joint.n_chunks) == (chunks, chunks)
    assert basic.sigma == pytest.approx(float(row["sigma_basic"]), rel=1e-9)
    assert joint.sigma == pytest.approx(float(row["sigma_joint"]), rel=1e-9)
    assert basic.epsilon_per_chunk == pytest.approx(float(row["epsilon_per_chunk"]), rel=1e-12)
    assert basic.delta_per_chunk == pytest.approx(float(row["delta_per_chunk"]), rel=1e-12)
    for result in (basic, joint):  # the noise as used: the next float32
        assert 0 <= result.receipt.sigma - result.sigma <= 2e-7 * result.sigma


@pytest.mark.parametrize("chunks", [1, 2, 3, 7])
@pytest.mark.parametrize("composition", ["joint", "basic"])
def test_receipts_promise_no_more_than_was_asked_for_and_hold(chunks, composition):
    result = rewriter(composition=composition).rewrite(text_of(chunks))
    receipt = result.receipt
    assert (result.epsilon_total, result.delta_total) == (16.0, 1e-3)
    assert receipt.epsilon <= 16.0 and receipt.delta == 1e-3 and receipt.rows == chunks and receipt.per == "release"
    assert hv.verify_receipt(receipt).status == "holds"
    if composition == "basic" and chunks > 1:
        assert receipt.epsilon < 16.0  # basic composition overstates


def test_one_chunk_of_a_joint_release_costs_more_than_its_share_of_epsilon():
    result = rewriter().rewrite(text_of(4))
    assert result.epsilon_per_chunk == pytest.approx(float(hv.gaussian_epsilon(1e-3 / 4, result.sigma, 3.0)))
    assert 4.0 < result.epsilon_per_chunk < 16.0


@pytest.mark.parametrize("composition", ["joint", "basic"])
def test_the_noise_in_the_rows_is_that_of_the_result(composition):
    """n = 400 x 4 x 24 differences: the sum of squares over sigma^2 against chi-square, six standard deviations, alpha 2e-9;
    half the sigma is rejected."""
    documents = 400
    clean = WordEmbedder().embed(["some words"])[0]
    inverter = Recorder()
    made = list(rewriter(inverter=inverter, composition=composition).rewrite_all([text_of(4)] * documents))
    rows = np.concatenate(inverter.rows)
    assert rows.shape == (documents * 4, DIMENSION)
    n = rows.size
    statistic = (((rows - clean) / made[0].sigma) ** 2).sum()
    assert abs(statistic - n) < 6 * math.sqrt(2 * n)
    assert abs(4 * statistic - n) > 6 * math.sqrt(2 * n)


def test_rows_are_clipped_before_the_noise():
    inverter = Recorder()
    rewriter(embedder=WordEmbedder(scale=100.0), inverter=inverter, epsilon=math.inf, clip_norm=2.0).rewrite("some words")
    assert 2.0 - 1e-5 < np.linalg.norm(inverter.rows[0].astype(np.float64)) <= 2.0


def test_an_infinite_epsilon_adds_nothing_and_claims_nothing():
    inverter = Recorder()
    result = rewriter(epsilon=math.inf, inverter=inverter).rewrite(CONTACT)
    np.testing.assert_array_equal(inverter.rows[0], WordEmbedder().embed(["Contact", "at"]))
    assert result.receipt is None and result.sigma == 0.0
    assert result.dp_line.endswith("(no noise: nothing is guaranteed)")
    assert result.to_dict()["epsilon_total"] == "inf"


def test_a_step_by_step_demo_runs_with_every_mechanism():
    """The one of DP-Embed-Invert, section 5.2: a sigma that does not exist is printed as nan, and is null in JSON."""
    laplace = rewriter(mechanism="laplacian").rewrite(CONTACT)
    chosen = rewriter(mechanism="randomized_response", inverter=Chooser(), epsilon=40.0).rewrite("north")
    made = [rewriter(**settings).rewrite(CONTACT) for settings in ({}, {"composition": "basic"}, {"mechanism": "privunit"})]
    for result in (*made, rewriter(epsilon=math.inf).rewrite(CONTACT), laplace, chosen):
        line = f"K = {result.n_chunks}, epsilon/chunk = {result.epsilon_per_chunk:.3f}, sigma = {result.sigma:.3f}"
        assert line.endswith("sigma = nan") == (result in (laplace, chosen)) == (result.to_dict()["sigma"] is None)
        for span in result.spans:
            tag = f"[PII:{span.category}]" if span.is_pii else f"[plain k={span.chunk_idx}]"
            assert f"{tag:<28} {span.text!r:60} -> {span.placeholder if span.is_pii else span.rewritten!r}"
    assert laplace.scale > 0


@pytest.mark.parametrize("mechanism", ["laplacian", "l2_laplace", "privunit"])
def test_pure_mechanisms_share_epsilon_out_and_need_no_delta(mechanism):
    result = rewriter(mechanism=mechanism, level="chunk", delta=0.0).rewrite(text_of(4))
    assert (result.epsilon_total, result.delta_total) == (16.0, 0.0)
    assert (result.epsilon_per_chunk, result.delta_per_chunk) == (4.0, 0.0)
    assert (result.receipt.epsilon, result.receipt.delta, result.receipt.rows) == (16.0, 0.0, 4)
    assert f"mechanism={mechanism}" in result.dp_line
    assert ("not a DP claim" in result.dp_line) == (mechanism == "l2_laplace")  # float grade


def test_a_seed_repeats_and_claims_nothing():
    inverters = [Recorder(), Recorder(), Recorder()]
    generators = [hv.Generator.unsafe_seeded(seed) for seed in (7, 7, 8)]
    made = [rewriter(generator=one, inverter=inverter).rewrite(CONTACT) for one, inverter in zip(generators, inverters, strict=True)]
    first, same, other = (inverter.rows[0] for inverter in inverters)
    assert (first == same).all() and (first != other).any()
    assert not made[0].receipt.is_dp_claim and made[0].dp_line.endswith("(not a DP claim: seeded key)")


def test_a_seed_is_another_name_of_a_seeded_generator():
    old, new = Recorder(), Recorder()
    rewriter(seed=7, inverter=old).rewrite(CONTACT)
    rewriter(generator=hv.Generator.unsafe_seeded(7), inverter=new).rewrite(CONTACT)
    np.testing.assert_array_equal(old.rows[0], new.rows[0])
    with pytest.raises(TypeError, match=r"^generator must be given once, got seed as well$"):
        rewriter(seed=7, generator=None)


def test_without_a_seed_nothing_repeats():
    inverter = Recorder()
    one = rewriter(inverter=inverter)
    for _ in range(2):
        one.rewrite(CONTACT)
    assert (inverter.rows[0] != inverter.rows[1]).mean() > 0.5  # of 48 elements on a grid of 1/64


# level


def test_a_document_is_one_vector_and_the_output_is_what_it_inverts_to():
    embedder = WordEmbedder()
    result = rewriter(embedder=embedder, mechanism="privunit").rewrite(MEETING)
    assert embedder.calls == [["Contact [PERSON] at [EMAIL] or call [PHONE] about the merger. Our office is downtown."]]
    assert (result.output, result.n_chunks, result.level) == ("text0", 1, "document")
    assert [(span.text, span.rewritten, span.chunk_idx) for span in result.spans] == [(MEETING, "text0", 0)]
    assert (result.receipt.mechanism, result.receipt.epsilon, result.receipt.delta) == ("privunit", 16.0, 0.0)


def test_a_document_of_personal_data_alone_is_a_document():
    assert rewriter(level="document").rewrite("jane@example.com").n_chunks == 1


# one of many public texts


class Chooser:
    """Answers with the word of the text that it knows; keeps what it was asked for."""

    def __init__(self, words=("east", "north", "south", "west")):
        self.texts = words
        self._rows = WordEmbedder().embed(list(words))
        self.epsilons = []

    def invert(self, embeddings):
        return [self.texts[number] for number in self.nearest(embeddings)]

    def choice_for(self, epsilon):
        self.epsilons.append(epsilon)
        return self

    def nearest(self, embeddings):
        return (embeddings @ self._rows.T).argmax(axis=1).astype(np.int32)


def test_a_document_becomes_a_public_text_by_randomized_response():
    result = rewriter(mechanism="randomized_response", inverter=Chooser(), epsilon=40.0).rewrite("north")
    assert (result.output, result.level, result.n_chunks) == ("north", "document", 1)
    assert (result.receipt.epsilon, result.receipt.label_count) == (40.0, 4)
    assert hv.verify_receipt(result.receipt).status == "holds"
    assert result.dp_line == "[DP] eps_total=40.0 delta_total=0.0 K=1 eps/chunk=40.0000 texts=4 clip=1.5 mechanism=randomized_response"


def test_chunks_share_epsilon_and_so_do_the_texts_to_choose_from():
    chooser = Chooser()
    result = rewriter(mechanism="randomized_response", level="chunk", inverter=chooser, epsilon=80.0, max_chunks=4).rewrite(
        "north a@example.com west"
    )
    assert result.output.split()[:2] == ["north", "west"] and result.output.endswith("[EMAIL]")
    assert chooser.epsilons == [20.0]
    assert (result.receipt.per, result.receipt.answers, result.receipt.epsilon) == ("release", 4, 80.0)


def test_randomized_response_tells_the_truth_as_often_as_its_epsilon_says():
    """n = 4,000 documents, k = 4, epsilon = 2: truth with probability 0.711; six standard deviations, alpha 2e-9. The dictionary rule,
    0.881 + 0.119 / 4, is rejected."""
    n, truth = 4000, math.exp(2) / (math.exp(2) + 3)
    one = rewriter(mechanism="randomized_response", inverter=Chooser(), epsilon=2.0)
    kept = sum(result.output == "north" for result in one.rewrite_all(["north"] * n))
    margin = 6 * math.sqrt(n * truth * (1 - truth))
    assert abs(kept - n * truth) < margin
    wrong = math.exp(2) / (math.exp(2) + 1)
    assert abs(n * (wrong + (1 - wrong) / 4) - n * truth) > margin


def test_a_public_text_is_charged_before_it_is_chosen():
    budget = hv.PrivacyBudget(20.0)
    one = rewriter(mechanism="randomized_response", inverter=Chooser())
    receipt = one.rewrite("north", budget=budget).receipt
    assert budget.consumed() == 16.0
    assert hv.verify_charges([receipt], budget.export()).status == "holds"
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        one.rewrite("north", budget=budget)


def test_randomized_response_needs_public_texts():
    with pytest.raises(TypeError, match=r"inverter must have public texts to choose from for mechanism .*, got Recorder"):
        rewriter(mechanism="randomized_response")


# the default


def by_default(**changes):
    return rewriter(**{"mechanism": "auto", **changes})


def test_public_texts_make_the_default_a_document_by_randomized_response():
    for one in (by_default(inverter=Chooser(), epsilon=40.0), Rewriter(embedder=WordEmbedder(), inverter=Chooser(), epsilon=40.0)):
        result = one.rewrite("north")
        assert one.mechanism == result.mechanism == "randomized_response"
        assert (result.output, result.level, result.delta_total) == ("north", "document", 0.0)
        assert not any("auto" in note for note in result.receipt.notes)


def test_a_file_of_public_texts_makes_it_too(tmp_path):
    public = tmp_path / "public.txt"
    public.write_text("north wind\neast wind\nsouth wind\n")
    result = Rewriter(embedder=WordEmbedder(), inverter=public, epsilon=40.0).rewrite("some east wind")
    assert (result.mechanism, result.output) == ("randomized_response", "east wind")


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_file_of_five_texts_gives_five_answers(tmp_path, epsilon):
    public = tmp_path / "public.txt"
    public.write_text("north wind\neast wind\nsouth wind\nwest wind\nno wind\n")
    result = Rewriter(embedder=WordEmbedder(), inverter=public, epsilon=epsilon).rewrite("some east wind")
    assert " texts=5 " in result.dp_line


def test_without_public_texts_the_default_is_a_direction_and_the_receipt_says_why():
    one = by_default()
    result = one.rewrite(MEETING)
    assert one.mechanism == result.mechanism == "privunit" and result.level == "document"
    assert "mechanism 'auto' is 'privunit' here: the inverter has no public texts to choose from" in result.receipt.notes
    assert not any("auto" in note for note in rewriter(mechanism="privunit").rewrite(MEETING).receipt.notes)
    assert by_default(level="chunk").rewrite(MEETING).receipt.notes[-1].startswith("mechanism 'auto'")


def test_the_default_covers_chunks_where_these_are_asked_for():
    result = by_default(inverter=Chooser(), epsilon=160.0, level="chunk", max_chunks=4).rewrite("north a@example.com south")
    assert (result.mechanism, result.n_chunks) == ("randomized_response", 4)


def test_an_infinite_epsilon_promises_nothing_by_default_either():
    result = by_default(inverter=Chooser(), epsilon=math.inf).rewrite("north")
    assert result.receipt is None and result.dp_line.endswith("(no noise: nothing is guaranteed)")


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(composition="basic"), "composition must be 'joint' with mechanism 'auto', got 'basic': it is of mechanism 'gaussian'"),
        (dict(composition="basic", inverter=Recorder()), "composition must be 'joint' with mechanism 'auto'"),
        (dict(projection=PublicProjection.mean_only(np.eye(DIMENSION, dtype=np.float32))), "projection must be 'auto' or None"),
        (dict(max_chunks=3), "max_chunks must be None for level 'document', where there is always one, got 3: give level='chunk'"),
        (dict(mechanism="best"), "mechanism must be one of 'auto', 'gaussian'"),
    ],
    ids=["basic composition", "basic composition of rows", "own map", "max_chunks", "unknown"],
)
def test_the_default_refuses_what_it_would_leave_out(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        by_default(**{"inverter": Chooser(), **changes})


# a public number of chunks


@pytest.mark.parametrize("text, chunks", [(CONTACT, 2), ("jane@example.com", 0), (text_of(5), 5)])
def test_max_chunks_hides_the_number_of_chunks(text, chunks):
    result = rewriter(max_chunks=5).rewrite(text)
    assert result.n_chunks == result.receipt.rows == 5
    assert result.sigma == pytest.approx(float(hv.gaussian_sigma(16.0, 1e-3, 3.0 * math.sqrt(5))), rel=1e-12)
    assert sum(span.chunk_idx is not None for span in result.spans) == 5
    filled = [span for span in result.spans if span.text == ""]
    assert [span.rewritten for span in filled] == [f"text{number}" for number in range(chunks, 5)]
    assert all(f"text{number}" in result.output for number in range(5))
    assert any("max_chunks" in note for note in result.receipt.notes)


def test_max_chunks_hides_where_placeholders_stand():
    """One list of placeholders, with chunks before, between and behind. The inverter answers the same to any rows, so all that an
    output can show is where its placeholders stand. Without max_chunks the supports differ."""
    texts = ["a@example.com some words", "some words a@example.com", "one a@example.com two", "a@example.com", "one a@example.com 2!"]
    outputs = {rewriter(max_chunks=2).rewrite(text).output for text in texts}
    assert outputs == {"text0 text1 [EMAIL]"}
    assert len({rewriter().rewrite(text).output for text in texts}) == 4
    spans = rewriter(max_chunks=2).rewrite(texts[0]).spans
    assert [span.placeholder or span.rewritten for span in spans] == ["[EMAIL]", "text0", "text1"]


def test_receipts_say_whether_places_are_covered():
    covered, exposed = (rewriter(max_chunks=limit).rewrite(CONTACT).receipt.notes for limit in (3, None))
    assert any("placeholders stand behind all chunks" in note for note in covered)
    assert any("their places are set by rules and not covered" in note for note in exposed)
    assert not any("their places" in note for note in covered)


def test_chunks_beyond_max_chunks_are_joined():
    """The row of joined chunks is the mean of theirs: nothing of a long text is cut off, and it is released as one of two chunks."""
    rows = WordEmbedder().embed(["Contact", "at", "or call", "about the merger. Our office is downtown."])
    seen = Recorder()
    result = rewriter(max_chunks=2, epsilon=math.inf, inverter=seen).rewrite(MEETING)
    np.testing.assert_allclose(seen.rows[0], [rows[:2].mean(axis=0), rows[2:].mean(axis=0)], rtol=1e-6)
    assert result.output == "text0 text1 [PERSON] [EMAIL] [PHONE]"
    in_chunks = [(span.chunk_idx, span.rewritten) for span in result.spans if span.chunk_idx is not None]
    assert in_chunks == [(0, "text0"), (0, None), (1, "text1"), (1, None)]
    assert "".join(span.text for span in result.spans) == MEETING
    budget = hv.PrivacyBudget(20.0, max_delta=0.01)
    paid = rewriter(max_chunks=2).rewrite(MEETING, budget=budget)
    assert paid.n_chunks == paid.receipt.rows == 2 and budget.consumed() == 16.0


@pytest.mark.parametrize("count, most", [(7, 3), (3, 3), (2, 5), (100, 7), (1, 1)])
def test_joined_chunks_are_neighbors_of_even_number(count, most):
    parts = [Part(str(number), None, number) for number in range(count)]
    numbers = [part.chunk for part in joined(parts, most)]
    sizes = np.bincount(numbers)
    assert numbers == sorted(numbers) and len(sizes) == min(count, most) and sizes.max() - sizes.min() <= 1


# public maps


def a_projection(components=6):
    return PublicProjection.fit(np.random.default_rng(0).standard_normal((100, DIMENSION)).astype(np.float32), components=components)


def test_an_inverter_that_knows_the_law_is_told_and_asked():
    projection = a_projection()
    inverter = LawRecorder(projection)
    results = list(rewriter(inverter=inverter).rewrite_all([text_of(1), text_of(4), text_of(1)]))
    assert [mechanism for mechanism, _ in inverter.asked] == ["gaussian", "gaussian"]
    assert [epsilon for _, epsilon in inverter.asked] == [16.0, results[1].epsilon_per_chunk]
    laws = [mechanism for mechanism, _ in inverter.told]
    assert laws == [
        Gaussian(epsilon=16.0, delta=1e-3, clip_norm=1.5, dimension=6, rows_per_person=1),
        Gaussian(epsilon=16.0, delta=1e-3, clip_norm=1.5, dimension=6, rows_per_person=4),
    ]
    assert sorted(rows.shape for rows in inverter.rows) == [(2, 6), (4, 6)]
    assert {result.receipt.projection for result in results} == {projection.digest}


def test_basic_composition_is_told_its_own_sigma():
    inverter = LawRecorder(None)
    result = rewriter(inverter=inverter, composition="basic").rewrite(text_of(3))
    ((mechanism, projection),) = inverter.told
    assert isinstance(mechanism, EmpiricalGaussian) and projection is None
    assert mechanism.chosen_sigma == result.sigma


def test_other_inverters_get_rows_of_the_embedders_space():
    inverter = Recorder()
    projection = a_projection()
    result = rewriter(inverter=inverter, projection=projection).rewrite(CONTACT)
    assert inverter.rows[0].shape == (2, DIMENSION)
    assert np.linalg.matrix_rank(inverter.rows[0] - projection.mean) <= 6
    assert result.receipt.projection == projection.digest


def test_rows_behind_a_map_have_one_length():
    """A row that the map shortens is not left to the same noise: with next to none its length is clip_norm."""
    projection = a_projection(components=1)
    inverter = LawRecorder(projection)
    result = rewriter(inverter=inverter, epsilon=1e7, clip_norm=0.5).rewrite("some words")
    np.testing.assert_allclose(np.abs(inverter.rows[0]), 0.5, atol=0.01)
    assert np.abs(projection.transform(WordEmbedder().embed(["some words"]))) != pytest.approx(0.5, abs=0.05)
    assert any("length clip_norm" in note for note in result.receipt.notes)


def test_no_map_where_none_is_wanted():
    inverter = LawRecorder(a_projection())
    assert rewriter(inverter=inverter, projection=None).rewrite(CONTACT).receipt.projection is None
    assert inverter.asked == []


# many documents


def test_many_documents_keep_their_order_rows_and_receipts():
    words = [f"w{number}" for number in range(40)]
    known = WordEmbedder().embed(words)

    class NearestWord:
        def invert(self, embeddings):
            return [words[best] for best in (embeddings @ known.T).argmax(axis=1)]

    texts = [" a@example.com ".join(words[first : first + size]) for first, size in itertools.product(range(0, 36, 3), (1, 2, 3))]
    expected = [text.replace("a@example.com", "[EMAIL]") for text in texts]
    results = list(rewriter(epsilon=1e6, inverter=NearestWord()).rewrite_all(iter(texts)))
    assert [result.output for result in results] == expected
    assert [result.receipt.rows for result in results] == [result.n_chunks for result in results]


def test_more_documents_than_are_taken_at_once():
    results = list(rewriter().rewrite_all(["some words"] * 700))
    assert len(results) == 700
    assert len({id(result.receipt) for result in results}) == 700


def test_each_document_has_a_charge_of_its_own_and_the_ledger_paid():
    budget = hv.PrivacyBudget(100.0, max_delta=0.1)
    results = list(rewriter().rewrite_all([CONTACT, MEETING, "jane@example.com"], budget=budget))
    assert budget.consumed() == 32.0
    receipts = [result.receipt for result in results if result.receipt is not None]
    assert hv.verify_charges(receipts, budget.export()).status == "holds"


def test_what_is_paid_for_comes_out_before_the_refusal():
    budget = hv.PrivacyBudget(40.0, max_delta=0.1)
    stream = rewriter().rewrite_all([CONTACT] * 5, budget=budget)
    assert [next(stream).n_chunks for _ in range(2)] == [2, 2]
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        next(stream)
    assert budget.consumed() == 32.0


def test_a_refused_document_stops_the_batch_before_anything_is_charged():
    budget = hv.PrivacyBudget(100.0, max_delta=0.1)
    with pytest.raises(ValueError, match="position 1"):
        list(rewriter().rewrite_all([CONTACT, "  "], budget=budget))
    assert budget.consumed() == 0.0


# bad input

ARGUMENTS = [
    ({"epsilon": 0.0}, ValueError, "epsilon must be > 0, got 0.0"),
    ({"epsilon": -1.0}, ValueError, "epsilon must be > 0"),
    ({"epsilon": math.nan}, ValueError, "epsilon must be finite"),
    ({"epsilon": True}, TypeError, "epsilon must be a number, got bool"),
    ({"epsilon": "16"}, TypeError, "epsilon must be a number, got str"),
    ({"delta": 0.0}, ValueError, "delta must be > 0 and < 1, got 0.0"),
    ({"delta": 1.0}, ValueError, "delta must be > 0 and < 1"),
    ({"clip_norm": 0.0}, ValueError, "clip_norm must be > 0"),
    ({"clip_norm": math.inf}, ValueError, "clip_norm must be finite"),
    ({"num_steps": -1}, ValueError, "num_steps must be >= 0"),
    ({"num_steps": 1.5}, TypeError, "num_steps must be a whole number"),
    ({"max_length": 0}, ValueError, "max_length must be >= 1"),
    ({"max_chunks": 0}, ValueError, "max_chunks must be >= 1"),
    ({"max_chunks": 3, "level": "document"}, ValueError, "max_chunks must be None for level 'document'"),
    ({"mechanism": "empirical"}, ValueError, "mechanism must be one of"),
    ({"mechanism": None}, TypeError, "mechanism must be a str"),
    ({"composition": "advanced"}, ValueError, "composition must be one of 'joint', 'basic'"),
    ({"level": "word"}, ValueError, "level must be one of 'chunk', 'document'"),
    ({"generator": 7}, TypeError, "generator must be a hushvec.Generator or None, got int"),
    ({"chunking": 4}, TypeError, "chunking must be a hushvec.text.Chunking or None, got int"),
    ({"whitelist_categories": ["nonsense"]}, ValueError, "nonsense"),
    ({"whitelist_categories": ["email"], "redactor": Redactor()}, TypeError, "redactor must be given once, got whitelist_categories"),
    ({"redactor": "all"}, TypeError, "redactor must be a hushvec.text.Redactor"),
    ({"projection": "best"}, TypeError, "projection must be a hushvec.mechanisms.PublicProjection"),
    ({"inverter": object()}, TypeError, "inverter must have invert"),
    ({"inverter": 3}, TypeError, "inverter must have invert"),
    ({"embedder": 3}, TypeError, "model must have embed"),
]


@pytest.mark.parametrize("changes, error, message", ARGUMENTS, ids=[f"{'-'.join(one[0])}-{one[2]}" for one in ARGUMENTS])
def test_bad_arguments(changes, error, message):
    with pytest.raises(error, match=message.replace("(", r"\(")):
        rewriter(**changes)


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("", ValueError, "text must not be empty, got 0 blank characters"),
        (" \n\t", ValueError, "text must not be empty, got 3 blank characters"),
        (None, TypeError, "text must be a string, got NoneType"),
        (b"bytes", TypeError, "text must be a string, got bytes"),
        ("x" * 2_000_001, ValueError, "text must have at most 2000000 characters"),
    ],
    ids=["empty", "blank", "None", "bytes", "too long"],
)
def test_bad_texts(text, error, message):
    budget = hv.PrivacyBudget(20.0, max_delta=0.01)
    with pytest.raises(error, match=message):
        rewriter().rewrite(text, budget=budget)
    assert budget.consumed() == 0.0


def test_chunks_that_the_embedder_would_cut_are_refused():
    embedder = WordEmbedder()
    embedder.max_length = 32
    assert rewriter(embedder=embedder, max_length=32).rewrite("some words").n_chunks == 1
    with pytest.raises(ValueError, match="max_length must be <= 32, the tokens that the embedder reads, got 33"):
        rewriter(embedder=embedder, max_length=33)


def test_one_string_is_no_list_of_texts():
    with pytest.raises(TypeError, match="texts must be a list of strings, got str"):
        rewriter().rewrite_all("some words")


@pytest.mark.parametrize(
    "answer, message",
    [
        (lambda n: np.full((n, 3), np.nan, np.float32), "model output must be finite, got nan in row 0"),
        (lambda n: np.zeros((n + 1, 3), np.float32), "rows"),
        (lambda n: np.zeros(n, np.float32), "rows"),
        (lambda n: None, "rows of numbers"),
    ],
    ids=["NaN", "a row too many", "one-dimensional", "None"],
)
def test_an_embedder_that_answers_nonsense(answer, message):
    budget = hv.PrivacyBudget(20.0, max_delta=0.01)
    with pytest.raises((TypeError, ValueError), match=message):
        rewriter(embedder=lambda texts: answer(len(texts))).rewrite(CONTACT, budget=budget)
    assert budget.consumed() == 0.0


def test_an_inverter_that_answers_too_few():
    class Few:
        def invert(self, embeddings):
            return ["one"]

    with pytest.raises(ValueError, match="inverter must return 2 texts, one for each row, got 1"):
        rewriter(inverter=Few()).rewrite(CONTACT)


@pytest.mark.parametrize("changes", [{"generator": hv.Generator.unsafe_seeded(1)}, {"epsilon": math.inf}], ids=["seed", "no noise"])
def test_a_budget_is_refused_where_nothing_is_promised(changes):
    budget = hv.PrivacyBudget(20.0, max_delta=0.01)
    with pytest.raises(ValueError, match="budget must be None"):
        rewriter(**changes).rewrite(CONTACT, budget=budget)
    assert budget.consumed() == 0.0


def test_a_megabyte_of_text():
    text = "The quick brown fox jumps over the lazy dog near the river bank today. " * 14_700
    assert len(text) > 1_000_000
    result = rewriter().rewrite(text)
    assert "".join(span.text for span in result.spans) == text
    assert result.n_chunks == result.receipt.rows > 6_000


# what may be published


def test_the_public_account_holds_nothing_of_the_text():
    result = rewriter().rewrite("Zanzibar is where Jane Doe hid the quokka.")
    public = str(result.to_dict(private=False))
    assert not any(word in public for word in ("Zanzibar", "quokka", "Jane"))
    assert "quokka" in str(result.to_dict())
    assert not any(word in f"{result!r} {result.spans!r}" for word in ("Zanzibar", "quokka", "Jane"))


def test_the_account_has_the_published_fields():
    account = rewriter(composition="basic").rewrite(CONTACT).to_dict()
    assert {
        "original",
        "output",
        "spans",
        "epsilon_total",
        "delta_total",
        "epsilon_per_chunk",
        "delta_per_chunk",
        "sigma",
        "clip_radius",
        "n_chunks",
    } <= set(account)
    assert set(account["spans"][0]) == {"text", "is_pii", "category", "placeholder", "rewritten", "chunk_idx"}
    assert account["clip_radius"] == 1.5


def test_one_call_is_a_rewriter_for_one_text():
    parts = {"embedder": WordEmbedder(), "inverter": Recorder(), "mechanism": "gaussian", "chunking": Chunking(composition="basic")}
    first, second = (hv.Generator.unsafe_seeded(5) for _ in range(2))
    assert rewrite(CONTACT, generator=first, **parts) == Rewriter(generator=second, **parts).rewrite(CONTACT)


@pytest.mark.parametrize("mechanism", ["auto", "gaussian"])
@pytest.mark.parametrize("name", ["public.txt", "PUBLIC.TXT", "notes/public.jsonl", "public.csv", "corpus.npz"])
def test_a_file_of_texts_that_is_not_there_is_no_hub_id(name, mechanism, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hushvec.embedders.checkpoints._from_hub", lambda *_: pytest.fail("the hub was asked"))
    with pytest.raises(FileNotFoundError, match=f"^inverter: the file '{re.escape(name)}' does not exist$"):
        Rewriter(embedder=WordEmbedder(), inverter=name, mechanism=mechanism)
