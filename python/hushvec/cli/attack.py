"""`hushvec attack`: what protected vectors give away, and what they are still good for, as a report."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.display import announced
from hushvec._util.publish import SHARED, published_text, receipt_path
from hushvec.cli._arguments import require_new_output
from hushvec.cli._attack_report import Measured, page
from hushvec.cli._output import answered, titled
from hushvec.cli._parser import argument, option
from hushvec.cli.vectors import FILES, VectorOptions
from hushvec.receipts import receipt_from_json
from hushvec.retrieval.attacks.protection import PAIRS, protection

WEAK = 1


class Attack(VectorOptions, name="attack", examples=(
    ("a report from two files", "hushvec attack clean.npy protected.npy -o report.html"),
    ("two protections of the same rows, with labels", "hushvec attack clean.npy rotated.npy noisy.npy --labels topics.txt"),
    ("a program that reads one .npy file and writes another", "hushvec attack clean.npy --command './protect {in} {out}'"),
)):
    """Attack protected vectors of public or invented texts in five ways: the nearest clean row, maps learned from known
    pairs, two distributions laid on each other without pairs, membership in a store, and labels read from rows. What
    rows are still good for stands beside it. Row i of PROTECTED is row i of CLEAN. A receipt PROTECTED.receipt.json
    is read: what it allows stands beside what was measured.

    Exit code 0: no attack did better than chance or than the receipt allows, which proves nothing; 1: one did."""

    clean: Path = argument(f"the rows as they were: {FILES}", "CLEAN")
    protected: list[Path] = argument("protected rows, in files of the same kinds", "PROTECTED", nargs="*", type=Path)
    command: str | None = option("protects rows: a program that reads {in} and writes {out}, .npy files", metavar="COMMAND")
    labels: Path | None = option("a label for each row, one per line", metavar="FILE")
    pairs: list[int] | None = option(
        f"a number of known pairs; may be repeated (default {', '.join(map(str, PAIRS))})", metavar="K", type=int
    )
    confidence: float = option("of each interval", 0.95)
    alpha: float = option("of the verdicts on a protection, all together", 1e-3)
    seed: int = option("of who is judged, and of resampling", 2025)
    output: Path | None = option("report, one HTML file; the figures go beside it, into a .json file", metavar="HTML")

    def run(self) -> int:
        if not self.protected and self.command is None:
            raise ValueError("one of PROTECTED and --command must be given")
        if self.output is not None:
            require_new_output(self)
            self._require_other_names(self.output)
        clean = np.asarray(self.rows(self.clean), np.float32)
        labels = None if self.labels is None else self.labels.read_text(encoding="utf-8").splitlines()
        given = [(str(path), self.rows(path), _receipt(receipt_path(path))) for path in self.protected]
        if self.command is not None:
            given.append((self.command, _by_command(self.command, clean), None))
        options = {**self.named("confidence", "alpha", "seed"), "pairs": self.pairs or PAIRS, "labels": labels}
        measured = []
        for name, rows, receipt in given:
            start = time.perf_counter()
            with announced(f"attacking {name}"):
                result = protection(clean, rows, receipt=receipt, **options)
            measured.append(Measured(name, result, time.perf_counter() - start))
        value = {"protections": [{"name": one.name, "seconds": one.seconds, **one.result.to_dict()} for one in measured]}
        if self.output is not None:
            figures = self.output.with_suffix(".json")
            with published_text(figures, mode=SHARED) as file:
                file.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
            with published_text(self.output, mode=SHARED) as file:
                file.write(page(measured, self._words(), figures.name))
        answered(self, value, *(titled(f"{one.name}: {one.result}") for one in measured))
        return WEAK if any(one.result.weak for one in measured) else 0

    def _require_other_names(self, output: Path) -> None:
        figures = output.with_suffix(".json")
        read = {path.resolve() for path in (self.clean, *self.protected)}
        if output == figures or read & {output.resolve(), figures.resolve()}:
            raise ValueError(f"{output}: must be another name than those of the inputs, and of the figures in {figures}")

    def _words(self) -> str:
        """The command that repeats it."""
        words = ["hushvec", "attack", str(self.clean), *map(str, self.protected)]
        for name in ("command", "labels", "confidence", "alpha", "seed", "output"):
            if (value := getattr(self, name)) is not None:
                words += [f"--{name}", str(value)]
        words += [word for count in self.pairs or () for word in ("--pairs", str(count))]
        return shlex.join(words)


def _receipt(path: Path) -> Any:
    return receipt_from_json(path.read_text(encoding="utf-8")) if path.is_file() else None


def _by_command(command: str, clean: NDArray[np.float32]) -> NDArray[Any]:
    """What a program makes of the rows."""
    if "{in}" not in command or "{out}" not in command:
        raise ValueError(f"--command must name {{in}} and {{out}}, got {command!r:.80}")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "clean.npy"), Path(folder, "protected.npy")
        np.save(source, clean)
        words = [word.replace("{in}", str(source)).replace("{out}", str(target)) for word in shlex.split(command)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not target.is_file():
            said = (done.stderr.strip().splitlines() or ["nothing was written"])[-1]
            raise ValueError(f"--command must write {{out}} and end with exit code 0, got {done.returncode}: {said:.200}")
        return np.asarray(np.load(target, allow_pickle=False))
