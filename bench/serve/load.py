"""Load on loopback: what the service adds to the model and to the noise, latencies, and its memory over many requests.

    python bench/serve/load.py [--seconds 20] [--requests 100000] [--json OUT]

The model alone and the service take turns in rounds, so that a slower minute of the machine is one for both; the figures are medians
of rounds and the ratio of each round.
"""

import argparse
import contextlib
import http.client
import json
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import httpx
import numpy as np

import hushvec as hv
from hushvec.data import public_sentences
from hushvec.serve.bodies import ARROW, write_vectors

ROUNDS = 5
BATCH = 32
DIMENSION = 768
BODY_BYTES = 32_000_000

POLICY = """
version: 1
store: {store}
models: {{minilm: {{kind: minilm}}}}
tenants:
  load: {{models: [minilm], epsilon: 1.0, budget: {{epsilon: 1.0e+12}}}}
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0, help="of a measurement")
    parser.add_argument("--requests", type=int, default=100_000, help="for the memory")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with service() as (address, process):
        report = {
            "machine": {"processor": processor(), "cores": os.cpu_count(), "instructions": hv.backends()["active"]},
            "embeddings": embeddings(address, options.seconds),
            "arrow": arrow(address, options.seconds),
            "memory": memory(address, process, options.requests),
        }
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


@contextlib.contextmanager
def service():
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        policy = Path(folder, "policy.yaml")
        policy.write_text(POLICY.format(store=Path(folder, "budget.sqlite")))
        command = [sys.executable, "-m", "hushvec", "serve", "--policy", str(policy), "--port", str(port), "--log-level", "error"]
        process = subprocess.Popen(command)
        address = f"http://127.0.0.1:{port}"
        try:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if httpx.get(f"{address}/readyz", timeout=60).status_code == 200:
                        break
                assert process.poll() is None
                time.sleep(0.1)
            yield address, process
        finally:
            process.terminate()
            process.wait()


def embeddings(address, seconds):
    """Texts per second: the model alone in this process, then the service with 1, 2 and 4 clients, in turns."""
    from hushvec.embedders.minilm import MiniLMEmbedder

    model, sentences = MiniLMEmbedder(), public_sentences()
    batches = [sentences[first : first + BATCH] for first in range(0, len(sentences) - BATCH, BATCH)]
    body = [json.dumps({"model": "minilm", "input": batch, "encoding_format": "base64"}) for batch in batches]
    alone, served = [], {1: [], 2: [], 4: []}
    for _ in range(ROUNDS):
        alone.append(BATCH * rate(lambda number, client: model.embed(batches[number % len(batches)]), seconds, 1)[0])
        for clients, found in served.items():
            post = lambda number, client: client.post("/v1/embeddings", body[number % len(body)])
            per_second, times = rate(post, seconds, clients, address)
            found.append((BATCH * per_second, times))
    return {
        "batch": BATCH,
        "model_alone_texts_per_s": statistics.median(alone),
        **{
            f"{clients}_clients": {
                "texts_per_s": statistics.median(one for one, _ in found),
                "ratio_to_model": statistics.median(one / other for (one, _), other in zip(found, alone)),
                **percentiles([time for _, times in found for time in times]),
            }
            for clients, found in served.items()
        },
    }


def arrow(address, seconds):
    """Megabytes of float32 rows per second through /v1/privatize with privunit, in one direction; the kernel alone beside it."""
    rows = np.random.default_rng(0).standard_normal((BODY_BYTES // (4 * DIMENSION), DIMENSION), np.float32)
    body = write_vectors(rows, {})
    alone, served = [], {1: [], 2: []}
    for _ in range(ROUNDS):
        kernel = lambda number, client: hv.privatize(rows, epsilon=1.0, mechanism="privunit")
        alone.append(rate(kernel, seconds / 2, 1)[0] * rows.nbytes / 1e6)
        for clients, found in served.items():
            post = lambda number, client: client.post("/v1/privatize", body, ARROW)
            per_second, times = rate(post, seconds / 2, clients, address)
            found.append((per_second * rows.nbytes / 1e6, times))
    return {
        "body_mb": len(body) / 1e6,
        "dimension": DIMENSION,
        "privatize_alone_mb_per_s": statistics.median(alone),
        **{
            f"{clients}_clients": {"mb_per_s": statistics.median(one for one, _ in found), **percentiles([t for _, times in found for t in times])}
            for clients, found in served.items()
        },
    }


def memory(address, process, requests):
    """Resident megabytes of the service over many small requests."""
    seen = []
    body = json.dumps({"vectors": [[1.0, 0.5, 0.25, 0.0]] * 4})
    times = []
    client = Connection(address)
    for number in range(requests):
        if number % max(1, requests // 20) == 0:
            seen.append(resident_mb(process.pid))
        began = time.perf_counter()
        client.post("/v1/privatize", body)
        times.append(time.perf_counter() - began)
    seen.append(resident_mb(process.pid))
    return {"requests": requests, "resident_mb": seen, **percentiles(times)}


def rate(call, seconds, clients, address=None):
    """Calls per second by so many threads, each with a connection if there is an address, and the seconds of each."""
    times, lock = [], threading.Lock()
    until = time.perf_counter() + seconds

    def work(number):
        own = []
        client = None if address is None else Connection(address)
        while time.perf_counter() < until:
            began = time.perf_counter()
            call(number, client)
            own.append(time.perf_counter() - began)
            number += clients
        with lock:
            times.extend(own)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(times) / (time.perf_counter() - began), times


class Connection:
    """One connection that is kept; the standard library's client, which takes little time itself."""

    def __init__(self, address):
        self._connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=120)

    def post(self, path, body, media_type="application/json"):
        self._connection.request("POST", path, body, {"Content-Type": media_type})
        answer = self._connection.getresponse()
        found = bytearray(int(answer.headers["Content-Length"]))
        answer.readinto(found)
        assert answer.status == 200, found[:200]
        return found


def percentiles(times):
    found = np.percentile(times, [50, 99]) * 1e3
    return {"p50_ms": round(float(found[0]), 2), "p99_ms": round(float(found[1]), 2)}


def resident_mb(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 1e6, 1)


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
