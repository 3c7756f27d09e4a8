"""Audits as docs/lora.md prints them: of the study's runs, and of one that clips batches and says examples.

    python -m hushvec_studies.personalize.measure -o DIR

Writes audits.csv into results/ beside this file. Runs that DIR has are not done again.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hushvec.training import StepSchedule
from hushvec_studies.harness.measurements import Measurement, measured
from hushvec_studies.harness.outputs import write_csv
from hushvec_studies.personalize import adapter
from hushvec_studies.personalize.command import SHIPPED_SEED
from hushvec_studies.personalize.plan import AuditCell, Settings, audited, planned, shipped_base
from hushvec_studies.personalize.texts import shipped_texts

RESULTS = Path(__file__).parent / "results"
# Fewer notes and larger shares of them than in the study, so that every canary is seen often.
AUDIT = dict(canaries=500, audit_notes=200, batch=100, steps=60)
EPSILONS = (math.inf, 2.0, 1.0, 0.5)
POSING = 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    folder = parser.parse_args().output
    torch.set_num_threads(1)
    wanted = [Audit("DP-SGD" if cell.schedule.private else "no DP", cell) for cell in audit_cells(folder, EPSILONS)]
    wanted.append(Audit("batches clipped, posing as examples", audit_cells(folder, [POSING])[0], batch_level))
    made = measured([(audit, outcome) for audit in wanted], folder, "audits").rows
    write_csv(RESULTS / "audits.csv", [line(audit, made[audit.digest]) for audit in wanted])


def audit_cells(folder, epsilons):
    texts = shipped_texts(4000, 500, SHIPPED_SEED)
    base = shipped_base("small", texts.entities, 4000, SHIPPED_SEED)
    return planned(Settings(texts=texts, base=base, epsilons=tuple(epsilons), **AUDIT), folder)[1]


@dataclass(frozen=True)
class Audit(Measurement):
    """The audit of a cell; its training adds `noise` instead of that of DP-SGD, where it is given."""

    training: str
    cell: AuditCell
    noise: Any = None

    @property
    def key(self):
        return {**self.cell.key, "training": self.training}

    @property
    def label(self):
        return f"{self.cell.label}, {self.training}"


def outcome(audit):
    """The result of an audit as a mapping."""
    right = adapter._with_noise
    adapter._with_noise = audit.noise or right
    try:
        said = audited(audit.cell).to_dict()
    finally:
        adapter._with_noise = right
    return {**said, "epsilon_claimed": said["epsilon_claimed"] if math.isfinite(said["epsilon_claimed"]) else None}


def batch_level(model, inner, sampler, losses_of, schedule, seed):
    """In place of DP-SGD: clips the mean gradient of a batch to C, adds noise of sigma C / batch, and claims what DP-SGD would."""
    probability = sampler.sampling_probability
    multiplier = adapter.noise_multiplier(schedule.epsilon, schedule.delta, probability, schedule.steps)
    parameters = [one for one in model.parameters() if one.requires_grad]
    noise = torch.Generator().manual_seed(seed)
    for places in sampler:
        inner.zero_grad()
        torch.cat(list(losses_of(places))).mean().backward()
        torch.nn.utils.clip_grad_norm_(parameters, schedule.clip_norm, error_if_nonfinite=True)
        for one in parameters:
            one.grad += multiplier * schedule.clip_norm / schedule.batch * torch.randn(one.shape, generator=noise)
        inner.step()
    claim = StepSchedule(noise_multiplier=multiplier, sampling_probability=probability)
    epsilon = claim.epsilon(schedule.steps, schedule.delta)
    return adapter.accounted(schedule, probability, epsilon, multiplier, "float"), lambda delta: claim.epsilon(schedule.steps, delta)


def line(audit, result):
    claimed, cell = result["epsilon_claimed"], audit.cell
    return {
        "training": audit.training,
        "epsilon_asked": cell.schedule.epsilon if cell.schedule.private else "",
        "delta": cell.schedule.delta,
        "audit_delta": result["delta"],
        "claimed_at_audit_delta": "" if claimed is None else f"{claimed:.4f}",
        "canaries": result["samples"],
        "guesses": result["details"]["guesses"],
        "right": result["details"]["right"],
        "epsilon_lower": f"{result['epsilon_lower']:.4f}",
        "epsilon_ceiling": f"{result['epsilon_ceiling']:.4f}",
        "confidence": result["confidence"],
        "refuted": "" if claimed is None else result["flagged"],
    }


if __name__ == "__main__":
    main()
