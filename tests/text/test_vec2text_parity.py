"""Against vec2text itself, run now: every row of the tiny checkpoints, on this machine.

HUSHVEC_TEST_SCALE=full HUSHVEC_VEC2TEXT_PYTHON=/path/to/bin/python: of an environment with vec2text 0.0.13 and transformers 4.44.2.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from hushvec.text.inverters import Vec2TextInverter
from text import tiny_vec2text as tiny

TESTS = Path(__file__).resolve().parents[1]
GENERATOR = TESTS / "evidence" / "vectors" / "make_vec2text_vectors.py"
PYTHON = os.environ.get("HUSHVEC_VEC2TEXT_PYTHON")

pytestmark = [
    pytest.mark.skipif(os.environ.get("HUSHVEC_TEST_SCALE") != "full", reason="several minutes: HUSHVEC_TEST_SCALE=full"),
    pytest.mark.skipif(not PYTHON, reason="HUSHVEC_VEC2TEXT_PYTHON names no python with vec2text 0.0.13: see docs/inverters.md"),
]


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """What vec2text answers now, for every row."""
    folder = tmp_path_factory.mktemp("answers")
    command = [PYTHON, str(GENERATOR), str(folder), "--every-row"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: json.loads((folder / f"vec2text_{name}.json").read_text(encoding="utf-8")) for name in ("t5", "gated")}


def kept(name):
    return json.loads((TESTS / "evidence" / "vectors" / f"vec2text_{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["t5", "gated"])
def test_every_text_is_that_of_vec2text(answered, name, tmp_path):
    folder = tiny.write_all(tmp_path, getattr(tiny, answered[name]["t5"]))
    rows = tiny.embeddings(len(answered[name]["rows"]))
    assert answered[name]["rows"] == list(range(len(rows)))
    # Rows that hang on the last bits of a float are not in the vectors; the two programs may part there, and nowhere else.
    steady = set(kept(name)["rows"])
    different = {}
    for answer in answered[name]["answers"]:
        settings = {setting: answer[setting] for setting in ("num_steps", "beams", "sequence_beams")}
        found = Vec2TextInverter.from_pretrained(folder / tiny.INVERSION, device="cpu", **settings).invert(rows)
        for row, (ours, its) in enumerate(zip(found, answer["texts"], strict=True)):
            if ours != its:
                different.setdefault(row, []).append(settings)
    assert not steady & different.keys(), different
    assert len(different) <= len(rows) // 20, different


@pytest.mark.parametrize("name", ["t5", "gated"])
def test_the_vectors_are_what_vec2text_answers(answered, name):
    """The file that the default tests use is no other than what its generator writes, rows left out aside."""
    vectors = kept(name)
    for old, new in zip(vectors["answers"], answered[name]["answers"], strict=True):
        assert old["texts"] == [new["texts"][row] for row in vectors["rows"]]


def test_the_releases_of_transformers_agree(tmp_path):
    """hushvec under vec2text's own transformers gives the texts that it gives under the one installed here."""
    folder = tiny.write_all(tmp_path / "models")
    np.save(tmp_path / "rows.npy", tiny.embeddings(12))
    program = (
        "import json, sys, numpy as np\n"
        "from hushvec.text.inverters import Vec2TextInverter\n"
        "folder, rows = sys.argv[1:]\n"
        "found = Vec2TextInverter.from_pretrained(folder, num_steps=2, beams=4, sequence_beams=2, device='cpu')\n"
        "print(json.dumps(found.invert(np.load(rows))))\n"
    )
    package = str(Path(sys.modules["hushvec"].__file__).parents[1])
    texts = []
    for python in (PYTHON, sys.executable):
        command = [python, "-W", "ignore", "-c", program, str(folder / tiny.INVERSION), str(tmp_path / "rows.npy")]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": package}, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        texts.append(json.loads(done.stdout.splitlines()[-1]))
    assert texts[0] == texts[1]
