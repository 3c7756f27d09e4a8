"""The folder of a study: what it is a study of, and one file for every run that is done.

    study.json          configuration and version that the folder belongs to
    runs/HASH.json      rows, settings, receipts and promises of one run, named by its config_hash
    results.csv         all rows, written anew after every command
    inputs/, embeddings/  vectors; as private as the texts

A file of a run appears whole or not at all, and its name is that of its configuration: however a study ends, a run is either there
once or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hushvec
from hushvec._util.publish import published_bytes, published_text
from hushvec_studies.retrieval import columns
from hushvec_studies.retrieval.columns import Row
from hushvec_studies.retrieval.configuration import from_values, to_values
from hushvec_studies.retrieval.plan import first_difference
from hushvec_studies.retrieval.schema import SIDES, Configuration

FORMAT = 1
RESULTS = "results.csv"
_STUDY = "study.json"
_RUNS = "runs"


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a run leaves behind.

    Args:
        settings: everything that decided its figures, as `Run.settings`.
        rows: one for each k.
        receipts: side -> the receipt of what was released there, for the sides with noise. Noise of a study comes from a seed: these
            receipts say what was done, and are no claims of privacy.
        promises: sentences of the index about what it promises whom.
        curves: attack -> {"k", "fpr", "tpr"}: its ROC curve at the largest k.
    """

    settings: Mapping[str, Any]
    rows: tuple[Row, ...]
    receipts: Mapping[str, Any]
    promises: tuple[str, ...]
    curves: Mapping[str, Any]

    @property
    def config_hash(self) -> str:
        return str(self.rows[0]["config_hash"])

    def to_dict(self) -> dict[str, Any]:
        """Ready for strict JSON."""
        return {
            "format": FORMAT,
            "settings": dict(self.settings),
            "rows": [columns.to_json(row) for row in self.rows],
            "receipts": dict(self.receipts),
            "promises": list(self.promises),
            "curves": dict(self.curves),
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Record:
        """What `to_dict` said.

        Raises:
            ValueError: it is something else.
        """
        rows = said.get("rows")
        if said.get("format") != FORMAT or not isinstance(rows, list) or not rows:
            raise ValueError("not a run of this version of hushvec")
        if any(set(row) != set(columns.NAMES) for row in rows):
            raise ValueError("not a run of this version of hushvec")
        return cls(
            settings=said["settings"],
            rows=tuple(columns.from_json(row) for row in rows),
            receipts=said["receipts"],
            promises=tuple(said["promises"]),
            curves=said["curves"],
        )


class StudyFolder:
    """The folder of a study.

    Args:
        path: made by `open_for` if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inputs = path / "inputs"
        self._runs = path / _RUNS

    def open_for(self, configuration: Configuration) -> None:
        """Begin a study in the folder, or go on with it. A folder without a run can be begun anew.

        Raises:
            ValueError: it holds a study whose figures have another meaning; the first setting that differs is named. Or it holds
                something else.
            OSError: it cannot be written.
        """
        self._runs.mkdir(parents=True, exist_ok=True)
        said = self._said()
        if said is None or not any(self._runs.glob("[!.]*.json")):
            with published_text(self.path / _STUDY) as file:
                json.dump(
                    {"format": FORMAT, "version": hushvec.__version__, "configuration": to_values(configuration)}, file, indent=2
                )
            return
        if said.get("version") != hushvec.__version__:
            raise ValueError(f"{self.path}: must be a study by hushvec {hushvec.__version__}, got one by {said.get('version')}")
        difference = first_difference(configuration, said["configuration"])
        if difference is not None:
            raise ValueError(f"{self.path}: holds a study of another configuration: {difference}; choose another folder")

    def configuration(self) -> Configuration:
        """The configuration that the study was begun with.

        Raises:
            ValueError: there is no study in the folder.
        """
        said = self._said()
        if said is None:
            raise ValueError(f"{self.path}: must be the folder of a study, which has a {_STUDY}")
        return from_values(said["configuration"])

    def path_of(self, config_hash: str) -> Path:
        return self._runs / f"{config_hash}.json"

    def has(self, config_hash: str) -> bool:
        return self.path_of(config_hash).is_file()

    def save(self, record: Record) -> None:
        """Put a run's file in place."""
        said = json.dumps(record.to_dict(), ensure_ascii=False, allow_nan=False).encode()
        try:
            with published_bytes(self.path_of(record.config_hash)) as file:
                file.write(said)
        except FileNotFoundError:
            # Another process has done the same run and cleared up behind it.
            if not self.has(record.config_hash):
                raise

    def records(self) -> list[Record]:
        """Every run that is done, in the order of tables.

        Raises:
            ValueError: a file that is not one of a run, or has another name than its content; it is named.
        """
        found = [self._read(path) for path in self._runs.glob("[!.]*.json")]
        return sorted(found, key=lambda record: _place(record.rows[0]))

    def write_results(self) -> list[Row]:
        """Write all rows to results.csv and return them. What killed processes have left half-written goes."""
        rows = [row for record in self.records() for row in record.rows]
        for leftover in self._runs.glob(".*"):
            if self.has(leftover.name.split(".")[1]):
                leftover.unlink(missing_ok=True)
        for leftover in self.path.glob(".*.partial"):
            if not _is_another(leftover):
                leftover.unlink(missing_ok=True)
        columns.write_rows(rows, self.path / RESULTS)
        return rows

    def _said(self) -> dict[str, Any] | None:
        path = self.path / _STUDY
        if not path.is_file():
            return None
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: is not JSON: {error}") from None
        if not isinstance(said, dict) or said.get("format") != FORMAT or not isinstance(said.get("configuration"), dict):
            raise ValueError(f"{path}: is not the beginning of a study of this version of hushvec")
        return said

    def _read(self, path: Path) -> Record:
        try:
            record = Record.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: must be a run of this study; remove it to do the run again ({error})") from None
        if record.config_hash != path.stem:
            raise ValueError(f"{path}: must have the name of its config_hash, {record.config_hash}")
        return record


def _is_another(leftover: Path) -> bool:
    """Whether a half-written file belongs to another process that is still there."""
    number = leftover.name.split(".")[-2]
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _place(row: Row) -> tuple[Any, ...]:
    """Where a run stands in tables: texts and model, then from no noise to all sides, families, epsilon from the largest."""
    sides = [] if row["sides"] == "none" else row["sides"].split("+")
    given = {"document": "epsilon_doc", "query": "epsilon_query", "score": "epsilon_score"}
    return (
        row["dataset_split"],
        row["embedding_model"],
        row["seed"],
        row["queries_per_document"],
        row["projection"],
        len(sides),
        [SIDES.index(side) for side in sides],
        row["noise"],
        [-row[given[side]] for side in sides],
        row["k"],
        row["config_hash"],
    )
