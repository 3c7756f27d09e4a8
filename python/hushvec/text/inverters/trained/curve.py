"""The losses of a run by step: as CSV, and as a figure if matplotlib is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec.text.inverters.trained.folder import write_file

CURVE_FILE = "curve.csv"
FIGURE_FILE = "curve.png"
COLUMNS = ("step", "epoch", "training_loss", "validation_loss", "learning_rate", "seconds")


def write_curve(folder: Path, points: Sequence[Mapping[str, Any]]) -> None:
    """curve.csv: one line for every validation. Losses are mean cross-entropies of a token, in nats."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: point[name] for name in COLUMNS} for point in points)
    write_file(folder / CURVE_FILE, text.getvalue().encode())


def draw_curve(folder: Path, points: Sequence[Mapping[str, Any]]) -> bool:
    """Draw curve.png if matplotlib is installed and there is something to draw; returns whether it was drawn."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    if not points:
        return False
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    steps = [point["step"] for point in points]
    axes.plot(steps, [point["training_loss"] for point in points], label="training", color="#7a7a7a")
    axes.plot(steps, [point["validation_loss"] for point in points], label="held-out texts", color="#0b5fa5")
    best = min(points, key=lambda point: point["validation_loss"])
    axes.plot(best["step"], best["validation_loss"], "o", color="#0b5fa5")
    axes.annotate(f"{best['validation_loss']:.3f}", (best["step"], best["validation_loss"]), (0, 8), textcoords="offset points")
    axes.set_xlabel("step")
    axes.set_ylabel("cross-entropy of a token, nats")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    write_file(folder / FIGURE_FILE, image.getvalue())
    return True
