#!/usr/bin/env python3
"""Installs hushvec with each extra as a user would today, in an environment of its own, with the newest release of everything that the
extra allows and without constraints.txt, and has it do its main job there. Prints what differs from constraints.txt where a job fails.

    python scripts/try_extras.py                   every extra of the table below, by a wheel built from build/dev
    python scripts/try_extras.py serve torch       these
    python scripts/try_extras.py --wheel dist/hushvec-0.1.0-cp311-cp311-linux_x86_64.whl

uv makes the environments: it keeps packages unpacked, so that torch is fetched and unpacked once for all of them. `test-all` is a
dependency group, with nearly every extra at once; its job are the tests of the folders where hushvec meets other packages.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "extras"
SECONDS = 3600

ROWS = "import numpy as np, hushvec as hv; rows = np.random.default_rng(0).standard_normal((50, 16)).astype('float32')\n"
NOISE_JOB = ROWS + "from hushvec.jobs import NoiseJob, noise_batch; job = NoiseJob.start(dimension=16, epsilon=6.0)\n"
NAMED_BY_IDS = "job = NoiseJob.start(dimension=16, epsilon=6.0, rows_by='integer-ids')\n"
# PrivUnit loses about one row in 900 at this epsilon; more than 5 of 50: less than one run in 10^9.
STORE = ROWS + (
    "from hushvec.retrieval import PrivateIndex, VectorNoise\n"
    "index = PrivateIndex(16, documents=VectorNoise(epsilon=400.0), store={store!r}); index.add(rows)\n"
    "found = sum(ids[0] == row for row, ids in enumerate(index.search(rows, k=3).ids))\n"
    "assert found >= 45, f'{{found}} of 50 rows find themselves'\n"
)
SERVICE = """
import os, sys, time, subprocess, httpx
service = subprocess.Popen([sys.executable, "-m", "hushvec", "serve", "--port", "8329"])
try:
    for _ in range(600):
        time.sleep(0.5)
        try:
            if httpx.get("http://127.0.0.1:8329/readyz").status_code == 200: break
        except httpx.TransportError: pass
    answer = httpx.post("http://127.0.0.1:8329/v1/embeddings", json={"input": ["the scan is clear", "the invoice is late"]})
    assert answer.status_code == 200 and len(answer.json()["data"][1]["embedding"]) == 384, answer.text
finally:
    service.terminate()
assert service.wait(60) in (0, -15, 143)
"""
TORCH = """
import torch, hushvec as hv
x = torch.ones(4, 8)
released = hv.privatize(x, epsilon=8.0)
assert hv.verify_receipt(released.receipt).status == "holds" and not torch.equal(released.values, x)
compiled = torch.compile(lambda x: hv.clip_and_noise(x, 1.0, 0.5), backend="aot_eager", fullgraph=True)
assert not torch.equal(compiled(x), compiled(x))
try:
    torch.export.export(type("M", (torch.nn.Module,), {"forward": lambda self, x: hv.clip_and_noise(x, 1.0, 0.5)})(), (x,))
except RuntimeError as error:
    assert "noise cannot be recorded into a program" in str(error), error
else:
    raise AssertionError("an export of noise was not refused")
"""


def examples(*modules):
    """Those of the modules' docstrings, which must be there."""
    return (
        "import doctest, importlib\n"
        f"for name in {modules}:\n"
        "    done = doctest.testmod(importlib.import_module('hushvec.' + name), optionflags=doctest.ELLIPSIS)\n"
        "    assert done.attempted and not done.failed, (name, done)\n"
    )


def block(page, word):
    """The Python of a page of the documentation that has this word."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return next(part for part in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if word in part)


def program(name):
    return (ROOT / "examples" / name).read_text(encoding="utf-8")


# Extra -> the program that must end without an error.
JOBS = {
    "torch": TORCH,
    "text": examples("embedders.minilm") + "import hushvec as hv\n" + program("rewrite_notes.py"),
    "cli": "import pyarrow as pa, pyarrow.parquet as pq; from hushvec.cli import main\n"
    "pq.write_table(pa.table({'v': [[1.0, 0.0], [0.0, 1.0]]}), 'in.parquet')\n"
    "assert main('privatize in.parquet --column v --epsilon 8 --output out.parquet'.split()) == 0\n"
    "assert pq.read_table('out.parquet').num_rows == 2",
    "training": program("private_training.py") + examples("training.opacus_engine"),
    "peft": program("private_adapter.py") + block("training_hosts.md", "PrivateTrainer("),
    "encryption": "from hushvec.text.pii.pseudonyms import Known, new_key, read_vault, write_vault\n"
    "key = new_key('k.key'); write_vault('v.vault', Known({'[PERSON_A]': 'Wren'}, {}), key)\n"
    "assert read_vault('v.vault', key) == {'[PERSON_A]': 'Wren'}",
    "secure": examples("secure_memory.transformers_cache"),
    "accounting": "from hushvec.accounting import PoissonSampledGaussianDP, compose\n"
    "loss = PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.01)\n"
    "assert 0.5 < compose([(loss, 1000)], delta=1e-5).epsilon < 3",
    "postgresql": "import sqlalchemy, psycopg, hushvec as hv\n"
    "try: hv.PrivacyBudget(1.0, persist_key='a', store='postgresql://nobody@127.0.0.1:1/none').consume(0.5)\n"
    "except hv.BudgetError as error: print(error)\n"
    "else: raise AssertionError('there is no server')",
    "redact": "from hushvec.text import redact; assert redact('Call +49 30 901820 today.').text == 'Call [PHONE] today.'",
    "serve": SERVICE,
    "telemetry": "import os; os.environ['OTEL_EXPORTER_OTLP_ENDPOINT'] = 'http://127.0.0.1:1'\n" + SERVICE,
    "langchain": examples("integrations.langchain", "integrations.langchain_store"),
    "llama-index": examples("integrations.llama_index", "integrations.llama_index_store"),
    "haystack": examples("integrations.haystack", "integrations.haystack_store"),
    "chroma": examples("integrations.chroma"),
    "sklearn": examples("integrations.sklearn"),
    "openai": "import openai\n" + examples("integrations.openai"),
    "presidio": "from hushvec.integrations.presidio import PresidioDetector\n"
    "assert any(span.category == 'email address' for span in PresidioDetector().detect('mail jane@example.com'))",
    "spacy": "import spacy; from hushvec.integrations.spacy import SpacyDetector\n"
    "pipeline = spacy.blank('en'); pipeline.add_pipe('entity_ruler').add_patterns([{'label': 'ORG', 'pattern': 'Brightwater'}])\n"
    "assert SpacyDetector(pipeline).detect('She left Brightwater.')[0].text == 'Brightwater'",
    "ray": NOISE_JOB + NAMED_BY_IDS + "import ray; from hushvec.integrations.ray import noise_dataset\n"
    "ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)\n"
    "import pyarrow as pa; ids = pa.array(range(50)); vectors = pa.array(list(rows), pa.list_(pa.float32()))\n"
    "data = ray.data.from_arrow(pa.table({'id': ids, 'embedding': vectors}))\n"
    "noisy = {row['id']: row['embedding'] for row in noise_dataset(data, job, id_column='id').take_all()}\n"
    "expected = noise_batch(rows, job, ids=np.arange(50))\n"
    "assert all(np.array_equal(np.array(noisy[place], 'float32'), expected[place]) for place in range(50))",
    "spark": NOISE_JOB + NAMED_BY_IDS + "import shutil; from pyspark.sql import SparkSession\n"
    "from hushvec.integrations.spark import noise_dataframe\n"
    "if shutil.which('java'):\n"
    "    session = SparkSession.builder.master('local[1]').config('spark.driver.bindAddress', '127.0.0.1').getOrCreate()\n"
    "    cells = [(place, row.tolist()) for place, row in enumerate(rows)]\n"
    "    frame = session.createDataFrame(cells, schema='id long, embedding array<float>')\n"
    "    noisy = {row['id']: row['embedding'] for row in noise_dataframe(frame, job, id_column='id').collect()}\n"
    "    expected = noise_batch(rows, job, ids=np.arange(50))\n"
    "    assert all(np.array_equal(np.array(noisy[place], 'float32'), expected[place]) for place in range(50))",
    "dask": NOISE_JOB + "import dask.array; from hushvec.integrations.dask import noise_array\n"
    "noisy = noise_array(dask.array.from_array(rows, chunks=(20, 16)), job).compute(scheduler='synchronous')\n"
    "assert np.array_equal(noisy, noise_batch(rows, job))",
    "tables": examples("integrations.tables"),
    "datasets": NOISE_JOB + "import datasets; from hushvec.integrations.datasets import noise_dataset\n"
    "noisy = noise_dataset(datasets.Dataset.from_dict({'embedding': rows.tolist()}), job)\n"
    "assert np.array_equal(np.array(noisy.with_format(None)['embedding'][:], 'float32'), noise_batch(rows, job))",
    "jax": examples("integrations.jax"),
    # A SuperLink and SuperNodes, which are killed; and the app of the page. Minutes: Flower starts a process for every message.
    "flower": examples("integrations.flower")
    + f"import subprocess, sys; runs = {str(ROOT / 'tests/integrations/flower_processes.py')!r}\n"
    + "subprocess.run([sys.executable, runs, '.'], check=True)",
    "nvflare": examples("integrations.nvflare")
    + f"import os, subprocess, sys; job = {str(ROOT / 'tests/integrations/nvflare_job/job.py')!r}\n"
    + "for arguments in ([], ['logistic'], ['adapter']):\n"
    + "    folder = '_'.join(['run', *arguments]); os.mkdir(folder)\n"
    + "    subprocess.run([sys.executable, job, folder, *arguments], check=True)",
    "faiss": STORE.format(store="hnsw"),
    "lancedb": STORE.format(store="lancedb"),
    "qdrant": STORE.format(store="qdrant"),
    "pgvector": "import pgvector.psycopg, hushvec.retrieval.stores.pgvector_store",
}
# What has no main job of its own, or cannot run where there is no device.
WITHOUT = {"cuda12", "cuda13", "hosts"}
# The tests of the folders where hushvec meets other packages.
TESTS = ["tests/_native", "tests/_util", "tests/training", "tests/integrations", "tests/secure_memory", "tests/serve"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=", ".join([*JOBS, "test-all"]))
    parser.add_argument("--wheel", type=Path, help="instead of one built from build/dev")
    given = parser.parse_args()
    if unknown := set(given.extras) - {*JOBS, "test-all"}:
        parser.error(f"EXTRA must be among {', '.join([*JOBS, 'test-all'])}, got {', '.join(sorted(unknown))}")
    WORK.mkdir(parents=True, exist_ok=True)
    uv = uv_of(WORK / "tools")
    with tempfile.TemporaryDirectory() as folder:
        wheel = (given.wheel or built(Path(folder))).resolve()
        failed = [extra for extra in given.extras or [*JOBS, "test-all"] if not works(uv, wheel, extra)]
    print(f"{len(failed)} failed: {', '.join(failed)}" if failed else "every extra works with the newest releases")
    return 1 if failed else 0


def built(folder):
    sys.path.insert(0, str(ROOT / "scripts"))
    import check_wheel  # which needs what `make dev` installs

    return check_wheel.built(folder)


def uv_of(folder):
    """uv, with the certificates that pip uses."""
    os.environ.setdefault("UV_SYSTEM_CERTS", "1")
    if not (folder / "bin/uv").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    return folder / "bin/uv"


def works(uv, wheel, extra):
    """Whether a new environment with this extra does the extra's job. Prints a line, and what it printed if it does not."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        python, started = Path(folder) / "bin/python", time.monotonic()
        made = run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], Path(folder))
        if not made.returncode:
            wanted = [f"hushvec[{extra}] @ {wheel.as_uri()}"]
            if extra == "test-all":
                wanted = [f"hushvec @ {wheel.as_uri()}", "--group", f"{ROOT / 'pyproject.toml'}:test-all"]
            made = run([uv, "pip", "install", "--python", python, *wanted], ROOT)
        if made.returncode:
            print(f"{extra}: cannot be installed\n{made.stdout}", flush=True)
            return False
        installed = dict(re.findall(r"^ \+ (\S+)==(\S+)", made.stdout, re.MULTILINE))
        if extra == "test-all":
            done = run([python, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "-m", "not alone", *TESTS], ROOT)
        else:
            done = run([python, "-c", JOBS[extra]], Path(folder))
        seconds = time.monotonic() - started
        if done.returncode:
            print(f"{extra}: FAILED after {seconds:.0f} s\n{done.stdout[-20_000:]}\nnewer: {newer(installed)}", flush=True)
        else:
            told = done.stdout.splitlines()[-1] if extra == "test-all" else ""
            print(f"{extra}: works with {len(installed)} packages, {seconds:.0f} s {told}".rstrip(), flush=True)
        return done.returncode == 0


def run(command, folder):
    """Its output and errors as one text, in a folder without hushvec's sources and a home without its files."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {} if folder == ROOT else {"XDG_STATE_HOME": str(folder)}
    environment["PATH"] = os.pathsep.join([str(Path(command[0]).parent), environment["PATH"]])   # Spark's workers look there
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, timeout=SECONDS, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(command, 1, f"{error.stdout!r}\nno end after {SECONDS} s")


def newer(installed):
    """The packages whose release is not that of constraints.txt."""
    tested = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
    tested = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in tested.items()}
    other = [f"{name} {version} ({tested.get(name, 'new')})" for name, version in installed.items() if tested.get(name) != version]
    return ", ".join(other) or "the releases of constraints.txt"


if __name__ == "__main__":
    sys.exit(main())
