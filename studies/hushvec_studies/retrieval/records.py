"""The folder of a study: what it is a study of, and what its runs left behind.

    study.json            configuration and version that the folder belongs to
    measured/HASH.json    rows of one run and the ranks behind them, named by its config_hash
    results.csv           all rows, written anew after every command
    embeddings/           vectors; as private as the texts

Runs are measurements of the harness: however a study ends, a run is either there once or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hushvec
from hushvec.extend.helpers import published_text
from hushvec_studies.harness.measurements import Measurements
from hushvec_studies.retrieval import columns
from hushvec_studies.retrieval.columns import Row
from hushvec_studies.retrieval.configuration import SIDES, Configuration, from_values, to_values
from hushvec_studies.retrieval.plan import first_difference

FORMAT = 2  # of study.json; 1 is a folder without "measured"
RESULTS = "results.csv"
_STUDY = "study.json"


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a run leaves behind.

    Args:
        rows: one for each k.
        ranks: place of the first document that answers each query among those returned, from 1; 0 where there is none.
        queries_of: how many queries in a row ask for the same document.
    """

    rows: tuple[Row, ...]
    ranks: tuple[int, ...] = ()
    queries_of: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": [columns.to_json(row) for row in self.rows],
            # thousands of small numbers: one line of the file instead of one line for each
            "ranks": " ".join(map(str, self.ranks)),
            "queries_of": " ".join(map(str, self.queries_of)),
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Record:
        """What `to_dict` said; ValueError, KeyError, TypeError: it is something else."""
        if not said["rows"] or any(set(row) != set(columns.NAMES) for row in said["rows"]):
            raise ValueError("not a run of this version of hushvec")
        rows = tuple(columns.from_json(row) for row in said["rows"])
        return cls(rows=rows, **{name: tuple(map(int, said.get(name, "").split())) for name in ("ranks", "queries_of")})


class StudyFolder:
    """The folder of a study, made by `open_for` if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open_for(self, configuration: Configuration) -> None:
        """Begin a study in the folder, or go on with it. A folder without a run can be begun anew.

        Raises:
            ValueError: it holds a study whose figures have another meaning (the first setting that differs is named) or something
                else.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        said = self._said()
        if said is None or not Measurements(self.path):
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
        """The configuration that the study was begun with; ValueError: there is no study in the folder."""
        said = self._said()
        if said is None:
            raise ValueError(f"{self.path}: must be the folder of a study, which has a {_STUDY}")
        return from_values(said["configuration"])

    def records(self) -> list[Record]:
        """Every run that is done, in the order of tables; ValueError names a file that is none."""
        return sorted(Measurements(self.path).all(Record.from_dict), key=lambda record: _place(record.rows[0]))

    def write_results(self) -> list[Row]:
        """Write all rows to results.csv and return them."""
        rows = [row for record in self.records() for row in record.rows]
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
