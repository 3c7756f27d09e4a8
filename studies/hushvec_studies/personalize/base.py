"""The model beneath the adapter: a small GPT-2 that has read public text only."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hushvec.extend.helpers import published_folder
from hushvec.training.ghost import IGNORED, next_token_losses
from hushvec_studies.harness.measurements import digest_of
from hushvec_studies.personalize.coding import Coding, coding_of, fitted_tokenizer
from hushvec_studies.personalize.texts import Note

VERSION = 1
# Layers that an adapter goes to.
TARGETS = ("c_attn", "c_proj", "c_fc")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A base model that is made here (`context`: tokens of a note at most), and how it reads public text, with smoothed
    labels."""

    width: int
    layers: int
    heads: int
    vocabulary: int
    context: int
    steps: int
    batch: int = 64
    learning_rate: float = 3e-3
    smoothing: float = 0.1


SHAPES = {
    "tiny": Shape(width=32, layers=1, heads=2, vocabulary=500, context=36, steps=250),
    "small": Shape(width=64, layers=2, heads=4, vocabulary=800, context=36, steps=250),
}


@dataclass(frozen=True, kw_only=True)
class Base:
    """What an adapter is put on.

    Args:
        name: of the shape.
        public: notes that the model reads first; public ones.
        entities: kinds that it has tokens for.
        seed: of its first weights and batches.
    """

    name: str
    shape: Shape
    public: tuple[Note, ...]
    entities: tuple[str, ...]
    seed: int

    @property
    def key(self) -> dict[str, Any]:
        """Everything that the model depends on."""
        texts = digest_of({"texts": [[note.text, [list(span) for span in note.spans]] for note in self.public]})
        return {"version": VERSION, **asdict(self.shape), "public": texts, "entities": list(self.entities), "seed": self.seed}


def ready(base: Base, cache: Path) -> tuple[Any, Coding]:
    """The model, frozen and fresh, and its tokens: read from the cache where it is there, else trained on its public notes."""
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM

    folder = cache / digest_of(base.key)[:16]
    if not folder.is_dir():
        model, tokenizer = _trained(base)
        with published_folder(folder) as beside, _quiet():
            model.save_pretrained(beside)
            tokenizer.save(str(beside / "tokenizer.json"))
    with _quiet():
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model, coding_of(Tokenizer.from_file(str(folder / "tokenizer.json")), base.entities)


def _trained(base: Base) -> tuple[Any, Any]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = base.shape
    tokenizer = fitted_tokenizer((note.text for note in base.public), base.entities, shape.vocabulary)
    coding = coding_of(tokenizer, base.entities)
    notes = [coding.code(note, shape.context) for note in base.public]
    with torch.random.fork_rng():
        torch.manual_seed(base.seed)
        model = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=tokenizer.get_vocab_size(),
                n_positions=shape.context,
                n_embd=shape.width,
                n_layer=shape.layers,
                n_head=shape.heads,
                bos_token_id=coding.begin,
                eos_token_id=coding.end,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
            )
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=shape.learning_rate, weight_decay=0.01)
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, shape.steps)
        for _ in range(shape.steps):
            some = [notes[place] for place in torch.randint(len(notes), (shape.batch,)).tolist()]
            optimizer.zero_grad()
            _smoothed(model, coding, some, shape.smoothing).backward()
            optimizer.step()
            decay.step()
    return model, tokenizer


def _smoothed(model: Any, coding: Coding, notes: Sequence[Any], smoothing: float) -> Any:
    """Mean loss of a token with smoothed labels: without them a small model holds every word that it has not read for impossible."""
    import torch

    ids, labels, mask = map(torch.from_numpy, coding.batch(notes))
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), labels[:, 1:], ignore_index=IGNORED, label_smoothing=smoothing
    )


def note_losses(model: Any, coding: Coding, notes: Sequence[Any]) -> Any:
    """Mean loss of a token of each note, tensor [B]."""
    import torch

    ids, labels, mask = map(torch.from_numpy, coding.batch(notes))
    # Places by row, so that a table of places has an axis for the batch.
    places = torch.arange(ids.shape[1]).expand(len(ids), -1)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=places).logits
    return next_token_losses(logits.float(), labels)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the progress bars of transformers."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            yield
    finally:
        if shown:
            logging.enable_progress_bar()
