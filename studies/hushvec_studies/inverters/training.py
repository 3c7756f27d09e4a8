"""`train_inverter`: train a decoder on public texts, in a folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.embedders.checkpoints import CONFIG_FILE, TOKENIZER_FILE, WEIGHT_FILES, Tokens, chosen_device
from hushvec.embedders.protocol import embedded_rows
from hushvec.embedders.sources import SourceModel, as_embedding_model, default_clip_norm
from hushvec.extend.helpers import Progress
from hushvec.mechanisms import Mechanism, PublicProjection
from hushvec.text.inverters.trained import PROJECTION_FILE, RUN_FILE, RUN_FORMAT, read_run
from hushvec.text.inverters.vec2text.config import INVERSION
from hushvec_studies.harness.checkpoints import config_json, tokenizer_files, weight_bytes
from hushvec_studies.harness.embeddings import EmbeddingCache
from hushvec_studies.harness.outputs import write_bytes
from hushvec_studies.harness.settings import checked
from hushvec_studies.inverters.corpus import Corpus, learned_tokens, portable, read_corpus, split_corpus
from hushvec_studies.inverters.loop import Examples, StopRequest, TrainingLoop
from hushvec_studies.inverters.network import (
    ReleaseLaw,
    mechanism_as_json,
    mechanism_of,
    network_config,
    new_network,
)
from hushvec_studies.inverters.settings import (
    EMBEDDINGS,
    RATE_TIMES_WIDTH,
    SIZES,
    DecoderSize,
    Settings,
    require_new,
    require_same_run,
)

if TYPE_CHECKING:
    from hushvec.text.inverters.vec2text.model import InversionModel


@dataclass(frozen=True, kw_only=True)
class TrainingSummary:
    """The result of `train_inverter`.

    Args:
        finished: False if the run was stopped, by the signal `stopped_by`; `resume=True` continues it.
        best_step: after which the published weights were taken; 0: none yet.
        validation_loss: of the published weights, mean cross-entropy of a held-out token in nats; None: not measured yet.
        seconds: of training, all parts of the run together, without embedding.
    """

    folder: str
    finished: bool
    stopped_by: int | None
    step: int
    steps: int
    best_step: int
    validation_loss: float | None
    training_texts: int
    held_out_texts: int
    parameters: int
    vocabulary: int
    device: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def train_inverter(
    corpus: str | os.PathLike[str] | Sequence[str],
    folder: str | os.PathLike[str],
    *,
    text_key: str | None = None,
    embedder: Any = None,
    mechanism: str | None = None,
    epsilon: float | None = None,
    delta: float = 1e-3,
    clip_norm: float | None = None,
    projection: PublicProjection | int | None = None,
    size: str | DecoderSize = "small",
    vocabulary: int = 4096,
    max_tokens: int = 48,
    epochs: int = 20,
    batch_size: int = 64,
    learning_rate: float | None = None,
    dropout: float = 0.1,
    validation: float = 0.05,
    checkpoint_every: int = 500,
    seed: int = 0,
    device: str | None = None,
    resume: bool = False,
) -> TrainingSummary:
    """Train a decoder from embeddings to text on public texts, and save it in a folder.

    The model is a small T5 that reads an embedding as a few encoder positions, trained from nothing. With a mechanism it learns from
    embeddings as that mechanism releases them, with noise that is fresh in every step: such a decoder reads released rows best, as a
    rewriter of texts or as the adversary who attacks them.

    Args:
        corpus: a UTF-8 file, one text per line (JSON lines with text_key), or a sequence of texts. **Public texts only**: a decoder
            says again what it was trained on. Blank texts and repeats are left out.
        folder: new or empty; afterwards it holds the decoder, and everything that resuming needs.
        text_key: the key of the text where corpus is a file of JSON lines.
        embedder: anything that embeds texts; MiniLM if None.
        mechanism: None: embeddings as they are. Or a name as for `hushvec.privatize`, with epsilon, delta and clip_norm.
        epsilon: of one row; needed with a mechanism.
        delta: for the Gaussian kinds; as in `rewrite`.
        clip_norm: L2 norm that rows are clipped to. None: the bound on the norms of the embedder's rows if one is known, else 1.5, as
            in `rewrite`.
        projection: a public map before the mechanism, or how many principal components of the training embeddings to take for one.
        size: a name of `SIZES`, or a `DecoderSize`.
        vocabulary: tokens at most, learned from the corpus.
        max_tokens: of a text; a longer one is learned from its beginning.
        learning_rate: of AdamW at its highest; None: 1/2 over the width of `size`, 0.002 for "small".
        validation: share of the texts that are held out, chosen by their hash; at least one is.
        checkpoint_every: steps between validations, each with a checkpoint.
        seed: of weights, order, dropout and noise. The same seed gives the same decoder on the same machine.
        device: of torch; CUDA if there is one, else the CPU, if None.
        resume: continue the run in the folder, which must have exactly these settings.

    Ctrl-C and SIGTERM end a run after the step it is in, with a checkpoint: then `finished` is False.

    Raises:
        ValueError: a value out of its range; a corpus of fewer than two different texts or not UTF-8; a folder with something in it;
            on resume no run, or one of other settings (the message says which); an embedder that gives NaN or other shapes.

    Guarantees:
        None about privacy: the corpus is taken to be public, and everything here is computed from it. What the decoder makes of
        released rows is post-processing. Files appear whole or not at all; on the CPU a run that was resumed ends with the same bits
        as one that was not interrupted.

    Reference:
        Morris, Kuleshov, Shmatikov, Rush, "Text embeddings reveal (almost) as much as text" (2023), section 4, for the model without
        corrections.
    """
    given = locals()
    shape = size if isinstance(size, DecoderSize) else SIZES[validate.choice("size", size, SIZES)]
    rate = RATE_TIMES_WIDTH / shape.width if learning_rate is None else learning_rate
    settings = checked(Settings, {name: given[name] for name in Settings.model_fields} | {"size": shape, "learning_rate": rate})
    target = Path(folder)
    if validate.flag("resume", resume):
        read_run(target)
    else:
        require_new(target)
    corpus_split = split_corpus(read_corpus(corpus, text_key), settings.validation)
    place = str(chosen_device(device))
    if embedder is None:
        from hushvec.embedders.minilm import MiniLMEmbedder

        embedder = MiniLMEmbedder(batch_size=64)
    model = as_embedding_model(embedder)
    dimension = embedded_rows(model, corpus_split.texts[:1]).shape[1]
    norm = default_clip_norm(model.norm_bound) if clip_norm is None else clip_norm
    if projection is not None and mechanism is None:
        raise ValueError("projection must be left out without a mechanism, before which it would stand")
    inside = _inside(projection, dimension)
    noise = mechanism_of(mechanism, inside, epsilon=epsilon, delta=delta, clip_norm=norm)
    run = Run(target, corpus_split, model, dimension, settings, projection, noise, place)
    if resume:
        require_same_run(target, run.as_json())
    else:
        run.begin()
    return run.trained()


def _inside(projection: PublicProjection | int | None, dimension: int) -> int:
    """The dimension of the rows that the mechanism takes."""
    if projection is None:
        return dimension
    if isinstance(projection, PublicProjection):
        if projection.dimension != dimension:
            raise ValueError(f"projection must be for rows of {dimension} elements, the embedder's, got {projection.dimension}")
        return projection.output_dimension
    components = validate.whole_number("projection", projection, at_least=1)
    if components > dimension:
        raise ValueError(f"projection must have at most {dimension} components, the embedder's elements, got {components}")
    return components


@dataclass(frozen=True)
class Run:
    """A run with checked arguments."""

    folder: Path
    corpus: Corpus
    model: SourceModel
    dimension: int
    settings: Settings
    projection: PublicProjection | int | None
    mechanism: Mechanism | None
    device: str

    @property
    def embedder_name(self) -> str:
        return self.model.model_id or type(self.model.model).__name__

    def as_json(self) -> dict[str, Any]:
        """The identity of the run. The device is not part of it: a run may resume elsewhere, but not with the same bits."""
        given = self.projection
        return {
            "run_format": RUN_FORMAT,
            "corpus": {"digest": self.corpus.digest, "texts": len(self.corpus.texts), "held_out": self.corpus.held_out},
            "embedder": {"name": self.embedder_name, "dimension": self.dimension},
            "settings": self.settings.as_json(),
            "mechanism": None if self.mechanism is None else mechanism_as_json(self.mechanism),
            "projection": given.digest if isinstance(given, PublicProjection) else given,
        }

    def begin(self) -> None:
        """Write run.json and the embeddings to the folder; nothing if the embedder returns anything but embeddings."""
        if not self.folder.parent.is_dir():
            raise ValueError(f"{self.folder}: the folder {self.folder.parent} must exist")
        made = not self.folder.exists()
        self.folder.mkdir(exist_ok=True)
        try:
            content = json.dumps(self.as_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            write_bytes(self.folder / RUN_FILE, content.encode())
            self._rows()
        except (TypeError, ValueError, OSError) as error:
            # On a full disk the embeddings written so far stay, and a resumed run continues after them.
            if not isinstance(error, OSError) or not (self.folder / RUN_FILE).exists():
                (self.folder / RUN_FILE).unlink(missing_ok=True)
                shutil.rmtree(self.folder / EMBEDDINGS, ignore_errors=True)
                if made:
                    self.folder.rmdir()
            raise

    def trained(self) -> TrainingSummary:
        """Run all steps after the last checkpoint."""
        import torch

        rows, held_out = self._rows(), self.corpus.held_out
        law = None if self.mechanism is None else ReleaseLaw(self.mechanism, self._public_map(rows[held_out:]))
        tokens = self._tokens()
        ids = tokens.ids(self.corpus.texts, self.settings.max_tokens)
        training, validated = Examples(ids[held_out:], rows[held_out:]), Examples(ids[:held_out], rows[:held_out])
        config = network_config(self.settings, tokens.size, self.dimension, self.embedder_name)
        # The caller's random state is preserved.
        with torch.random.fork_rng(devices=[self.device] if self.device.startswith("cuda") else []):
            torch.manual_seed(self.settings.seed)
            model = new_network(config).to(self.device)
            publish = lambda scale: self._publish(model, scale)
            loop = TrainingLoop(model, self.settings, training, validated, law, self.folder, publish)
            loop.read_checkpoint()
            with StopRequest() as stop:
                loop.run(stop)
        state = loop.state
        return TrainingSummary(
            folder=str(self.folder),
            finished=state.step == loop.steps,
            stopped_by=stop.signal,
            step=state.step,
            steps=loop.steps,
            best_step=state.best_step,
            validation_loss=state.best_loss if state.curve else None,
            training_texts=len(self.corpus.texts) - held_out,
            held_out_texts=held_out,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            vocabulary=tokens.size,
            device=self.device,
            seconds=round(state.seconds, 3),
        )

    def _rows(self) -> NDArray[np.float32]:
        """The rows of all texts: those that the folder has, the others computed and kept."""
        embedder = SimpleNamespace(model_id=self.embedder_name, embed=self._embedded)
        with Progress("embedding", len(self.corpus.texts)) as progress:
            return EmbeddingCache(self.folder / EMBEDDINGS, embedder).embed(self.corpus.texts, progress.advance)

    def _embedded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = embedded_rows(self.model, texts)
        if rows.shape[1] != self.dimension:
            raise ValueError(f"model output must have {self.dimension} columns, as for the first text, got {rows.shape[1]}")
        return rows

    def _public_map(self, training_rows: NDArray[np.float32]) -> PublicProjection | None:
        """The map before the mechanism, from the folder if it is saved there."""
        if self.projection is None:
            return None
        path = self.folder / PROJECTION_FILE
        if not path.exists():
            projection = self.projection
            if not isinstance(projection, PublicProjection):
                projection = PublicProjection.fit(np.asarray(training_rows), components=projection)
            projection.save(path)
        return PublicProjection.load(path)

    def _tokens(self) -> Tokens:
        """The vocabulary, from the folder if it is saved there."""
        if not (self.folder / TOKENIZER_FILE).exists():
            learned = learned_tokens(self.corpus.texts[self.corpus.held_out :], self.settings.vocabulary)
            written = tokenizer_files(learned)
            vocabulary = portable(written.pop(TOKENIZER_FILE))
            # tokenizer.json last: its presence means that the others are complete
            for name, text in [*written.items(), (TOKENIZER_FILE, vocabulary)]:
                write_bytes(self.folder / name, text.encode())
        return Tokens.read(self.folder)

    def _publish(self, model: InversionModel, scale: float) -> None:
        """The best decoder so far as a checkpoint that `load_inversion` reads. A reader finds the old weights or the new ones."""
        write_bytes(self.folder / WEIGHT_FILES[0], weight_bytes(model, scale))
        if not (self.folder / CONFIG_FILE).exists():
            write_bytes(self.folder / CONFIG_FILE, config_json(model.config, INVERSION))
