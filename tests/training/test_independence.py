"""An example's gradient is what it is alone: of models, sides of padding and lengths, either no neighbor moves the clipped sum by more
than C, or `require_independent_examples` refuses the training."""

import random
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hushvec.training import per_example_gradients, poisson_loader, require_independent_examples  # noqa: E402
from hushvec.training.clipped_sums import ClippedSum  # noqa: E402

WORDS = 30
C, UNITS = 2.0**-6, 2**25   # a clip norm, and its units in exact sums: most gradients are clipped
LENGTHS = (4, 6, 3, 5)
DEPENDS = "an example's gradient must be what it is alone, got another one "
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:torch.*", "ignore::UserWarning:transformers.*")


def text(length, label=0):
    ids = [1 + (7 * length + 3 * place + place * place) % (WORDS - 1) for place in range(length)]
    return {"input_ids": ids, "attention_mask": [1] * length, "labels": label}


def padded(side, longest=None, *, tokens_are_labels=False):
    """A collate function that pads to the longest of its batch, or to a fixed length."""

    def collate(examples):
        most = longest or max(len(one["input_ids"]) for one in examples)
        batch = {"input_ids": [], "attention_mask": [], "labels": []}
        for one in examples:
            fields = {**one, "labels": one["input_ids"]} if tokens_are_labels else one
            for name, filler in (("input_ids", 0), ("attention_mask", 0), *([("labels", -100)] if tokens_are_labels else [])):
                padding = [filler] * (most - len(one["input_ids"]))
                batch[name].append(padding + fields[name] if side == "left" else fields[name] + padding)
            if not tokens_are_labels:
                batch["labels"].append(one["labels"])
        return {name: torch.tensor(part) for name, part in batch.items()}

    return collate


class Classifier(torch.nn.Module):
    """The mean of words that have absolute positions, as GPT-2's and BERT's have."""

    def __init__(self, *mixing):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places, self.head = torch.nn.Embedding(WORDS, 6), torch.nn.Embedding(40, 6), torch.nn.Linear(6, 3)
        self.dropout, self.mixing = torch.nn.Dropout(0.5), torch.nn.ModuleList(mixing)

    def forward(self, input_ids, attention_mask, **labels):
        states = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        mask = attention_mask[..., None].to(states.dtype)
        found = (self.dropout(states).tanh() * mask).sum(1) / mask.sum(1)
        for layer in self.mixing:
            found = layer(found)
        return self.head(found)


def losses(model, batch):
    return torch.nn.functional.cross_entropy(model(**batch), batch["labels"], reduction="none")


def loss_of_one(predict, one):
    return losses(predict, one)[0]


def own_loss(predict, one):
    return predict(**one).loss


def of_transformers(kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    small = dict(hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=40)
    if kind.startswith("gpt2"):
        sizes = dict(vocab_size=WORDS, n_positions=40, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0, pad_token_id=0)
        config = transformers.GPT2Config(**sizes)
        return (transformers.GPT2LMHeadModel if kind == "gpt2" else transformers.GPT2ForSequenceClassification)(config)
    if kind.startswith("llama"):
        padding = None if kind == "llama" else 0   # None: the vector of token 0, which pads, is not zero
        config = transformers.LlamaConfig(vocab_size=WORDS, num_key_value_heads=2, pad_token_id=padding, **small)
        return (transformers.LlamaForCausalLM if kind == "llama" else transformers.LlamaForSequenceClassification)(config)
    return transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=WORDS, **small))


MODELS = {
    "words": (Classifier, loss_of_one, False),
    **{kind: (lambda kind=kind: of_transformers(kind), own_loss, kind in ("gpt2", "llama"))
       for kind in ("gpt2", "gpt2, classifier", "llama", "llama, classifier", "bert")},
}


def loader_of(data, collate, *, separate=False):
    return poisson_loader(data, 1.0, steps=1, collate_fn=collate, separate=separate)


def exact_sum(model, loss, loader, **how):
    """Of the clipped gradients of one batch, in whole units."""
    parameters = list(model.parameters())
    (batch,) = loader
    per_example_gradients(model, loss, batch, **how)
    total = ClippedSum([tuple(one.shape) for one in parameters], clip_norm=C, sigma=0.0, clipping="exact")
    total.add([one.grad_sample for one in parameters])
    for one in parameters:
        one.grad_sample = None
    return np.concatenate([np.asarray(part, dtype=np.int64).reshape(-1) for part in total.units(parameters[0].detach())])


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


# Where the model sees padding on the left: tokens at other places, or a first token that is predicted from padding.
SEE_PADDING = {("words", "left"), ("gpt2", "left"), ("gpt2, classifier", "left"), ("llama", "left"), ("bert", "left")}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", MODELS)
def test_no_neighbor_moves_the_sum_by_more_than_the_clip_norm_or_the_training_is_refused(kind, side):
    make, loss, tokens_are_labels = MODELS[kind]
    model, collate = without_dropout(make()), padded(side, tokens_are_labels=tokens_are_labels)
    data = [text(length, length % 2) for length in LENGTHS]
    for separate in (False, True):
        moves, of_others = [], []
        for neighbor in (text(1, 1), text(30, 1)):
            loaders = [loader_of(notes, collate, separate=separate) for notes in ([*data, neighbor], data, [neighbor])]
            together, without, alone = (exact_sum(model, loss, loader, vectorize=False) for loader in loaders)
            moves.append(np.linalg.norm(together - without) / UNITS)
            of_others.append(np.abs(together - without - alone).max() / UNITS)
        loader = loader_of(data, collate, separate=separate)
        if not separate and (kind, side) in SEE_PADDING:
            assert max(of_others) > 0.01, "it is refused for a reason"
            with pytest.raises(ValueError, match=DEPENDS):
                require_independent_examples(model, loss, loader)
        else:
            assert max(moves) <= (1 if separate else 1.001)
            assert max(of_others) == 0 if separate else max(of_others) < 1e-4
            require_independent_examples(model, loss, loader)


@pytest.mark.parametrize("vectorize", [True, False])
def test_separate_examples_have_the_gradients_that_they_have_alone(vectorize):
    model, data, collate = without_dropout(Classifier()), [text(length) for length in (4, 6, 4, 3, 6)], padded("left")
    (batch,) = loader_of(data, collate, separate=True)
    found = per_example_gradients(model, loss_of_one, batch, vectorize=vectorize)
    rows = [one.grad_sample for one in model.parameters()]
    for place, one in enumerate(data):
        alone = losses(model, collate([one]))
        torch.testing.assert_close(found[place], alone[0].detach())
        for row, gradient in zip(rows, torch.autograd.grad(alone[0], list(model.parameters()))):
            torch.testing.assert_close(row[place], gradient)


def test_separate_examples_come_out_of_processes_and_may_be_none():
    data = [text(length) for length in LENGTHS]
    (batch,) = poisson_loader(data, 1.0, steps=1, collate_fn=padded("left"), separate=True, num_workers=1)
    assert [one["input_ids"].shape for one in batch] == [(1, length) for length in LENGTHS]
    (none,) = poisson_loader(data, 1e-15, steps=1, collate_fn=padded("left"), separate=True)
    model = Classifier()
    for vectorize in (True, False):
        assert per_example_gradients(model, loss_of_one, none, vectorize=vectorize).shape == (0,)
        assert model.head.bias.grad_sample.shape == (0, 3)
        model.head.bias.grad_sample = model.head.weight.grad_sample = model.words.weight.grad_sample = None
        model.places.weight.grad_sample = None
    rows = torch.utils.data.TensorDataset(torch.ones(5, 6), torch.zeros(5, dtype=torch.long))
    (pairs,) = poisson_loader(rows, 1.0, steps=1, separate=True)
    per_example_gradients(
        Classifier().head, lambda predict, row, label: torch.nn.functional.cross_entropy(predict(row), label), pairs
    )


class OfTraining(torch.nn.Module):
    """Normalizes by the batch in training mode, and is no BatchNorm."""

    def forward(self, rows):
        return rows - rows.mean(0) if self.training else rows


class OverTheBatch(torch.nn.Module):
    """A recurrent layer whose first axis is time, which it is not."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.RNN(6, 6)

    def forward(self, rows):
        return self.layer(rows[:, None])[0][:, 0]


class Contrast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, rows):
        return self.layer(rows)


def negatives_of_the_batch(model, rows):
    similar = model(rows) @ model(rows + 1).T
    return torch.nn.functional.cross_entropy(similar, torch.arange(len(rows)), reduction="none")


def remembering(pad):
    kept = []

    def collate(examples):
        kept.extend(one["input_ids"][0] for one in examples)
        return pad([{**one, "input_ids": [sum(kept) % WORDS, *one["input_ids"][1:]]} for one in examples])

    return collate


ROWS = torch.utils.data.TensorDataset(torch.randn(8, 4, generator=torch.Generator().manual_seed(1)))
NOTES = [text(length, length % 2) for length in LENGTHS]
COUPLED = {
    "normalized": (lambda: Classifier(OfTraining()), None, losses, NOTES, padded("right"), "beside another example"),
    "recurrent": (lambda: Classifier(OverTheBatch()), None, losses, NOTES, padded("right"), "beside another example"),
    "divided by the batch": (
        Classifier, None, lambda model, batch: losses(model, batch) / len(batch["labels"]), NOTES, padded("right"),
        "beside another example",
    ),
    "divided by its tokens": (
        Classifier, None, lambda model, batch: losses(model, batch) / batch["attention_mask"].sum(), NOTES, padded("right"),
        "beside another example",
    ),
    "negatives": (Contrast, None, negatives_of_the_batch, ROWS, None, "beside another example"),
    "padded left": (Classifier, None, losses, NOTES, padded("left"), "beside another example"),
    "padded left, same lengths": (Classifier, None, losses, [text(6)] * 4, padded("left"), "beside a longer example"),
    "remembers": (Classifier, loss_of_one, None, NOTES, remembering(padded("right")), "at the second try"),
    "more than ten": (
        Classifier, None, lambda model, batch: losses(model, batch) * (1 + (len(batch["labels"]) > 10)), NOTES, padded("right"),
        "beside twenty others",
    ),
}


@pytest.mark.parametrize("case", COUPLED)
def test_what_ties_examples_together_is_refused(case):
    make, loss, batched, data, collate, where = COUPLED[case]
    with pytest.raises(ValueError, match=DEPENDS + where + ": padding to the longest"):
        require_independent_examples(make(), loss, loader_of(data, collate), losses=batched)


def as_words(examples):
    return padded("left")([text(len(one[0].split()), one[1]) for one in examples])


@pytest.mark.parametrize("data, collate", [
    ([("three words here", 0), ("one", 1)], as_words),
    ([(torch.tensor([3, 4, 5, 6]), 0)] * 3, lambda rows: padded("left")([text(len(row), label) for row, label in rows])),
    ([{"ids": np.array([3, 4, 5]), "label": 1}] * 3, lambda rows: padded("left")([text(len(row["ids"]), 1) for row in rows])),
])
def test_examples_of_any_form_are_made_longer_and_shorter(data, collate):
    with pytest.raises(ValueError, match=DEPENDS):
        require_independent_examples(Classifier(), None, loader_of(data, collate), losses=losses)
    require_independent_examples(Classifier(), loss_of_one, loader_of(data, collate, separate=True))


@pytest.mark.parametrize("data, collate", [
    (NOTES, padded("right")), (NOTES, padded("left", 30)),
    ([padded("left", 9)([one]) for one in NOTES], lambda rows: {name: torch.cat([one[name] for one in rows]) for name in rows[0]}),
], ids=["right", "fixed length", "padded before"])
def test_independent_examples_are_accepted_with_dropout(data, collate):
    model = Classifier()
    state, before = torch.get_rng_state(), {name: one.clone() for name, one in model.state_dict().items()}
    others = random.getstate(), np.random.get_state()[1].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_independent_examples(model, None, loader_of(data, collate), losses=losses)
        require_independent_examples(model, loss_of_one, loader_of(data, collate))
    assert torch.equal(torch.get_rng_state(), state) and random.getstate() == others[0]
    assert (np.random.get_state()[1] == others[1]).all(), "random states stay"
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert model.training and model.dropout.p == 0.5 and all(one.grad is None for one in model.parameters())


def test_random_gradients_cannot_be_compared_unless_examples_are_separate():
    def masked(examples):
        batch = padded("right")(examples)
        return {**batch, "input_ids": torch.where(torch.rand(batch["input_ids"].shape) < 0.5, 0, batch["input_ids"])}

    with pytest.warns(UserWarning, match="independence of examples was not checked: gradients are random beyond dropout"):
        require_independent_examples(Classifier(), loss_of_one, loader_of(NOTES, masked))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_independent_examples(Classifier(), loss_of_one, loader_of(NOTES, masked, separate=True))


def test_what_cannot_be_compared_is_said():
    def without_loss(model, batch):
        return losses(model, batch) * float("nan")

    def out_of_memory(model, batch):
        if len(batch["labels"]) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return losses(model, batch)

    for batched, said in (
        (without_loss, "gradients of the first examples are not finite"),
        (out_of_memory, "memory does not suffice beside twenty others"),
    ):
        with pytest.warns(UserWarning, match="independence of examples was not checked: " + said):
            require_independent_examples(Classifier(), None, loader_of(NOTES, padded("right")), losses=batched)

    def of_two_tokens(predict, one):
        return losses(predict, one)[0] / (one["input_ids"].shape[1] > 1)

    with pytest.raises(ValueError, match=DEPENDS + "beside a longer example"):   # than the second, which has a loss
        require_independent_examples(Classifier(), of_two_tokens, loader_of([text(1), text(6), text(3)], padded("left")))


def test_a_model_that_is_not_copied_is_tried_in_its_own_dtype(monkeypatch):
    monkeypatch.setattr("hushvec.training.independence._COPIED", 10)
    model = Classifier()
    require_independent_examples(model, None, loader_of(NOTES, padded("right")), losses=losses)
    with pytest.raises(ValueError, match=DEPENDS):
        require_independent_examples(model, None, loader_of(NOTES, padded("left")), losses=losses)
    assert model.dropout.p == 0.5 and all(one.grad is None and one.dtype == torch.float32 for one in model.parameters())


def test_losses_that_know_their_model():
    model = Classifier()
    require_independent_examples(model, None, loader_of(NOTES, padded("right")), losses=lambda _, batch: losses(model, batch))
    with pytest.raises(ValueError, match=DEPENDS):
        require_independent_examples(model, None, loader_of(NOTES, padded("left")), losses=lambda _, batch: losses(model, batch))


def test_bad_arguments_of_the_check():
    model, loader = Classifier(), loader_of(NOTES, padded("right"))
    for given, said in (
        ((model, loss_of_one), "loader must be given with loss or losses, got None"),
        ((model, None, loader), "exactly one of loss and losses must be given"),
        ((model.requires_grad_(False), loss_of_one, loader), "model must have a parameter that requires a gradient, got none"),
    ):
        with pytest.raises(ValueError, match=said):
            require_independent_examples(*given)
    model.requires_grad_(True)
    with pytest.raises(ValueError, match=r"losses must return a tensor \[1\], one loss for each example, got \[1, 3\]"):
        require_independent_examples(model, None, loader, losses=lambda model, batch: model(**batch))
    with pytest.raises(ValueError, match="loader must collate examples together with losses=, got one with separate=True"):
        require_independent_examples(model, None, loader_of(NOTES, padded("right"), separate=True), losses=losses)
    with pytest.raises(ValueError, match="the loss must use the model that it is given, got one that uses none of its parameters"):
        require_independent_examples(model, None, loader, losses=lambda _, batch: losses(Classifier(), batch))
    with pytest.raises(TypeError, match="separate must be True or False, got int"):
        poisson_loader(NOTES, 0.5, collate_fn=padded("right"), separate=1)
