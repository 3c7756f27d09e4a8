"""Private collection, measured: how near the errors come to theory, how many of the most frequent words are found, how fast it is.

    python bench/python/collect.py speed --threads 1         # reports drawn and counted a second
    python bench/python/collect.py accuracy                  # 1,000,000 reports over 10,000 Zipf words, every mechanism, several epsilons
    python bench/python/collect.py rappor                    # 1,000,000 reports of 200 words through a Bloom filter
    python bench/python/collect.py decode                    # seconds to decode a Bloom filter's sketch
    python bench/python/collect.py peer                      # the same sums by pure-ldp, where it is installed

Prints JSON. Rates are the best of several rounds; a shared machine only ever takes time away.
"""

import argparse
import json
import math
import os
import platform
import time

import numpy as np

import hushvec as hv
from hushvec.collect import BloomFilter, Vocabulary

WORDS, PEOPLE = 10_000, 1_000_000
MECHANISMS = ("k_rr", "unary", "hadamard")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 6.0)
AT_ONCE = 50_000
ROUNDS = 15


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "accuracy", "rappor", "decode", "peer"))
    parser.add_argument("--threads", type=int, default=1, help="threads of the core (default 1)")
    parser.add_argument("--epsilon", type=float, action="append", help="for accuracy; may be given several times")
    options = parser.parse_args()
    hv.set_num_threads(options.threads)
    parts = {
        "speed": speed,
        "accuracy": lambda: accuracy(options.epsilon or EPSILONS),
        "rappor": rappor,
        "decode": decoding,
        "peer": peer,
    }
    print(json.dumps({"machine": machine(options.threads), options.part: parts[options.part]()}, indent=2))


def machine(threads):
    with open("/proc/cpuinfo", encoding="ascii") as info:
        model = next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
    return {"processor": model, "cores": os.cpu_count(), "threads": threads, "backend": hv.backends()["active"],
            "python": platform.python_version(), "numpy": np.__version__}  # fmt: skip


def zipf_counts(words, people):
    """How many people have each word; the shares fall as 1 / rank."""
    shares = 1 / np.arange(1, words + 1)
    return np.random.default_rng(0).multinomial(people, shares / shares.sum())


def vocabulary(epsilon, mechanism):
    return Vocabulary([f"word{i}" for i in range(WORDS)], epsilon, mechanism=mechanism)


# ---- speed ----


def speed():
    rows = {}
    for mechanism in MECHANISMS:
        ours = vocabulary(1.0, mechanism)
        count = 400_000 if mechanism == "unary" else 10_000_000
        codes = np.random.default_rng(1).integers(0, WORDS, 20_000 if mechanism == "unary" else 1_000_000)
        drawn = ours.oracle.draw(codes, hv.Generator())
        reports = np.concatenate([drawn] * (count // len(drawn)))  # far beyond the caches, as what arrives is
        rows[mechanism] = rates(
            report_bytes=ours.report_bytes,
            draw=(len(codes), lambda ours=ours, codes=codes: ours.oracle.draw(codes, hv.Generator())),
            add=(count, lambda ours=ours, reports=reports: ours.sketch().add(reports)),
        )
        del reports
    filter_ = BloomFilter(128, 2, epsilon=4.0)
    some = filter_.report([f"word{i % 200}" for i in range(200_000)])
    reports = tuple(np.concatenate([field] * 20) for field in some)
    rows["bloom, 128 bits, 64 cohorts"] = rates(
        report_bytes=filter_.report_bytes,
        draw=(200_000, lambda: filter_.report([f"word{i % 200}" for i in range(200_000)])),
        add=(len(reports[0]), lambda: filter_.sketch().add(reports)),
    )
    rows["one read of 1 GiB, GB/s"] = round(read_rate() / 1e9, 2)
    return rows


def rates(report_bytes, draw, add):
    drawn, added = best_rate(*draw), best_rate(*add)
    return {
        "bytes a report": report_bytes,
        "drawn a second": int(drawn),
        "counted a second": int(added),
        "counted GB/s": round(added * report_bytes / 1e9, 2),
    }


def best_rate(count, call):
    best = math.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return count / best


def read_rate():
    """What the memory gives to one thread: numpy's sum of 64-bit words, which does nothing else."""
    words = np.ones(1 << 27, np.int64)
    return best_rate(words.nbytes, words.sum)


# ---- accuracy ----


def accuracy(epsilons):
    counts = zipf_counts(WORDS, PEOPLE)
    largest = {f"word{i}" for i in np.argsort(-counts, kind="stable")[:100]}
    rows = []
    for epsilon in epsilons:
        for mechanism in MECHANISMS:
            ours = vocabulary(epsilon, mechanism)
            estimate = surveyed(ours, counts).estimate()
            error = math.sqrt(((estimate.frequencies - counts / PEOPLE) ** 2).mean())
            theory = ours.root_mean_square_error(PEOPLE)
            found = {word for word, _, _ in estimate.top(100)} & largest
            rows.append({
                "epsilon": epsilon, "true epsilon": ours.true_epsilon, "mechanism": mechanism,
                "auto": vocabulary(epsilon, "auto").mechanism == mechanism, "bytes": ours.report_bytes,
                "rms error": error, "theory": theory, "ratio": round(error / theory, 4), "top-100 recall": len(found) / 100,
                "present (holm, 0.05)": len(estimate.present()),
            })  # fmt: skip
    return rows


def surveyed(ours, counts):
    """Everybody's report, in parts: a million unary reports over 10,000 words are 1.25 GB."""
    sketch, generator = ours.sketch(), hv.Generator.unsafe_seeded(20)
    codes = np.repeat(np.arange(WORDS), counts)
    for first in range(0, PEOPLE, AT_ONCE):
        sketch.add(ours.oracle.draw(codes[first : first + AT_ONCE], generator))
    return sketch


def rappor():
    counts = zipf_counts(200, PEOPLE)
    words = np.repeat([f"word{i}" for i in range(200)], counts).tolist()
    rows = []
    for epsilon in (2.0, 4.0, 8.0):
        filter_ = BloomFilter(128, 2, epsilon=epsilon, p=0.25, q=0.75)
        sketch, generator = filter_.sketch(), hv.Generator.unsafe_seeded(21)
        for first in range(0, PEOPLE, 100_000):
            sketch.add(filter_.report(words[first : first + 100_000], generator=generator))
        estimate = sketch.decode([f"word{i}" for i in range(200)] + [f"absent{i}" for i in range(200)])
        errors = estimate.frequencies - np.concatenate((counts / PEOPLE, np.zeros(200)))
        present = set(estimate.present())
        top = {word for word, _, _ in estimate.top(10)}
        rows.append({
            "epsilon": epsilon, "epsilon of one report": filter_.report_epsilon, "f": filter_.f,
            "rms error": math.sqrt((errors**2).mean()), "stated": math.sqrt((estimate.standard_errors**2).mean()),
            "present (holm, 0.05)": len(present), "false present": sum(word.startswith("absent") for word in present),
            "top-10 recall": len(top & {f"word{i}" for i in np.argsort(-counts)[:10]}) / 10, "unknown": estimate.unknown,
        })  # fmt: skip
    return rows


def decoding():
    """100,000 reports over 200 Zipf words, candidates of which the first 200 are those."""
    counts = zipf_counts(200, 100_000)
    words = np.repeat([f"word{i}" for i in range(200)], counts).tolist()
    rows = []
    for bits, candidates, method in (
        (128, 400, "least_squares"), (128, 1_000, "least_squares"), (1_024, 1_000, "least_squares"), (256, 3_000, "least_squares"),
        (128, 3_000, "lasso"),
    ):
        filter_ = BloomFilter(bits, 2, epsilon=6.0, p=0.25, q=0.75)
        sketch = filter_.sketch()
        sketch.add(filter_.report(words, generator=hv.Generator.unsafe_seeded(21)))
        listed = [f"word{i}" for i in range(candidates)]
        start = time.perf_counter()
        sketch.decode(listed, method=method)
        rows.append({"bits": bits, "candidates": candidates, "method": method, "seconds": time.perf_counter() - start})
    return rows


# ---- a peer ----


def peer():
    """pure-ldp's optimised unary encoding and Hadamard response on fewer people: its clients and servers are loops in Python."""
    from pure_ldp.frequency_oracles import HadamardResponseClient, HadamardResponseServer, UEClient, UEServer

    epsilon, people = 1.0, 2000
    codes = np.repeat(np.arange(WORDS), zipf_counts(WORDS, PEOPLE) // (PEOPLE // people))
    rows = {}
    server = HadamardResponseServer(epsilon, WORDS)
    for name, client, sums in (
        ("unary", UEClient(epsilon, WORDS, use_oue=True), UEServer(epsilon, WORDS, use_oue=True)),
        ("hadamard", HadamardResponseClient(epsilon, WORDS, server.get_hash_funcs()), server),
    ):
        start = time.perf_counter()
        reports = [client.privatise(int(code) + 1) for code in codes]
        drawn = time.perf_counter()
        for report in reports:
            sums.aggregate(report)
        added = time.perf_counter()
        rows[name] = {
            "drawn a second": int(len(codes) / (drawn - start)),
            "counted a second": int(len(codes) / (added - drawn)),
        }
    return rows


if __name__ == "__main__":
    main()
