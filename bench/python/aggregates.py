"""Aggregates of many people's rows beside other libraries: error and time, and sums beside a plain read of the rows. Prints JSON.

    pip install opendp randomgen scikit-learn
    python bench/python/aggregates.py                                    # up to an hour, 8 GB
    python bench/python/aggregates.py --diffprivlib ENV/bin/python       # of an environment with diffprivlib, if it wants its own

Mean, 32 principal components and a classifier of 10 classes from synthetic rows in clusters, float32 of unit length, epsilon 1 for one
row that is replaced by another. Libraries take turns on the same arrays with one thread; times are of the processor, so that other
programs count little: as often as there are rounds, once where a call takes more than 20 s, and never beyond --limit. Every library is
told what is public: the number of rows and their length; diffprivlib also that elements are within 1/4. Errors:

mean          |error| / |mean|
components    the share of the variance that they hold, divided by that of the best 32
classifier    share of 10,000 other rows whose class is named

Reads: `x.sum()` by numpy on one thread, in processor time, and on two halves at once, wall-clock; in turns with private_mean and
private_sums by class.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COLUMNS, CLASSES, COMPONENTS, EPSILON, DELTA = 384, 10, 32, 1.0, 1e-5
HELD_OUT = 10_000
LONG = 20.0  # seconds of a call that is made once
SHORT = 0.2  # seconds that calls are repeated for
ELEMENT = 0.25  # no element of a row is longer, but for a few in a million
BOTH, PURE, NONE = "epsilon 1, delta 1e-5", "epsilon 1", "none"
# case -> contestants: (name in the tables, library, what it is asked for, guarantee)
CASES = {
    "mean": [
        ("hushvec private_mean", "hushvec", "mean", BOTH),
        ("OpenDP, vector Gaussian", "opendp", "mean", BOTH),
        ("diffprivlib mean", "diffprivlib", "mean", PURE),
        ("numpy mean", "sklearn", "mean", NONE),
    ],
    "components": [
        ("hushvec private_pca", "hushvec", "components", BOTH),
        ("OpenDP PCA", "opendp", "components", PURE),
        ("diffprivlib PCA", "diffprivlib", "components", PURE),
        ("scikit-learn PCA", "sklearn", "components", NONE),
    ],
    "classifier": [
        ("hushvec class_centroids", "hushvec", "centroids", BOTH),
        ("hushvec private_classifier", "hushvec", "classifier", BOTH),
        ("diffprivlib LogisticRegression", "diffprivlib", "classifier", PURE),
        ("scikit-learn LogisticRegression", "sklearn", "classifier", NONE),
    ],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="10000,1000000", help="numbers of rows (default 10000,1000000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=300.0, help="processor seconds of one call (default 300)")
    parser.add_argument("--diffprivlib", default=sys.executable, metavar="PYTHON", help="interpreter that has diffprivlib")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where rows lie meanwhile")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    import hushvec
    from machine import facts

    results, reads, versions = [], {}, {}
    for rows in map(int, options.rows.split(",")):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            print(f"making {rows:,} rows", file=sys.stderr)
            made(Path(folder), rows)
            for case, contestants in CASES.items():
                results += compared(case, contestants, rows, folder, options, results)
            worker = Worker(sys.executable, folder, options.limit)
            reads[str(rows)] = worker.answer("hushvec reads", options.rounds)
            worker.close()
    for library, python in (("hushvec", sys.executable), ("diffprivlib", options.diffprivlib)):
        worker = Worker(python, "", options.limit)
        versions |= worker.answer(f"{library} versions", 0)
        worker.close()
    about = facts(hushvec.backends())
    shape = {"columns": COLUMNS, "classes": CLASSES, "components": COMPONENTS, "rounds": options.rounds, "limit_s": options.limit}
    machine = {**about["machine"], "python": about["software"]["python"], "versions": versions}
    json.dump({"date": about["date"], "machine": machine, **shape, "results": results, "reads": reads}, sys.stdout, indent=1)
    print()


def made(folder, count):
    """rows.npy and classes.npy, and others for testing: classes in a space whose directions have spreads that fall like 1/sqrt(j)."""
    import numpy as np

    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0].astype(np.float32)
    spread = (np.arange(1, COLUMNS + 1) ** -0.5).astype(np.float32)
    centers = 0.2 * rng.standard_normal((CLASSES, COLUMNS), dtype=np.float32)
    centers[:, 0] += 2  # a mean that all share, as embeddings have one
    for name, size in (("", count), ("test_", HELD_OUT)):
        rows = np.lib.format.open_memmap(folder / f"{name}rows.npy", mode="w+", dtype=np.float32, shape=(size, COLUMNS))
        classes = rng.integers(0, CLASSES, size)
        for first in range(0, size, 50_000):
            of = classes[first : first + 50_000]
            part = ((rng.standard_normal((len(of), COLUMNS), dtype=np.float32) + centers[of]) * spread) @ axes
            rows[first : first + 50_000] = part / np.linalg.norm(part, axis=1, keepdims=True)
        np.save(folder / f"{name}classes.npy", classes)
        del rows


def compared(case, contestants, rows, folder, options, before):
    """A row for each contestant. They take turns; one that took too long, here or on fewer rows, or failed takes no more."""
    answers, workers = {name: [] for name, *_ in contestants}, {}
    reason = {one["name"]: one["not_run"] for one in before if one["not_run"]}
    for turn in range(options.rounds + 1):  # the first warms up
        for name, library, what, _ in contestants:
            seen = answers[name]
            if name in reason or (seen and seen[0]["seconds"] > LONG):
                continue
            if library not in workers:
                python = options.diffprivlib if library == "diffprivlib" else sys.executable
                workers[library] = Worker(python, folder, options.limit)
            print(f"{rows:,} rows, {case}, {name}, turn {turn + 1}", file=sys.stderr)
            answer = workers[library].answer(f"{library} {what}", turn)
            if "failed" in answer:
                reason[name] = answer["failed"]
                workers.pop(library).close()
            else:
                seen.append(answer)
    for worker in workers.values():
        worker.close()
    return [
        {
            "case": case,
            "rows": rows,
            "name": name,
            "guarantee": guarantee,
            "seconds": [round(one["seconds"], 6) for one in answers[name][min(1, len(answers[name]) - 1) :]],
            "error": statistics.mean(one["error"] for one in answers[name]) if answers[name] else None,
            "not_run": reason.get(name),
        }
        for name, _, _, guarantee in contestants
    ]


class Worker:
    """A process that has the rows in memory and answers one task at a time, each within `limit` seconds of the processor."""

    def __init__(self, python, folder, limit):
        threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HUSHVEC_NUM_THREADS")}
        command = [python, os.path.abspath(__file__), "--worker"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **threads}
        )
        self._folder, self._limit = folder, limit

    def answer(self, task, turn):
        """What the task gave, or why it failed."""
        self._process.stdin.write(json.dumps([task, str(self._folder), turn, self._limit]) + "\n")
        self._process.stdin.flush()
        if line := self._process.stdout.readline():
            return json.loads(line)
        code = self._process.wait()
        return {"failed": f"more than {self._limit:.0f} s" if code == -signal.SIGXCPU else f"ended with code {code}"}

    def close(self):
        self._process.stdin.close()
        self._process.wait()


# ---- in a worker


def work():
    warnings.simplefilter("ignore")
    data, prepared = {}, {}
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        task, folder, turn, limit = json.loads(line)
        library, what = task.split()
        try:
            if what == "versions":
                found = versions(library)
            else:
                if not data:
                    data.update(loaded(folder))
                found = reads(data, turn) if what == "reads" else timed(LIBRARIES[library], what, data, prepared, turn, limit)
        except Exception as error:  # one broken peer must not cost the others their figures
            found = {"failed": f"{type(error).__name__}: {error}"[:200]}
        os.write(answers, (json.dumps(found) + "\n").encode())


def loaded(folder):
    import numpy as np

    return {name: np.load(f"{folder}/{name}.npy") for name in ("rows", "classes", "test_rows", "test_classes")}


def timed(library, what, data, prepared, turn, limit):
    """Processor seconds of a call, and the error of what it gave. What a library wants prepared is not timed."""
    make, call = library
    if what not in prepared:
        prepared[what] = make(what, data)
    start = time.process_time()
    within(start + limit)
    found = call(what, data, prepared[what], turn)
    calls = 1
    while time.process_time() - start < SHORT:
        call(what, data, prepared[what], turn)
        calls += 1
    seconds = (time.process_time() - start) / calls
    within(None)
    return {"seconds": seconds, "error": error_of(what, found, data, prepared)}


def within(end):
    """The system ends this process when it has used so many seconds of the processor; None: it may go on."""
    limit = resource.RLIM_INFINITY if end is None else int(end) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def error_of(what, found, data, prepared):
    import numpy as np

    if what in ("classifier", "centroids"):
        return float(np.mean(found.predict(data["test_rows"]) == data["test_classes"]))
    if "mean" not in data:
        rows = data["rows"]
        data["mean"] = sum(part.sum(axis=0, dtype=np.float64) for part in np.array_split(rows, 100)) / len(rows)
        moments = np.zeros((COLUMNS, COLUMNS))
        for part in np.array_split(rows, 100):
            moved = (part - data["mean"]).astype(np.float64)
            moments += moved.T @ moved
        data["moments"] = moments
    if what == "mean":
        return float(np.linalg.norm(np.asarray(found) - data["mean"]) / np.linalg.norm(data["mean"]))
    axes = np.linalg.qr(np.asarray(found, np.float64).T)[0]
    best = np.linalg.eigvalsh(data["moments"])[-COMPONENTS:].sum()
    return float(np.trace(axes.T @ data["moments"] @ axes) / best)


def reads(data, rounds):
    """Seconds of a plain read and of sums, in turns, by threads."""
    import hushvec
    from hushvec.aggregates import private_mean, private_sums

    rows, classes = data["rows"], data["classes"]
    halves = (rows[: len(rows) // 2], rows[len(rows) // 2 :])
    terms = {"epsilon": EPSILON, "delta": DELTA}
    calls = {
        "private_mean": lambda: private_mean(rows, **terms),
        "private_sums": lambda: private_sums(rows, classes, labels=CLASSES, **terms),
    }
    found = {}
    with ThreadPoolExecutor(2) as pool:
        for threads, read in ((1, rows.sum), (2, lambda: list(pool.map(lambda half: half.sum(), halves)))):
            hushvec.set_num_threads(threads)
            clock = time.process_time if threads == 1 else time.perf_counter
            seconds = {name: [] for name in ("read", *calls)}
            for turn in range(3 * rounds + 1):
                for name, call in {"read": read, **calls}.items():
                    start = clock()
                    call()
                    if turn:  # the first warms up
                        seconds[name].append(clock() - start)
            ratios = {name: statistics.median(a / b for a, b in zip(seconds[name], seconds["read"])) for name in calls}
            found[str(threads)] = {"seconds": {name: statistics.median(one) for name, one in seconds.items()}, "ratios": ratios}
    return found


def versions(library):
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("diffprivlib",) if library == "diffprivlib" else ("hushvec", "opendp", "numpy", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def hushvec_call(what, data, prepared, turn):
    from hushvec import aggregates

    terms = {"epsilon": EPSILON, "delta": DELTA, "adjacency": "replace-one"}
    if what == "mean":
        return aggregates.private_mean(data["rows"], **terms).mean
    if what == "components":
        return aggregates.private_pca(data["rows"], components=COMPONENTS, **terms).projection.components
    fit = aggregates.private_classifier if what == "classifier" else aggregates.class_centroids
    return fit(data["rows"], data["classes"], labels=CLASSES, **terms)


def opendp_made(what, data):
    """A measurement of rows of this shape, calibrated, and the rows as it takes them, float64."""
    import numpy as np
    import opendp.prelude as dp
    from opendp.extras.numpy._make_np_mean import make_private_np_mean
    from opendp.extras.sklearn.decomposition import PCA

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    count = len(data["rows"])
    domain, replaced = dp.numpy.array2_domain(num_columns=COLUMNS, size=count, T=float), 2

    def mean(scale):
        inner = make_private_np_mean(domain, dp.symmetric_distance(), scale, norm=1.0, p=2)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(inner), DELTA)

    rows = data["rows"].astype(np.float64)
    if what == "mean":
        return dp.binary_search_chain(mean, d_in=replaced, d_out=(EPSILON, DELTA), T=float), rows
    shape = {"n_samples": count, "n_features": COLUMNS, "n_components": COMPONENTS}
    # its epsilon is that of a row added or removed: a replaced one costs twice
    return (lambda given: PCA(epsilon=EPSILON / 2, row_norm=1.0, **shape).fit(given).components_), rows


def opendp_call(what, data, prepared, turn):
    measurement, rows = prepared
    return measurement(rows)


def diffprivlib_call(what, data, prepared, turn):
    import diffprivlib
    import numpy as np

    if what == "mean":
        bounds = (np.full(COLUMNS, -ELEMENT), np.full(COLUMNS, ELEMENT))
        return diffprivlib.tools.mean(data["rows"], epsilon=EPSILON, bounds=bounds, axis=0, random_state=turn)
    if what == "components":
        given = {"data_norm": 2.0, "bounds": (-ELEMENT, ELEMENT), "random_state": turn}
        return diffprivlib.models.PCA(COMPONENTS, epsilon=EPSILON, **given).fit(data["rows"]).components_
    model = diffprivlib.models.LogisticRegression(epsilon=EPSILON, data_norm=1.0, random_state=turn)
    return model.fit(data["rows"], data["classes"])


def sklearn_call(what, data, prepared, turn):
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression

    if what == "mean":
        return data["rows"].mean(axis=0)
    if what == "components":
        return PCA(COMPONENTS, svd_solver="covariance_eigh").fit(data["rows"]).components_
    return LogisticRegression(C=10.0, max_iter=1000).fit(data["rows"], data["classes"])


def _nothing(what, data):
    return None


LIBRARIES = {
    "hushvec": (_nothing, hushvec_call),
    "opendp": (opendp_made, opendp_call),
    "diffprivlib": (_nothing, diffprivlib_call),
    "sklearn": (_nothing, sklearn_call),
}

if __name__ == "__main__":
    main()
