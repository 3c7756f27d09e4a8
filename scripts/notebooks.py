"""Execute the tutorials in docs/tutorials and store their outputs, without noise: no warnings, no paths of this machine.

    python scripts/notebooks.py                       # all of them
    python scripts/notebooks.py private_search        # one, by the name of its file
    python scripts/notebooks.py --check               # execute and store nothing; exit code 1 if a cell fails

Each notebook runs in a fresh process, in an empty folder, without a network. Code cells are run as Jupyter would run them, as far as
the tutorials need it: printed text, the value of a last expression, pictures of matplotlib.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "tutorials"
# No network, and no files of the user: budgets without store= go into the empty folder.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # on a busy machine several threads wait for each other
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "MPLBACKEND": "agg",
    "HUSHVEC_BUDGET_STORE": "budget.sqlite",
    "ANONYMIZED_TELEMETRY": "False",
}
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
DPI = 90

Notebook = dict[str, Any]
Output = dict[str, Any]


def read(path: Path) -> Notebook:
    return json.loads(path.read_text("utf-8"))


def write(path: Path, notebook: Notebook) -> None:
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")


def source_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def executed(notebook: Notebook) -> Notebook:
    """The notebook with the outputs of a run in this process, which should be a fresh one. A cell that fails raises."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for number, cell in enumerate(notebook["cells"]):
        new = {"cell_type": cell["cell_type"], "id": f"cell-{number}", "metadata": {}, "source": lines(source_of(cell))}
        if cell["cell_type"] == "code":
            count += 1
            new |= {"execution_count": count, "outputs": run_cell(source_of(cell), namespace, count)}
        cells.append(new)
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def run_cell(source: str, namespace: dict[str, Any], count: int) -> list[Output]:
    """Run one cell: what it printed, its last expression, its pictures."""
    tree = ast.parse(source, f"cell {count}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(tree, f"cell {count}", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), namespace)
    found = pictures()
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(clean(printed.getvalue()))})
    if value is not None and not found and not source.rstrip().endswith(";"):
        outputs.append({"data": shown(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    outputs += [{"data": one, "metadata": {}, "output_type": "display_data"} for one in found]
    return outputs


def shown(value: Any) -> dict[str, Any]:
    """A value as text, and as HTML if it has that form."""
    data: dict[str, Any] = {"text/plain": lines(clean(repr(value)))}
    html = getattr(value, "_repr_html_", None)
    if html is not None and (text := html()) is not None:
        data = {"text/html": lines(clean(text))} | data
    return data


def pictures() -> list[dict[str, Any]]:
    """Every open figure as PNG; they are closed."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    import matplotlib.pyplot as plt

    found = []
    for number in plt.get_fignums():
        content = io.BytesIO()
        figure = plt.figure(number)
        figure.savefig(content, format="png", dpi=DPI, bbox_inches="tight", metadata={"Software": None})
        found.append({"image/png": base64.b64encode(content.getvalue()).decode() + "\n", "text/plain": ["<Figure>"]})
    plt.close("all")
    return found


def clean(text: str) -> str:
    """Text without the places of this machine."""
    for place in (os.getcwd(), str(ROOT), str(Path.home()), tempfile.gettempdir()):
        text = text.replace(place, "...")
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def run_here(paths: list[Path], store: bool) -> None:
    """Execute notebooks in this process, each with a namespace and a folder of its own."""
    before = Path.cwd()
    for path in paths:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                done = executed(read(path))
            except BaseException:
                sys.exit(f"{path.name}: {clean(traceback.format_exc())}")
            finally:
                os.chdir(before)
        if store:
            write(path, done)
        print(f"{path.name}: {time.process_time() - began:.1f} s of processor time", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="files of docs/tutorials, without .ipynb (default: all)")
    parser.add_argument("--check", action="store_true", help="store nothing")
    parser.add_argument("--here", action="store_true", help="in this process, one after the other: models are loaded once")
    options = parser.parse_args()
    paths = [FOLDER / f"{name}.ipynb" for name in options.names] or sorted(FOLDER.glob("*.ipynb"))
    if missing := [path.name for path in paths if not path.exists()]:
        parser.error(f"no such tutorial: {', '.join(missing)}")
    if options.here:
        run_here(paths, store=not options.check)
        return 0
    command = [sys.executable, __file__, "--here", *(["--check"] if options.check else [])]
    codes = [subprocess.run([*command, path.stem], env=os.environ | ENVIRONMENT, check=False).returncode for path in paths]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
