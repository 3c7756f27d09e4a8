"""Private classifiers over a real transformers pipeline: a random BERT of one tiny layer, made in a temporary folder."""

import os

import pytest

import hushvec as hv
from hushvec.middleware import dp_classification_middleware, wrap_classification_model

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LABELS = ["negative", "neutral", "positive"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "day", "night"]
TEXTS = ["good day", "bad night", "night", "good good good", "bad"]
SURE = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose answers differ: its weights are drawn wide."""
    folder = tmp_path_factory.mktemp("tiny-bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        initializer_range=2.0,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=[None, 3], ids=["top label", "all labels"])
def pipeline(request, folder):
    transformers.utils.logging.disable_progress_bar()
    options = {} if request.param is None else {"top_k": None}
    return transformers.pipeline("text-classification", model=str(folder), device="cpu", **options)


def truth(pipeline):
    found = pipeline(TEXTS)
    return [max(one, key=lambda known: known["score"]) if isinstance(one, list) else one for one in found]


def wrapped(pipeline, labels=LABELS, **arguments):
    return wrap_classification_model(pipeline, dp_classification_middleware(**{"epsilon": SURE, "labels": labels, **arguments}))


def test_a_pipeline_answers_as_itself_when_epsilon_is_large(pipeline):
    expected = [one["label"] for one in truth(pipeline)]
    assert len(set(expected)) > 1
    answers = wrapped(pipeline).classify(TEXTS)
    assert answers.labels == wrapped(pipeline)(TEXTS).labels == expected
    assert wrapped(pipeline).classify(TEXTS[0]).labels == expected[:1]
    assert {(answer.score, answer.all_scores) for answer in answers} == {(1 / 3, None)}
    assert (answers.receipt.answers, hv.verify_receipt(answers.receipt).status) == (5, "holds")


def test_source_scores_are_the_pipeline_s(pipeline):
    answers = wrapped(pipeline, scores="source").classify(TEXTS)
    assert [answer.score for answer in answers] == pytest.approx([one["score"] for one in truth(pipeline)], rel=1e-5)
    every = [answer.all_scores for answer in answers]
    assert every == [None] * 5 or all(set(scores) == set(LABELS) for scores in every)
    assert hv.verify_receipt(answers.receipt).status == "not a DP claim"


def test_a_pipeline_is_not_taken_for_an_estimator(pipeline):
    assert hasattr(pipeline, "predict")
    assert not hasattr(wrapped(pipeline), "predict")


def test_bad_input_charges_nothing(pipeline):
    budget = hv.PrivacyBudget(1.0)
    private = wrapped(pipeline, epsilon=0.5, budget=budget)
    for inputs, text in [
        (None, "inputs must be a sequence of inputs"),
        (["good", None], "inputs must not hold None"),
        (["good", 3], "inputs must be all str or none of them"),
        ([3.0, 4.0], "inputs must be str for a text classification pipeline, got float at position 0"),
    ]:
        with pytest.raises(TypeError, match=text):
            private.classify(inputs)
    assert len(private.classify([])) == 0
    with pytest.raises(ValueError, match="inputs must have at most"):
        private.classify("good " * 200_000)
    with pytest.raises(RuntimeError, match="size"):
        private.classify("good " * 100)  # longer than this model's 64 tokens: its own error, in torch's words
    with pytest.raises(ValueError, match="the model's label must be among the 3 labels"):
        wrapped(pipeline, labels=["good", "bad", "neither"], epsilon=0.5, budget=budget).classify(TEXTS)
    assert budget.consumed() == 0.0
    private.classify(TEXTS)
    assert budget.consumed() == 0.5


def test_other_pipelines_are_no_classifiers(pipeline):
    other = transformers.pipeline("fill-mask", model=_masked(pipeline), tokenizer=pipeline.tokenizer, device="cpu")
    with pytest.raises(TypeError, match=r"model must be a pipeline for one of text-classification, .*, got one for 'fill-mask'"):
        wrapped(other)


def _masked(pipeline):
    return transformers.BertForMaskedLM(pipeline.model.config)
