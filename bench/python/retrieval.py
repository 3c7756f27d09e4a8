"""What privacy adds to a search beside FAISS itself, and to building an index beside reading its rows. Prints JSON.

    pip install 'hushvec[faiss]'
    python bench/python/retrieval.py                               # searches, a few minutes
    python bench/python/retrieval.py --rows 1000000 --only noising --folder /some/disk

Searches: FAISS's IndexFlatIP and every kind of `PrivateIndex` search one and the same array. Each kind takes turns with FAISS alone, in
pairs of either order, and a ratio is the median over pairs. FAISS is called as it is, on queries that are unit rows already;
`PrivateIndex` also checks, normalises, makes noise and writes receipts. Times are of the processor with one thread, so that other
programs count little, and wall-clock with more.

Noising: rows lie in a file. "read" is `np.load` of it with its pages dropped from memory first (posix_fadvise), wall-clock; "noise" is
the release that `PrivateIndex.add` makes of what was read, and "add" is the whole of it, in turns, in processor time with one thread: on
an idle machine that is their wall-clock time, which is given beside it.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

CLAIMS = {
    "searches": "private search adds at most 10 % to FAISS's own latency at 100,000 x 384",
    "noising": "noising 1,000,000 x 384 is not slower than reading it from disk",
}
MOST = 1.10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=384)
    parser.add_argument("--batches", default="1,8,32,128", help="numbers of queries in a search (default 1,8,32,128)")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=tuple(CLAIMS), default="searches")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the file of --only noising lies")
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HUSHVEC_NUM_THREADS"):  # read once, when the libraries load
        os.environ[variable] = str(options.threads)
    results = searches(options) if options.only == "searches" else noising(options)
    json.dump({"machine": machine(options.threads), "claim": CLAIMS[options.only], **results}, sys.stdout, indent=2)
    print()


def machine(threads):
    import numpy

    import hushvec as hv

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "hushvec": hv.__version__,
        "instructions": hv.backends()["active"],
    }


def rows_of(count, columns, seed):
    import numpy as np

    rows = np.random.default_rng(seed).standard_normal((count, columns), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def searches(options):
    import faiss

    documents = rows_of(options.rows, options.columns, 1)
    indexes = {name: built(documents, settings) for name, settings in kinds().items()}
    one = indexes["no noise"]._store
    for index in indexes.values():
        index._store = one  # what rows hold makes no difference to time; where they lie does
    clock = time.process_time if options.threads == 1 else time.perf_counter
    results = {}
    for batch in map(int, options.batches.split(",")):
        queries = rows_of(batch, options.columns, 2)
        rounds = max(options.rounds, 4 * options.rounds // batch)
        results[str(batch)] = {
            name: pairs(
                clock,
                rounds,
                lambda queries=queries: one._index.search(queries, options.k),
                lambda index=index, queries=queries: index.search(queries, options.k),
            )
            for name, index in indexes.items()
        }
    ratios = {f"{name}, {batch}": case["ratio"] for batch, cases in results.items() for name, case in cases.items()}
    above = {case: ratio for case, ratio in ratios.items() if ratio > MOST}
    shape = {"rows": options.rows, "columns": options.columns, "k": options.k, "rounds": options.rounds, "faiss": faiss.__version__}
    return {**shape, "batches": results, "above": above, "verdict": "does not hold" if above else "holds"}


def kinds():
    from hushvec.retrieval import ScoreNoise, VectorNoise

    vectors = VectorNoise(epsilon=16.0)
    return {
        "no noise": {},
        "documents": {"documents": vectors},
        "queries": {"queries": vectors},
        "queries, gaussian": {"queries": VectorNoise(epsilon=16.0, mechanism="gaussian")},
        "scores, laplacian": {"scores": ScoreNoise(epsilon=1.0)},
        "scores, gaussian": {"scores": ScoreNoise(epsilon=1.0, mechanism="gaussian")},
        "scores, gumbel": {"scores": ScoreNoise(epsilon=1.0, mechanism="gumbel")},
        "all three": {"documents": vectors, "queries": vectors, "scores": ScoreNoise(epsilon=1.0)},
    }


def built(documents, settings):
    from hushvec.retrieval import PrivateIndex

    index = PrivateIndex(documents.shape[1], **settings)
    index.add(documents)
    return index


def pairs(clock, rounds, faiss_call, own_call):
    """Times of the two calls, one right after the other, in either order."""
    theirs, ours = [], []
    for number in range(rounds + 1):
        both = [(faiss_call, theirs), (own_call, ours)]
        for call, times in both if number % 2 else both[::-1]:
            start = clock()
            call()
            if number:  # the first pair warms up
                times.append(clock() - start)
    ratios = [own / other for own, other in zip(ours, theirs)]
    return {
        "faiss_ms": round(statistics.median(theirs) * 1e3, 3),
        "ms": round(statistics.median(ours) * 1e3, 3),
        "ratio": round(statistics.median(ratios), 3),
        "quartiles": [round(quartile, 3) for quartile in statistics.quantiles(ratios, n=4)[::2]],
        "ratio_of_fastest": round(min(ours) / min(theirs), 3),
    }


def noising(options):
    import numpy as np

    from hushvec.retrieval import PrivateIndex, VectorNoise

    kinds = {name: VectorNoise(epsilon=16.0, mechanism=name) for name in ("privunit", "gaussian")}
    path = options.folder / f"hushvec-rows-{os.getpid()}.npy"
    times = {name: [] for name in ("read", *(f"noise, {name}" for name in kinds), *(f"add, {name}" for name in kinds))}
    try:
        write_rows(path, options.rows, options.columns)
        for _ in range(options.rounds):
            forget_pages(path)
            rows = None  # the memory of the last round goes first
            read, rows = timed(lambda: np.load(path))
            times["read"].append(read)
            for name, noise in kinds.items():
                index = PrivateIndex(options.columns, documents=noise, store="numpy")
                prepared = index._prepared("vectors", rows, noise)
                times[f"noise, {name}"].append(timed(prepared.release)[0])
                times[f"add, {name}"].append(timed(lambda index=index, rows=rows: index.add(rows))[0])
                del index, prepared
    finally:
        path.unlink(missing_ok=True)
    read = statistics.median(wall for wall, _ in times["read"])
    clock = 1 if options.threads == 1 else 0
    cases = {
        name: {
            "wall_ms": round(statistics.median(one[0] for one in both) * 1e3),
            "processor_ms": round(statistics.median(one[1] for one in both) * 1e3),
            "ratio": round(statistics.median(one[clock] for one in both) / read, 3),
        }
        for name, both in times.items()
        if name != "read"
    }
    size = 4 * options.rows * options.columns
    above = {name: case["ratio"] for name, case in cases.items() if name.startswith("noise") and case["ratio"] > 1}
    shape = {"rows": options.rows, "columns": options.columns, "rounds": options.rounds}
    disk = {"read_ms": round(read * 1e3), "read_gb_s": round(size / read / 1e9, 2)}
    return {**shape, **disk, "cases": cases, "above": above, "verdict": "does not hold" if above else "holds"}


def timed(call):
    """(wall-clock, processor) seconds, and what it returned."""
    wall, processor = time.perf_counter(), time.process_time()
    result = call()
    return (time.perf_counter() - wall, time.process_time() - processor), result


def write_rows(path, count, columns):
    import numpy as np

    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(count, columns))
    for first in range(0, count, 10_000):
        file[first : first + 10_000] = rows_of(min(10_000, count - first), columns, first)
    file.flush()
    del file


def forget_pages(path):
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
