"""Training on Banking77 with independent noise on Poisson samples, and with correlated noise on parts that take turns.

    python -m hushvec_studies.correlated.measure -o folder --data DATA

A model learns 77 classes of questions from their embeddings, at equal epsilon and delta and with as many steps each way: a linear
head, or a head behind a low-rank adapter of the embedding. Every learning rate of the grid is tried with the first seed, for each way,
model and epsilon; the best one, by accuracy on the test questions, is run with all seeds. Writes correlated.json into the folder and
prints its table; a run that is stopped goes on where it was. The noise has a key of the operating system; seeds are those of weights
and parts.

poisson       independent noise, every question in each batch with probability 1 / batches
cyclic        independent noise, batches that take turns: what a fixed order costs without amplification
correlated    the same batches, `CorrelatedNoise.optimized` with four bands
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

import hushvec
from hushvec.training import (
    CorrelatedNoise,
    CyclicSampler,
    DPOptimizer,
    PoissonSampler,
    noise_multiplier_for,
    per_example_gradients,
)
from hushvec_studies.aggregates.measure import Labelled, banking
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.embeddings import EmbeddingCache, embedder
from hushvec_studies.harness.measurements import Measurement, grid, measured
from hushvec_studies.harness.outputs import processor, surroundings, write_study
from hushvec_studies.harness.settings import Distinct, Positive, Share, Text, as_json, one_of, parsed
from hushvec_studies.harness.tables import markdown_table

VERSION = 1
RANK, TEMPERATURE = 16, 20.0


class Settings(harness.Settings):
    """The study's arguments."""

    models: Distinct[Annotated[str, one_of(("head", "adapter"))]] = Field(default=("head", "adapter"), description="head, adapter")
    epsilons: Distinct[Positive] = Field(default=(1.0, 4.0, 8.0), description="of one question, for the whole run")
    delta: Share = Field(default=1e-5, description="the same")
    batches: Annotated[int, Field(ge=2)] = Field(default=10, description="of an epoch")
    epochs: Annotated[int, Field(ge=1)] = Field(default=10, description="of a run")
    rates: Distinct[Positive] = Field(default=(0.5, 2.0, 8.0), description="learning rates that are tried")
    seeds: Annotated[int, Field(ge=2)] = Field(default=10, description="runs with the best learning rate")
    embeddings: Text = Field(default="all-MiniLM-L6-v2", description="embedding model")


class Head(torch.nn.Module):
    """Logits of the classes, from embeddings of length 1."""

    def __init__(self, columns: int, classes: int, *, adapter: bool) -> None:
        super().__init__()
        self.head = torch.nn.Linear(columns, classes, bias=False)
        torch.nn.init.zeros_(self.head.weight)
        self.down = torch.nn.Linear(columns, RANK, bias=False) if adapter else None
        self.up = torch.nn.Linear(RANK, columns, bias=False) if adapter else None
        if self.up is not None:
            torch.nn.init.zeros_(self.up.weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.down is not None and self.up is not None:
            rows = rows + self.up(self.down(rows))
        found: torch.Tensor = TEMPERATURE * self.head(rows)
        return found


@dataclass(frozen=True)
class Run(Measurement):
    """One training: how, of what, and what its figures depend on."""

    data: Labelled
    model: str
    way: str
    epsilon: float
    delta: float
    batches: int
    epochs: int
    rate: float
    seed: int

    @property
    def key(self) -> Mapping[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "data"}
        return {"version": VERSION, "hushvec": hushvec.__version__, "data": self.data.digest, **own}

    @property
    def label(self) -> str:
        return f"{self.model}, {self.way}, epsilon {self.epsilon:g}, rate {self.rate:g}, seed {self.seed}"


def measure(run: Run) -> dict[str, Any]:
    data, steps, people = run.data, run.batches * run.epochs, len(run.data.rows)
    torch.manual_seed(run.seed)
    model = Head(data.rows.shape[1], int(data.classes.max()) + 1, adapter=run.model == "adapter")
    given: dict[str, Any] = {"clip_norm": 1.0, "delta": run.delta, "model": model}
    given["expected_batch_size"] = float(f"{people:.1e}") / run.batches  # of a rounded number, which is public
    sampler: Any
    if run.way == "poisson":
        share = 1 / run.batches
        sampler = PoissonSampler(people, share, steps=steps)
        multiplier = noise_multiplier_for(run.epsilon, run.delta, share, steps)
        given |= {"sampling_probability": share, "noise_multiplier": multiplier, "steps": steps}
    else:
        schedule = {"steps": steps, "min_separation": run.batches}
        independent = CorrelatedNoise(coefficients=(1.0,), **schedule)
        noise = CorrelatedNoise.optimized(bands=4, **schedule) if run.way == "correlated" else independent
        sampler = CyclicSampler(people, run.batches, steps=steps, seed=run.seed)
        given |= {"noise": noise, "noise_multiplier": noise_multiplier_for(run.epsilon, run.delta, 1.0, 1)}
    optimizer = DPOptimizer(torch.optim.SGD(model.parameters(), lr=run.rate), **given)
    rows, classes = torch.tensor(data.rows), torch.tensor(data.classes)

    def loss(predict: Any, batch: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(predict(batch), labels)

    for batch in sampler:
        per_example_gradients(model, loss, rows[batch], classes[batch]) if batch else optimizer.empty_batch()
        optimizer.step()
    with torch.no_grad():
        hits = model(torch.tensor(data.test)).argmax(1).numpy() == data.test_classes
    return {
        **run.fields("model", "way", "epsilon", "rate", "seed"),
        "accuracy": float(hits.mean()),
        "spent": optimizer.epsilon(),
        "sigma": optimizer.sigma,
    }


WAYS = ("poisson", "cyclic", "correlated")


def study(settings: Settings, data: Labelled, folder: Path) -> dict[str, Any]:
    """What correlated.json holds, after everything that is missing was measured."""
    shared = {name: getattr(settings, name) for name in ("delta", "batches", "epochs")}
    axes = {"model": settings.models, "way": WAYS, "epsilon": settings.epsilons, "rate": settings.rates}
    tried = grid(partial(Run, data=data, seed=0, **shared), **axes)
    found = measured([(one, measure) for one in tried], folder, "learning rates").rows
    best: dict[tuple[str, str, float], Run] = {}
    for one in tried:
        place = one.model, one.way, one.epsilon
        if place not in best or found[one.digest]["accuracy"] > found[best[place].digest]["accuracy"]:
            best[place] = one
    runs = [Run(**{**vars(one), "seed": seed}) for one in best.values() for seed in range(settings.seeds)]
    made = measured([(one, measure) for one in runs], folder, "seeds").rows
    return {
        "settings": as_json(settings),
        "surroundings": {**surroundings(), "processor": processor()},
        "people": len(data.rows),
        "rates": list(found.values()),
        "rows": [made[one.digest] for one in runs],
    }


def interval(study: Mapping[str, Any], model: str, way: str, epsilon: float) -> tuple[float, float]:
    """Mean accuracy over seeds, and half of its 95 % interval (Student's t)."""
    from scipy import stats

    rows = [row for row in study["rows"] if (row["model"], row["way"], row["epsilon"]) == (model, way, epsilon)]
    values = np.array([row["accuracy"] for row in rows])
    return float(values.mean()), float(stats.t.isf(0.025, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def table(study: Mapping[str, Any]) -> str:
    titles = ["model", "noise and batches", *(f"epsilon {epsilon:g}" for epsilon in study["settings"]["epsilons"])]
    lines = []
    for model in study["settings"]["models"]:
        for way in WAYS:
            found = [interval(study, model, way, epsilon) for epsilon in study["settings"]["epsilons"]]
            lines.append([model, way, *(f"{mean:.3f} ± {half:.3f}" for mean, half in found)])
    return markdown_table(titles, lines)


class Arguments(Settings):
    """Of the command line."""

    output: Path = Field(description="folder of the study")
    data: Path = Field(description="folder with the file of Banking77")


def main() -> None:
    settings = parsed(__doc__ or "", Arguments)
    cache = EmbeddingCache(settings.output / "embeddings", embedder(settings.embeddings))
    found = study(settings, banking(settings.data, cache.embed), settings.output)
    write_study(settings.output / "correlated.json", found)
    print(table(found))


if __name__ == "__main__":
    main()
