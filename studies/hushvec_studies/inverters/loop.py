"""The steps of a run: loss, gradient, validation, checkpoint. A resumed run computes the same as an uninterrupted one.

Ctrl-C and SIGTERM end a run between two steps, with a checkpoint. The losses are kept as CSV.
"""

from __future__ import annotations

import io
import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushvec.extend.helpers import PRIVATE, Progress
from hushvec_studies.harness.outputs import write_bytes, write_csv
from hushvec_studies.inverters.corpus import Batches, labels_of
from hushvec_studies.inverters.network import ReleaseLaw, public_generator
from hushvec_studies.inverters.settings import CHECKPOINT_FILE, Settings

if TYPE_CHECKING:
    from hushvec.text.inverters.vec2text.model import InversionModel

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """`with StopRequest() as stop: ... if stop.signal is not None: ...`.

    The first signal is noted, and the previous handlers are restored: a second signal has its usual effect. Outside the main
    thread, where Python allows no handlers, nothing changes.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self._put_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._put_back()

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


CURVE_FILE = "curve.csv"
COLUMNS = ("step", "epoch", "training_loss", "validation_loss", "learning_rate", "seconds")


WARM_UP_SHARE, LONGEST_WARM_UP = 0.05, 1000
LARGEST_GRADIENT = 1.0
WEIGHT_DECAY = 0.01
ROWS_FOR_SCALE = 4096


def rate_at(step: int, steps: int) -> float:
    """Linear warm-up, then cosine decay to 0, as a share of the highest rate."""
    warm_up = max(1, min(LONGEST_WARM_UP, round(WARM_UP_SHARE * steps)))
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


@dataclass(frozen=True)
class Examples:
    """Texts as token ids, with their embeddings in the same order."""

    ids: Sequence[Sequence[int]]
    rows: NDArray[np.float32]


@dataclass
class State:
    """The progress of a run, besides weights, optimizer and random numbers."""

    step: int = 0
    best_step: int = 0
    best_loss: float = math.inf
    loss_sum: float = 0.0  # of the training loss since the last validation, over `loss_steps` steps
    loss_steps: int = 0
    seconds: float = 0.0
    curve: list[dict[str, Any]] = field(default_factory=list)


class TrainingLoop:
    """The run in a folder.

    `law` is the noise on the embeddings, None for none. `publish` is called with the scale of the embeddings when the weights are the
    best so far.
    """

    def __init__(
        self,
        network: InversionModel,
        settings: Settings,
        training: Examples,
        held_out: Examples,
        law: ReleaseLaw | None,
        folder: Path,
        publish: Callable[[float], None],
    ) -> None:
        import torch

        self.state = State()
        self._network, self._settings = network, settings
        self._training, self._held_out, self._law = training, held_out, law
        self._folder, self._publish = folder, publish
        self._device = next(network.parameters()).device
        self._batches = Batches([len(ids) for ids in training.ids], settings.batch_size, settings.seed)
        # Matrices decay towards 0, biases and norms do not.
        matrices = [parameter for parameter in network.parameters() if parameter.ndim >= 2]
        others = [parameter for parameter in network.parameters() if parameter.ndim < 2]
        groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
        self._optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate)
        # Root mean square; 1 for rows of zeros, which no division makes larger.
        rows = self._seen(training, slice(0, ROWS_FOR_SCALE), "scale", 0).astype(np.float64)
        self._scale = math.sqrt(float(np.square(rows).mean())) or 1.0

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self._settings.epochs * self._batches.in_epoch

    def run(self, stop: StopRequest) -> None:
        """Run to the last step, or to the step in which a stop is requested; the checkpoint is then of that step."""
        with Progress("training", self.steps) as progress:
            progress.advance(self.state.step)
            started = time.perf_counter() - self.state.seconds
            while self.state.step < self.steps:
                loss = self._learn()
                self.state.seconds = time.perf_counter() - started
                last = self.state.step == self.steps
                validated = last or self.state.step % self._settings.checkpoint_every == 0
                if validated:
                    self._validate()
                if validated or stop.signal is not None:
                    self.write_checkpoint()
                if stop.signal is not None:
                    return
                best = f", held-out {self.state.best_loss:.3f}" if self.state.curve else ""
                progress.advance(1, f"loss {loss:.3f}{best}")

    def learning_rate(self, step: int) -> float:
        return self._settings.learning_rate * rate_at(step, self.steps)

    def _learn(self) -> float:
        import torch

        state = self.state
        self._network.train()
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate(state.step)
        loss = self._loss(self._training, self._batches.at(state.step), "step", state.step)
        value = float(loss.detach())
        if not math.isfinite(value):
            rate = self._settings.learning_rate
            raise ValueError(f"learning_rate must be lower: the loss of step {state.step} is {value}, got {rate!r}")
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._network.parameters(), LARGEST_GRADIENT)
        self._optimizer.step()
        state.step += 1
        state.loss_sum += value
        state.loss_steps += 1
        return value

    def _validate(self) -> None:
        import torch

        state = self.state
        self._network.eval()
        total, tokens = 0.0, 0
        with torch.no_grad():
            size, held_out = self._settings.batch_size, len(self._held_out.ids)
            for number, part in enumerate(slice(first, min(first + size, held_out)) for first in range(0, held_out, size)):
                count = sum(map(len, self._held_out.ids[part]))
                total += count * float(self._loss(self._held_out, part, "held-out", number))
                tokens += count
        loss = total / tokens
        state.curve.append(
            {
                "step": state.step,
                "epoch": state.step / self._batches.in_epoch,
                "training_loss": state.loss_sum / state.loss_steps,
                "validation_loss": loss,
                "learning_rate": self.learning_rate(state.step - 1),
                "seconds": round(state.seconds, 3),
            }
        )
        state.loss_sum, state.loss_steps = 0.0, 0
        if loss < state.best_loss:
            state.best_loss, state.best_step = loss, state.step
            self._publish(self._scale)
        # One line for every validation; losses are mean cross-entropies of a token, in nats.
        write_csv(self._folder / CURVE_FILE, state.curve, COLUMNS)

    def _loss(self, examples: Examples, part: NDArray[np.intp] | slice, purpose: str, number: int) -> Any:
        import torch

        numbers = range(len(examples.ids))[part] if isinstance(part, slice) else part
        rows = torch.from_numpy(self._seen(examples, part, purpose, number) / np.float32(self._scale)).to(self._device)
        labels = torch.from_numpy(labels_of([examples.ids[each] for each in numbers])).to(self._device)
        return self._network(rows, labels)

    def _seen(self, examples: Examples, part: NDArray[np.intp] | slice, purpose: str, number: int) -> NDArray[np.float32]:
        """Embeddings as the decoder reads them: clean, or with fresh noise in every step."""
        rows = np.ascontiguousarray(examples.rows[part])
        if self._law is None:
            return rows
        return self._law.released(rows, public_generator(self._settings.seed, purpose, number))

    def write_checkpoint(self) -> None:
        """Write the whole state atomically."""
        import torch

        content = io.BytesIO()
        torch.save(
            {
                "state": dict(vars(self.state)),
                "scale": self._scale,
                "network": self._network.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "random": torch.get_rng_state(),
                "random_cuda": torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None,
            },
            content,
        )
        write_bytes(self._folder / CHECKPOINT_FILE, content.getvalue(), mode=PRIVATE)

    def read_checkpoint(self) -> bool:
        """Load the last checkpoint; False if there is none."""
        import torch

        path = self._folder / CHECKPOINT_FILE
        if not path.exists():
            return False
        try:
            saved = torch.load(io.BytesIO(path.read_bytes()), map_location="cpu", weights_only=True)
            self._network.load_state_dict(saved["network"])
            self._optimizer.load_state_dict(saved["optimizer"])
            self.state, self._scale = State(**saved["state"]), saved["scale"]
        # a damaged archive: zip, pickle and torch each raise different errors
        except Exception as error:
            raise ValueError(f"{path} cannot be read as a checkpoint of this run: {error}") from None
        torch.set_rng_state(saved["random"])
        if saved["random_cuda"] is not None and self._device.type == "cuda":
            torch.cuda.set_rng_state(saved["random_cuda"], self._device)
        return True
