"""What a job's rows cost beside a plain call on the same arrays. Prints JSON.

    python bench/python/jobs.py
    python bench/python/jobs.py --rows 1000000 --threads 1,2

`clip_and_noise` is one call with one key stream. `noise_batch` keys every row by its place and bytes, for each cipher; with numbers
or texts as ids it also makes the places from them; `arrow` is a table with an id column in, the same out. Those draw from the
default cipher. Seconds are the best of several rounds, every round times everything once.
"""

import argparse
import functools
import json
import os
import platform
import time

import numpy as np

import hushvec as hv
from hushvec.jobs import NoiseJob, noise_batch

ROUNDS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--threads", default="1", help="numbers of threads, separated by commas (default 1)")
    options = parser.parse_args()
    threads = [int(count) for count in options.threads.split(",")]
    results = {f"{count} threads": measure(options.rows, options.dimension, count) for count in threads}
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "backend": hv.backends()["active"], "aes": hv.backends()["aes"]["active"]}
    print(json.dumps({"machine": machine, "rows": options.rows, "dimension": options.dimension, "seconds": results}, indent=2))


def measure(rows, dimension, threads):
    hv.set_num_threads(threads)
    vectors = np.random.default_rng(0).standard_normal((rows, dimension), dtype=np.float32)
    job = NoiseJob.start(dimension=dimension, epsilon=8.0, rows_by="integer-ids")
    by_texts = NoiseJob.start(dimension=dimension, epsilon=8.0, rows_by="text-ids")
    sigma = job.mechanism.noise_parameter
    numbers = np.arange(rows)
    texts = [f"document-{number}" for number in numbers]
    cases = {
        "clip_and_noise": lambda: hv.clip_and_noise(vectors, 1.0, sigma),
        "noise_batch, numbers": lambda: noise_batch(vectors, job, ids=numbers),
        "noise_batch, texts": lambda: noise_batch(vectors, by_texts, ids=texts),
    }
    for law in ("gaussian", "laplacian", "privunit"):
        for cipher in ("aes256", "chacha20"):
            one = NoiseJob.start(dimension=dimension, epsilon=8.0, mechanism=law, cipher=cipher)
            cases[f"noise_batch, {law}, {cipher}"] = functools.partial(noise_batch, vectors, one)
    if table := arrow_table(vectors, numbers):
        cases["noise_batch, arrow"] = lambda: noise_batch(table, job, id_column="id")
    seconds = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            start = time.perf_counter()
            case()
            seconds[name].append(time.perf_counter() - start)
    return {name: round(min(times), 4) for name, times in seconds.items()}


def arrow_table(vectors, ids):
    try:
        import pyarrow
    except ImportError:
        return None
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
    return pyarrow.table({"id": ids, "embedding": lists})


if __name__ == "__main__":
    main()
