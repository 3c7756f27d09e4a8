"""What stays of keys and values in ordinary memory after a conversation, and what locked memory costs.

    python bench/python/secure_memory.py left     a small transformer generates, its cache is dropped or scrubbed, its memory is searched
    python bench/python/secure_memory.py cost     a step of generation, beside DynamicCache and an ordinary copy

`left` runs each case in a process of its own and searches it from outside (/proc/PID/mem), for the first 48 bytes of every key and value
that was in the cache. Each case also runs after overwrite_freed_memory().
"""

import argparse
import json
import os
import subprocess
import sys
import time

ROW_BYTES = 48
PROMPT, NEW = 64, 16


def make_model(layers=4, width=256):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(n_layer=layers, n_head=4, n_embd=width, vocab_size=1000, bos_token_id=0, eos_token_id=None)).eval()


# ---- left ----


def converse(kind, overwrite):
    """The child: generates, says where its cache lies, forgets it when told, waits."""
    import gc

    import torch
    from transformers import DynamicCache

    from hushvec.secure_memory import SecureCache, overwrite_freed_memory

    torch.set_num_threads(1)
    if overwrite:
        overwrite_freed_memory()
    model = make_model()
    prompt = torch.randint(1, 1000, (1, PROMPT), generator=torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "little")))
    cache = DynamicCache(config=model.config) if kind == "dynamic" else SecureCache(model.config, capacity=128)
    model.generate(prompt, max_new_tokens=NEW, do_sample=False, past_key_values=cache)
    places = {"prompt": [], "generated": []}
    for layer in cache.layers:
        for states in (layer.keys, layer.values):
            step = states.stride(1) * states.element_size(), states.stride(2) * states.element_size()
            for head in range(states.shape[1]):
                for position in range(states.shape[2]):
                    which = "prompt" if position < PROMPT else "generated"
                    places[which].append(states.data_ptr() + head * step[0] + position * step[1])
    print(json.dumps(places), flush=True)
    del states, layer
    sys.stdin.readline()
    if kind == "secure":
        cache.scrub()
    del cache
    gc.collect()
    print("forgotten", flush=True)
    sys.stdin.readline()


def rows_at(pid, places):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return {os.pread(memory.fileno(), ROW_BYTES, place) for place in places}


def rows_found(pid, rows):
    """Those that lie somewhere at a multiple of 8 bytes, where every tensor's rows begin."""
    import numpy as np

    firsts = np.array(sorted({int.from_bytes(row[:8], "little") for row in rows}), np.uint64)
    found = set()
    with open(f"/proc/{pid}/maps") as lines:
        extents = [line.split()[:2] for line in lines if "[v" not in line]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for extent, access in extents:
            if access[:2] != "rw":
                continue
            begin, end = (int(part, 16) for part in extent.split("-"))
            for at in range(begin, end, 1 << 24):
                try:
                    window = os.pread(memory.fileno(), min((1 << 24) + ROW_BYTES, end - at), at)
                except OSError:
                    break
                words = np.frombuffer(window, np.uint64, len(window) // 8)
                for place in np.flatnonzero(np.isin(words, firsts)):
                    row = window[place * 8 : place * 8 + ROW_BYTES]
                    if row in rows:
                        found.add(row)
    return len(found)


def left(kind, overwrite):
    """{"prompt": (found, all), "generated": (found, all)}"""
    command = [sys.executable, __file__, "left", "--child", kind] + ["--overwrite"] * overwrite
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        rows = {which: rows_at(child.pid, places) for which, places in json.loads(child.stdout.readline()).items()}
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "forgotten\n"
        found = {which: (rows_found(child.pid, these), len(these)) for which, these in rows.items()}
        child.stdin.close()
    return found


def print_left(repeats):
    print("| cache | freed memory | rows of the prompt still in memory | rows of generated tokens |\n|---|---|---|---|")
    for kind, name in (("dynamic", "DynamicCache, dropped"), ("secure", "SecureCache, scrubbed")):
        for overwrite in (False, True):
            runs = [left(kind, overwrite) for _ in range(repeats)]
            cells = [", ".join(str(run[which][0]) for run in runs) + f" of {runs[0][which][1]:,}" for which in ("prompt", "generated")]
            print(f"| {name} | {'overwritten' if overwrite else 'as it is'} | {cells[0]} | {cells[1]} |", flush=True)


# ---- cost ----


def best(call, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def print_cost(repeats):
    import torch
    from transformers import DynamicCache

    from hushvec.secure_memory import SecureBuffer, SecureCache

    torch.set_num_threads(1)
    model = make_model(layers=12, width=768)
    prompt = torch.randint(1, 1000, (1, 512))
    kinds = {
        "DynamicCache": lambda: DynamicCache(config=model.config),
        "SecureCache, room for all": lambda: SecureCache(model.config, capacity=1024),
        "SecureCache, growing": lambda: SecureCache(model.config, capacity=16),
    }
    times = {name: ([], []) for name in kinds}
    for _ in range(repeats):   # in turn, so that a busy machine slows all of them
        for name, make in kinds.items():
            cache = make()
            with torch.no_grad():
                times[name][0].append(best(lambda: model(prompt, past_key_values=cache), 1))
                times[name][1].append(best(lambda: model(prompt[:, :1], past_key_values=cache), 30))
    print("| cache | prompt of 512 tokens, s | one more token, ms |\n|---|---|---|")
    for name, (fill, step) in times.items():
        print(f"| {name} | {min(fill):.2f} | {min(step) * 1e3:.1f} |")

    states = torch.randn(1, 12, 1, 64)
    print("\n| one `update` of one layer, 512 positions before it | us |\n|---|---|")
    for name, make in list(kinds.items())[:2]:
        cache = make()
        cache.update(*(torch.randn(1, 12, 512, 64) for _ in range(2)), 0)
        print(f"| {name} | {best(lambda: cache.update(states, states, 0), 200) * 1e6:.0f} |")

    cache = SecureCache(capacity=512)
    for layer in range(12):
        cache.update(*(torch.randn(1, 12, 512, 64) for _ in range(2)), layer)
    size = 12 * 2 * 12 * 512 * 64 * 4
    print(f"\n| {size / 1e6:.0f} MB | s | GB/s |\n|---|---|---|")
    for name, call in (("scrub", cache.scrub), ("a SecureBuffer of that size: made, released", lambda: SecureBuffer(size).release())):
        took = best(call, repeats)
        print(f"| {name} | {took:.3f} | {size / took / 1e9:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["left", "cost"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--overwrite", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", choices=["dynamic", "secure"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        converse(arguments.child, arguments.overwrite)
    elif arguments.what == "left":
        print_left(arguments.repeats)
    else:
        print_cost(arguments.repeats)
