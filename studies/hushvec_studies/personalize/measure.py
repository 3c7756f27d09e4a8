"""The study of personalisation as docs/lora.md prints it, and audits: of its runs, and of one that clips batches and says examples.

    python -m hushvec_studies.personalize.measure -o DIR [--seeds 1 ...] [--parts audits study]

Writes audits.csv, and copies of personalize.csv and the figures, into results/ beside this file. Runs that DIR has are not done
again.
"""

import argparse
import json
import math
import shutil
from pathlib import Path

import torch

from hushvec.cli import main as hushvec
from hushvec.training import StepSchedule
from hushvec_studies.harness.measurements import write_csv
from hushvec_studies.personalize import adapter
from hushvec_studies.personalize.cell import audited
from hushvec_studies.personalize.command import SHIPPED_SEED
from hushvec_studies.personalize.plan import Settings, planned, shipped_base
from hushvec_studies.personalize.texts import shipped_texts

RESULTS = Path(__file__).parent / "results"
# Fewer notes and larger shares of them than in the study, so that every canary is seen often.
AUDIT = dict(canaries=500, audit_notes=200, batch=100, steps=60)
EPSILONS = (math.inf, 2.0, 1.0, 0.5)
POSING = 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", nargs="+", default=["1"])
    parser.add_argument("--parts", nargs="+", default=["audits", "study"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.output.mkdir(parents=True, exist_ok=True)
    if "audits" in options.parts:
        audits(options.output)
    if "study" in options.parts:
        hushvec(["study", "personalize", "-o", str(options.output), "--seeds", *options.seeds])
        for path in options.output.glob("personalize*.*"):
            if path.suffix != ".json":
                shutil.copyfile(path, RESULTS / path.name)


def audits(folder):
    cells = audit_cells(folder, EPSILONS)
    rows = [line("DP-SGD" if cell.schedule.private else "no DP", cell, outcome(folder, cell, "right")) for cell in cells]
    posing = audit_cells(folder, [POSING])[0]
    rows.append(line("batches clipped, posing as examples", posing, outcome(folder, posing, "posing", noise=batch_level)))
    write_csv(RESULTS / "audits.csv", rows)


def audit_cells(folder, epsilons):
    texts = shipped_texts(4000, 500, SHIPPED_SEED)
    base = shipped_base("small", texts.entities, 4000, SHIPPED_SEED)
    return planned(Settings(texts=texts, base=base, epsilons=tuple(epsilons), **AUDIT), folder)[1]


def outcome(folder, cell, how, noise=None):
    """The result of an audit as a mapping, made once."""
    path = folder / f"audit-{how}-{cell.digest[:16]}.json"
    if not path.is_file():
        right = adapter._with_noise
        adapter._with_noise = noise or right
        try:
            result, _ = audited(cell)
        finally:
            adapter._with_noise = right
        said = result.to_dict()
        said["epsilon_claimed"] = said["epsilon_claimed"] if math.isfinite(said["epsilon_claimed"]) else None
        path.with_suffix(".partial").write_text(json.dumps(said))
        path.with_suffix(".partial").rename(path)
    return json.loads(path.read_text())


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
    accounting = adapter.Accounting(
        epsilon=claim.epsilon(schedule.steps, schedule.delta),
        delta=schedule.delta,
        adjacency="add-remove",
        noise_multiplier=multiplier,
        sampling_probability=probability,
        steps=schedule.steps,
        grade="float",
    )
    return accounting, lambda delta: claim.epsilon(schedule.steps, delta)


def line(how, cell, result):
    claimed = result["epsilon_claimed"]
    return {
        "training": how,
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
