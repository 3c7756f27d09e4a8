"""Writes the measured tables of README.md and docs, and the figure of the threads, from bench/results.

    python bench/python/figures.py            # writes them
    python bench/python/figures.py --check    # writes nothing; exit code 1 names what differs

A table stands between two comments, `figures: NAME` and `end of figures`; the names are those of `BLOCKS`.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Sequence

import thread_chart

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench/results"
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


@dataclass(frozen=True)
class Machine:
    """One machine of the tables.

    Attributes:
        name: in the tables.
        file: of its run, in bench/results.
        about: what a reader must know of it beside what the file says.
        date: of a run whose file has none.
    """

    name: str
    file: str
    about: str
    date: str = ""

    def record(self) -> dict[str, Any]:
        return json.loads((RESULTS / self.file).read_text(encoding="utf-8"))


AMD = Machine("AMD Zen 4", "amd-epyc-2-cores.json", "AVX-512 with VAES")
INTEL = Machine(
    "Intel SPR", "intel-xeon-2-cores.json",
    "Sapphire Rapids class, AVX-512; an old run, from before AES-256, so that every row of hushvec is ChaCha", "2026-11-21",
)
MACHINES = (AMD, INTEL)
THREADS = "threads-amd-epyc-2-cores.json"
CHART = RESULTS / "threads-amd-epyc-2-cores.svg"

# What the tables show, by the contestant's name today and, where it had another, in older files.
MKL = "MKL ARS5 (five AES rounds), inverse CDF"
FILL_ROWS = {
    "hushvec aes256": "hushvec, AES-256",
    "hushvec chacha20": "hushvec, ChaCha20",
    "hushvec 20 rounds": "hushvec, ChaCha20",
    "memcpy (no noise)": "memcpy, no noise",
    "MKL ARS5 (five AES rounds), inverse CDF": MKL,
    "MKL ARS5, inverse CDF": MKL,
    "OpenSSL AES-256-CTR + numpy maths": "OpenSSL AES-256-CTR + numpy Box-Muller",
    "AES-256-CTR + numpy maths": "OpenSSL AES-256-CTR + numpy Box-Muller",
    "torch in place": "torch in place",
    "numpy SFC64": "numpy SFC64",
    "OpenDP": "OpenDP",
}
CLIP_ROWS = {
    "hushvec exact aes256": "hushvec **exact**, AES-256",
    "hushvec exact chacha20": "hushvec **exact**, ChaCha20",
    "hushvec exact 20 rounds": "hushvec **exact**, ChaCha20",
    "hushvec noise_batch": "hushvec `noise_batch`, a key for each row",
    "memcpy (no noise)": "memcpy, no noise",
    "numpy blocks + MKL ARS5": "numpy blocks + MKL",
    "numpy blocks + AES-256-CTR": "numpy blocks + OpenSSL AES-256-CTR",
    "torch in place": "torch in place",
}
MEMCPY = "memcpy (no noise)"


def ns_per_item(contestant: dict[str, Any]) -> list[float]:
    calls, items = contestant["calls_per_turn"], contestant["items_per_call"]
    return [turn / (calls * items) for turn in contestant["turns_ns"]]


def ratio(above: dict[str, Any], below: dict[str, Any]) -> float:
    """Median over the rounds, as in `rounds.Outcome.ratio`."""
    return statistics.median(a / b for a, b in zip(ns_per_item(above), ns_per_item(below)))


def ns_text(ns: float) -> str:
    return f"{ns:,.0f}" if ns >= 100 else f"{ns:.1f}" if ns >= 9.95 else f"{ns:.2f}"


def ratio_text(value: float) -> str:
    """Two digits."""
    return f"{float(f'{value:.1e}'):,.0f}" if value >= 9.95 else f"{value:.2f}" if value < 0.995 else f"{value:.1f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)) + "\n"


def _secure(name: str, contestant: dict[str, Any]) -> tuple[str, str]:
    if name == MEMCPY:
        return "", ""
    return "yes" if contestant["secure_key_stream"] else "no", "yes" if contestant["exact"] else ""


def workload_table(title: str, workload: str, rows: dict[str, str]) -> str:
    """A table for each machine, fastest first; times relative to hushvec's first row on that machine and to memcpy."""
    tables = []
    for machine in MACHINES:
        record = machine.record()["workloads"].get(workload)
        if record is None:
            continue
        found = record["contestants"]
        reference = next(name for name in rows if name in found)
        shown = sorted((name for name in rows if name in found), key=lambda name: statistics.median(ns_per_item(found[name])))
        lines = [[rows[name], *_secure(name, one), ns_text(statistics.median(ns_per_item(one))),
                  ratio_text(ratio(one, found[reference])), ratio_text(ratio(one, found[MEMCPY]))]
                 for name, one in ((name, found[name]) for name in shown)]
        tables.append(markdown([f"{title}, {machine.name}", "secure key stream", "exact", "ns", "/ hushvec", "/ memcpy"], lines))
    return "\n".join(tables)


def _machine_line(machine: Machine) -> str:
    record = machine.record()
    busy = [name for name, workload in record["workloads"].items() if workload["busy_machine"]]
    caches = ", ".join(f"{level} {size}" for level, size in record["machine"]["caches"].items())
    marked = f"marked busy (spreads above 5 %): {', '.join(f'`{name}`' for name in busy)}" if busy else "no table was marked busy"
    return (f"- {machine.name}: {record['machine']['cpu']}, {record['machine']['cores']} cores, {caches}; {machine.about}; "
            f"{record.get('date', machine.date)}, `bench/results/{machine.file}`; {marked}.")


def machines() -> str:
    return "\n".join(_machine_line(machine) for machine in MACHINES) + "\n"


def claims() -> str:
    """The claims about AES-256, their bounds by generation of CPUs, and what each run says that has them."""
    judged = {}
    for machine in MACHINES:
        found = {claim["text"]: claim for claim in machine.record()["claims"] if "aes256" in claim["text"]}
        if found:
            judged[machine.name] = found
    listed = next(iter(judged.values())).values()
    generations = list(dict.fromkeys(name for claim in listed for name in claim["bounds"]))
    lines = []
    for claim in listed:
        sign = "<=" if claim["at_most"] else ">="
        line = [claim["text"], *(f"{sign} {claim['bounds'][name]:g}" if name in claim["bounds"] else "" for name in generations)]
        for found in judged.values():
            own = found[claim["text"]]
            line += ["-" if own["measured"] is None else f"{own['measured']:.2f}", own["verdict"]]
        lines.append(line)
    return markdown(["claim", *generations, *(cell for name in judged for cell in (f"measured on {name}", ""))], lines)


def speed() -> str:
    """For the README, in words: the fused pass beside two others, and where the targets are."""
    contestants = AMD.record()["workloads"]["clip_and_noise"]["contestants"]
    ours = contestants["hushvec exact aes256"]
    ns = ns_text(statistics.median(ns_per_item(ours)))
    mkl, torch = (f"{ratio(contestants[name], ours):.1f}" for name in ("numpy blocks + MKL ARS5", "torch in place"))
    return (f"Exact clip-and-noise takes {ns} ns per element on this processor. numpy with MKL takes {mkl} times as long\n"
            f"and torch in place {torch} times, both with a generator that is not secure.\n"
            "[Performance](docs/performance.md) has all rows, and the speed targets that are met and missed.\n")


def _record(file: str) -> dict[str, Any]:
    return json.loads((RESULTS / file).read_text(encoding="utf-8"))


def _threads_record() -> dict[str, Any]:
    return _record(THREADS)


def threads() -> str:
    record = _threads_record()
    lines = []
    for operation in record["operations"].values():
        model = operation["model"]
        for count, ns in operation["ns"].items():
            copy = operation["copy_ns"][count]
            lines.append([operation["title"], count, f"{ns:.2f}", f"{operation['speed_up'][count]:.2f}", f"{model['ns'][count]:.2f}",
                          f"{copy:.2f}"])
    header = ["AMD Zen 4", "threads", "ns per element", "speed-up", "model", "copy"]
    limits = [
        f"- {operation['title']}: {operation['compute_ns']:.2f} ns in cache on one thread, so memory takes over at "
        f"{operation['model']['memory_takes_over_at']:.1f} threads."
        for operation in record["operations"].values()
    ]
    spread = max(value for operation in record["operations"].values() for value in operation["spread"].values())
    return markdown(header, lines) + "\n" + "\n".join([*limits, f"- Spread of the rounds: at most {100 * spread:.0f} %."]) + "\n"


AGGREGATES = "aggregates-amd-epyc-avx2-2-cores.json"
AGGREGATE_TITLES = {
    "mean": "mean: error / length of the mean",
    "components": "32 components: variance, of the best",
    "classifier": "classifier of 10: accuracy",
}


def _aggregates_record() -> dict[str, Any]:
    return _record(AGGREGATES)


def _about(record: dict[str, Any], file: str) -> str:
    """A line about the machine, the day and the versions of the other libraries."""
    machine = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if name != "hushvec")
    instructions = " and ".join(flag.upper() for flag in machine["flags"] if flag.startswith("avx"))
    return (f"{machine['cpu']}, {machine['cores']} cores, {instructions}; {record['date']}, `bench/results/{file}`; "
            f"load average {machine['load_average']:.1f}; {versions}.\n")


def _seconds_text(seconds: float) -> str:
    return f"{1000 * seconds:.2g} ms" if seconds < 0.0995 else f"{seconds:.2f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def _aggregate_cells(one: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Error, time, and time beside the first row's."""
    if one["error"] is None:
        return ["", one["not_run"], ""]
    median = statistics.median
    error = f"{one['error']:.2g}" if one["case"] == "mean" else f"{one['error']:.3f}"
    return [error, _seconds_text(median(one["seconds"])), ratio_text(median(one["seconds"]) / median(ours["seconds"]))]


def aggregates() -> str:
    """A table for each of mean, components and classifier, and sums beside a plain read."""
    record = _aggregates_record()
    sizes = list(dict.fromkeys(one["rows"] for one in record["results"]))
    tables = []
    for case, title in AGGREGATE_TITLES.items():
        by_name: dict[str, list[dict[str, Any]]] = {}
        for one in record["results"]:
            if one["case"] == case:
                by_name.setdefault(one["name"], []).append(one)
        ours = next(iter(by_name.values()))
        lines = [[name, own[0]["guarantee"], *(cell for one, first in zip(own, ours) for cell in _aggregate_cells(one, first))]
                 for name, own in by_name.items()]
        header = [title, "guarantee", *(cell for size in sizes for cell in (f"{size:,} rows", "time", "/ first row"))]
        tables.append(markdown(header, lines))
    lines = [[f"{int(size):,} x {record['columns']}", threads, _seconds_text(one["seconds"]["read"]),
              *(ratio_text(one["ratios"][name]) for name in ("private_mean", "private_sums"))]
             for size, by_threads in record["reads"].items() for threads, one in by_threads.items()]
    tables.append(markdown(["rows", "threads", "plain read", "`private_mean` / read", "`private_sums` of 10 classes / read"], lines))
    return "\n".join([*tables, _about(record, AGGREGATES)])


DISCRETE = "discrete-amd-epyc-avx2-2-cores.json"


def discrete() -> str:
    """Times of a sample by sigma, beside hushvec's int64, and how each stands beside the exact pass."""
    record = _record(DISCRETE)
    sigmas = [claim["sigma"] for claim in record["claims"]]
    ours = {one["sigma"]: one for one in reversed(record["results"])}
    by_name: dict[str, list[dict[str, Any]]] = {}
    for one in record["results"]:
        by_name.setdefault(one["name"], []).append(one)
    lines = []
    for name, own in by_name.items():
        cells = [name, *("yes" if own[0][what] else "no" for what in ("secure", "exact"))]
        for one in own:
            if reason := one["not_run"] or one["complaint"]:
                cells += [reason, ""]
                continue
            median = statistics.median(one["ns"])
            times = statistics.median(a / b for a, b in zip(one["ns"], ours[one["sigma"]]["ns"]))
            cells += [f"{float(f'{median:.1e}'):,.0f}" if median >= 1e6 else ns_text(median), ratio_text(times)]
        lines.append(cells)
    header = ["discrete Gaussian", "secure key stream", "exact law"]
    header += [cell for sigma in sigmas for cell in (f"sigma {sigma:,.0f}, ns", "/ first row")]
    judged = ", ".join(f"{claim['measured']:.2f} at sigma {claim['sigma']:,.0f} ({claim['verdict']})" for claim in record["claims"])
    bound = f"int64 against the exact pass, at most {record['claims'][0]['at_most']}: {judged}.\n"
    return "\n".join([markdown(header, lines), bound, _about(record, DISCRETE)])


FEDERATED = {part: f"federated-{part}-amd-epyc-avx2-2-cores.json" for part in ("speed", "audit")}


def federated() -> str:
    """For each contestant the claim, what the audit shows of it, time and cosine."""
    records = {part: _record(file) for part, file in FEDERATED.items()}
    audits = {one["name"]: one for one in records["audit"]["audit"]}
    sizes = list(dict.fromkeys(one["parameters"] for one in records["speed"]["speed"]))
    by_name: dict[str, list[dict[str, Any]]] = {}
    for one in records["speed"]["speed"]:
        by_name.setdefault(one["name"], []).append(one)
    few = records["audit"]["parameters"]
    lines = []
    for name, own in by_name.items():
        audit = audits.get(name)
        claims = {one["claimed"][0]: one["parameters"] for one in reversed(own) if one["claimed"]}
        if audit and not audit["not_run"]:
            claims = {audit["claimed"][0]: str(few), **claims}
        claimed = ", ".join(f"{epsilon:,.6g}" + f" of {size}" * (len(claims) > 1) for epsilon, size in claims.items())
        cells = [name, claimed, *_audit_cells(audit)]
        for one in own:
            cells += [one["not_run"], ""] if one["not_run"] else [_seconds_text(statistics.median(one["seconds"])), f"{one['cosine']:.4f}"]
        lines.append(cells)
    header = ["one client's update", "claimed epsilon", "audit: at least", "refuted", "epsilon of its noise"]
    table = markdown(header + [cell for size in sizes for cell in (f"{size} parameters", "cosine")], lines)
    groups: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for one in audits.values():
        if not one["not_run"]:
            groups.setdefault(tuple(one["releases"]), []).append(one)
    seen = [f"Audited with {rows:,} releases of the one and {others:,} of the other update: {', '.join(one['name'] for one in group)};\n"
            f"this sample size cannot show more than {max(one['epsilon_ceiling'] for one in group):.1f}.\n"
            for (rows, others), group in groups.items()]
    return "\n".join([table, *seen, *(_about(record, FEDERATED[part]) for part, record in records.items())])


def _audit_cells(audit: dict[str, Any] | None) -> list[str]:
    if audit is None or audit["not_run"]:
        return ["", audit["not_run"] if audit else "", ""]
    noise = audit["noise_epsilon"]
    text = "" if noise is None else f"{noise:.1f}" if noise < 1000 else f"{float(f'{noise:.1e}'):,.0f}"
    return [f"{audit['epsilon_lower']:.1f}", "**yes**" if audit["refuted"] else "no", text]


GPU = "nvidia-h100-80gb-hbm3.json"
# What is shown of a GPU: the name in the table, that of the timing, and its peers.
_CLIP = "exact clip and noise, {}, d = 768, {} rounds"
_TORCH = ("torch eager", "torch in place", "torch.compile")
GPU_ROWS = [
    *((f"exact clip and noise, {dtype}, {rounds} rounds{how}", _CLIP.format(dtype, rounds) + how, [f"{peer}, {dtype}, d = 768" for peer in _TORCH])
      for dtype, rounds, how in (("float32", 20, ""), ("float32", 12, ""), ("float32", 12, ", graph replay"), ("float32", 8, ""),
                                 ("bfloat16", 20, ""), ("bfloat16", 12, ""))),
    *((f"Gaussian fill, float32, {rounds} rounds", f"gaussian fill, float32, {rounds} rounds", ["torch.randn, float32"])
      for rounds in (20, 12, 8)),
    *((f"PrivUnitG, float32, {rounds} rounds", f"PrivUnitG, float32, d = 768, {rounds} rounds", []) for rounds in (20, 12)),
    ("clip, sum and noise, [256, 4M] float32, which is read twice", "clip, sum and noise, float32, 12 rounds", []),
]  # fmt: skip


def _gpu_record() -> dict[str, Any]:
    return _record(GPU)


def gpu() -> str:
    """Rates of the device by the bytes that are read and written once, and how many times as long the peers take."""
    record = _gpu_record()
    timings = record["timings"]

    def rate(name: str) -> float:
        return timings[name]["bytes"] / timings[name]["median_ms"] / 1e6

    lines = []
    for title, name, peers in GPU_ROWS:
        ceiling = timings[name]["ceiling"]
        times = [ratio_text(timings[peer]["median_ms"] / timings[name]["median_ms"]) for peer in peers]
        beside = ", ".join(f"{peer.split(', ')[0]} {times_}" for peer, times_ in zip(peers, times))
        lines.append([title, f"{rate(name):,.0f}", f"{100 * rate(name) / rate(ceiling):.0f} % of the {ceiling}", beside])
    machine, checks = record["machine"], record["checks"]
    passed = ", ".join(f"`{name}`" for name, check in checks.items() if check["passed"])
    about = (f"{machine['device']}; CUDA {machine['cuda']}, torch {machine['torch']}; arrays of 2 GiB, d = 768;\n{record['date']}, "
             f"`bench/results/{GPU}`. Passed there:\n{passed} ([what they are](../bench/cuda/README.md)).")
    return markdown(["on the GPU, called from Python", "GB/s", "share", "peers take, times as long"], lines) + "\n" + about + "\n"


def gpu_speed() -> str:
    """For the README, in a sentence."""
    record = _gpu_record()
    timings, ours = record["timings"], _CLIP.format("float32", 20)
    share = timings["device copy"]["median_ms"] / timings[ours]["median_ms"]
    times = timings["torch.compile, float32, d = 768"]["median_ms"] / timings[ours]["median_ms"]
    return (f"On an NVIDIA H100 the same pass, with the default cipher, runs at {100 * share:.0f} % of the speed of a device copy; `torch.compile` takes\n"
            f"{times:.1f} times as long, with noise that is neither secure nor exact.\n")


BLOCKS: dict[str, Callable[[], str]] = {
    "gaussian_fill": lambda: workload_table("Gaussian fill, 2^24", "gaussian_fill", FILL_ROWS),
    "clip_and_noise": lambda: workload_table("Clip and noise, 10,000 x 768", "clip_and_noise", CLIP_ROWS),
    "aggregates": aggregates,
    "discrete": discrete,
    "federated": federated,
    "gpu": gpu,
    "gpu_speed": gpu_speed,
    "machines": machines,
    "claims": claims,
    "speed": speed,
    "threads": threads,
}


def with_figures(text: str) -> str:
    """`text` with every block as the results have it.

    Raises:
        ValueError: a block that `BLOCKS` does not have.
    """

    def written(match: re.Match[str]) -> str:
        if match[2] not in BLOCKS:
            raise ValueError(f"figures must be one of {', '.join(BLOCKS)}, got {match[2]!r}")
        return match[1] + BLOCKS[match[2]]() + match[3]

    return BLOCK.sub(written, text)


def published() -> dict[Path, str]:
    """What the files should hold."""
    pages = (ROOT / "README.md", ROOT / "docs/performance.md", ROOT / "docs/federated_measured.md")
    return {**{page: with_figures(page.read_text(encoding="utf-8")) for page in pages}, CHART: thread_chart.svg(_threads_record())}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file differs from the results")
    check = parser.parse_args(arguments).check
    differing = [(path, text) for path, text in published().items()
                 if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path, text in differing:
        if check:
            print(f"{path.relative_to(ROOT)} differs from bench/results: run bench/python/figures.py", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
