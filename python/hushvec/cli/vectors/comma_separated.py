"""Vectors in .csv files: a number in each column, a list of numbers in one, or a text in one."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lines import json_line
from hushvec.cli.vectors.objects import JsonSource, Line
from hushvec.cli.vectors.source import DEFAULT_VECTOR, Columns, FileError, Sink, naming

_OTHER_DELIMITERS = ";\t|"
_FEW = 3  # columns with which 0,1,2 on the first line may well be a row; fewer rows that count on may do so by chance


class CsvSource(JsonSource):
    """Numbers of the vector are in the columns that --column names; else in all that nothing else names, which must look alike. The
    first line has names, unless it holds numbers alone that are no places of columns. A first column without a name is an index."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._named, self._chosen = columns.vector, list[str]()
        super().__init__(path, columns._replace(vector=columns.vector if columns.text else None))
        if self._text is None:
            with naming(path):
                self._survey()

    def _look(self, first: Line | None) -> None:
        self._is_many = False
        if first is None or self._text is not None:
            return
        where, fields = first
        names = list(fields)
        if self._named is not None or fields.get(DEFAULT_VECTOR, "").lstrip().startswith("["):
            self._chosen = _columns_named(names, self._named or DEFAULT_VECTOR, where)
        else:
            index = names[:1] if names[0] in ("", "Unnamed: 0") else []
            self._chosen = [name for name in names if name not in (*self._keep, *index)]
        if kept := [name for name in self._chosen if name in self._keep]:
            raise FileError(self._path, f"keep must not name {kept[0]!r}: it is what the noise protects")
        self._is_list = len(self._chosen) == 1 and fields[self._chosen[0]].lstrip().startswith("[")
        self._vector = self._chosen[0] if self._is_list else self._vector
        left = [name for name in names if name not in (*self._chosen, *self._keep)]
        out = f"; left out: {_listed(left)}" if left else ""
        self.taken_from = f"{'column' if len(self._chosen) == 1 else 'columns'} {_listed(self._chosen)}{out}"

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        is_list = self._text is not None or self._is_list
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        if self._has_names:
            writer.writerow([*self._keep, *([self._vector] if is_list else self._chosen)])

        def write(values: NDArray[Any], kept: dict[str, Any]) -> None:
            rows = zip(*kept.values(), values.tolist())
            writer.writerows([*others, *([json_line(row)] if is_list else row)] for *others, row in rows)

        yield write
        text.detach()

    def _lines(self) -> Iterator[Line]:
        with self._path.open(encoding="utf-8-sig", newline="") as file, naming(self._path):
            reader = csv.reader(file, strict=True)
            lines = filter(None, reader)
            try:
                _require_commas(next(filter(str.strip, file), ""))
                file.seek(0)
                first = next(lines, [])
                self._has_names = _are_names(first)
                names = first if self._has_names else list(map(str, range(len(first))))
                if len(set(names)) < len(names):
                    raise ValueError("line 1: the names of columns must differ")
                for fields in lines if self._has_names else chain([first] if first else [], lines):
                    if len(fields) != len(names):
                        raise ValueError(f"line {reader.line_num}: must have {len(names)} fields like the first, got {len(fields)}")
                    yield f"{self._path}: line {reader.line_num}", dict(zip(names, fields))
            except csv.Error as error:
                raise ValueError(f"line {reader.line_num}: {error}") from None

    def _given(self, where: str, fields: dict[str, Any]) -> Any:
        if self._text is not None:
            return super()._given(where, fields)
        if self._is_list:
            try:
                return json.loads(fields[self._vector])
            except ValueError:
                raise ValueError(f"{where}: {self._vector!r} must be a list of numbers like [0.5, 0.25]") from None
        numbers = [fields[name] for name in self._chosen]
        if wrong := [repr(name) for name, text in zip(self._chosen, numbers) if not _is_number(text)] or ["none"] * (not numbers):
            raise ValueError(f"{where}: must have columns of numbers, got {wrong[0]}")
        return list(map(float, numbers))

    def _survey(self) -> None:
        """Refuse columns that are no coordinates like the others. All rows are looked at: the first ones may be whole by chance."""
        if self._named is not None or self._is_list:
            return
        whole, odd, last, runs, rows = dict.fromkeys(range(self.dimension)), set[int](), None, True, 0
        for where, fields in self._lines():
            numbers = self._given(where, fields)
            if not np.isfinite(numbers).all():
                return  # which is refused where rows are read
            for place in list(whole):
                if not numbers[place].is_integer():
                    del whole[place]
                elif fields[self._chosen[place]].strip().lstrip("+-").isdecimal() or abs(numbers[place]) > 1:
                    odd.add(place)
            runs = runs and 0 in whole and last in (None, numbers[0] - 1)
            last, rows = numbers[0], rows + 1
        suspects = [self._chosen[place] for place in whole if place in odd] if len(whole) < self.dimension else []
        if not suspects and runs and rows >= _FEW and self.dimension > 1:
            suspects = self._chosen[:1]
        suspects += _outside_the_series(self._chosen) if self._has_names else []
        if suspects:
            rest = [name for name in self._chosen if name not in suspects] or self._chosen
            raise ValueError(
                f"column {suspects[0]!r} must be a coordinate, and is unlike the others, as an id or a label is: say which columns "
                f"are the vector, such as --column {rest[0]}..{rest[-1]}"
            )


def _listed(names: Sequence[str]) -> str:
    """Names, or the first and the last of many."""
    return ", ".join(map(repr, names)) if len(names) < 4 else f"{names[0]!r} to {names[-1]!r} ({len(names)})"


def _columns_named(names: list[str], given: str, where: str) -> list[str]:
    """Those that --column names: one, several with commas, or all from one to another as FIRST..LAST, in the order of the file."""
    found = set[int]()
    for part in [given] if given in names else given.split(","):
        first, _, last = (part, "", "") if part in names else part.partition("..")
        for name in (first, last or first):
            if name not in names:
                raise ValueError(f"{where}: has no column {name!r}, got {_listed(names)}")
        found.update(range(names.index(first), names.index(last or first) + 1))
    return [names[place] for place in sorted(found)]


def _require_commas(line: str) -> None:
    """Refuse a first line whose fields another character separates: each line would be one field, or decimal commas would end one."""
    for delimiter in _OTHER_DELIMITERS:
        fields = next(csv.reader([line], delimiter=delimiter), [])
        are_numbers = all(_is_number(text.replace(",", ".")) for text in fields)
        if len(fields) > 1 and (are_numbers or len(next(csv.reader([line]))) == 1):
            raise ValueError(
                f"fields must be separated by commas, and the first line has {delimiter!r} between them: write the file with commas "
                "(sep=',' of pandas)"
            )


def _are_names(first: list[str]) -> bool:
    """Return whether the first line has names. Whole numbers from 0 or 1 on are those of columns, as pandas writes them."""
    numbers = [text for text in first if _is_number(text)]
    start = int(numbers[0]) if numbers and numbers[0] in ("0", "1") else None
    counts = start is not None and numbers == list(map(str, range(start, start + len(numbers))))
    if counts and len(numbers) == len(first) <= _FEW:
        raise ValueError(f"line 1: must be a row or names, and {','.join(first)} may be either: give the columns names with letters")
    if numbers and len(numbers) < len(first) and not counts:
        other = next(text for text in first if text not in numbers)
        raise ValueError(f"line 1: must have names or numbers alone, got the number {numbers[0]} beside {other!r}")
    return counts or len(numbers) < len(first)


def _outside_the_series(names: list[str]) -> list[str]:
    """Return names that do not count on, where most do, as d0, d1, d2 or 0, 1, 2."""
    stems = [re.sub(r"[0-9]+$", "", name) if name[-1:].isdecimal() else None for name in names]
    counted = [stem for stem in stems if stem is not None]
    most = max(set(counted), key=counted.count, default="")
    return [] if counted.count(most) <= max(1, len(names) // 2) else [name for name, stem in zip(names, stems) if stem != most]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
