"""One clipped sum of a convolutional network: an ordinary gradient, ghost clipping, and per-example gradients. Prints a table.

    OMP_NUM_THREADS=1 python bench/python/ghost_convolutions.py

Each row runs in a process of its own. Memory is the peak above that before the first step; seconds are the least processor time of
five steps.
"""

import argparse
import resource
import subprocess
import sys
import time

EXAMPLES, SIDE = 64, 16
WAYS = {
    "ordinary": "one gradient for all images, no DP",
    "ghost": "ghost clipping",
    "vmap": "`per_example_gradients`, then clipped",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=WAYS)
    way = parser.parse_args().way
    if way is not None:
        print(*measured(way))
        return
    print("| | peak memory (MiB) | processor time (s) |")
    print("|---|---|---|")
    for way, title in WAYS.items():
        done = subprocess.run([sys.executable, __file__, "--way", way], capture_output=True, text=True, check=True)
        memory, seconds = map(float, done.stdout.split())
        print(f"| {title} | {memory:.0f} | {seconds:.2f} |", flush=True)


def measured(way):
    """(MiB, seconds)"""
    import torch

    from hushvec.training import DPOptimizer, GhostClipping, per_example_gradients

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = network()
    images, labels = torch.randn(EXAMPLES, 3, SIDE, SIDE), torch.randint(0, 10, (EXAMPLES,))
    cross_entropy = torch.nn.functional.cross_entropy
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=1.0, noise_multiplier=0.0, expected_batch_size=EXAMPLES,
        sampling_probability=1.0, model=model,
    )
    ghost = GhostClipping(model, 1.0, check=False) if way == "ghost" else None

    def step():
        if way == "ordinary":
            cross_entropy(model(images), labels).backward()
            model.zero_grad()
            return
        if ghost is not None:
            ghost.backward(cross_entropy(model(images), labels, reduction="none"))
        else:
            per_example_gradients(model, lambda predict, image, label: cross_entropy(predict(image), label), images, labels)
        optimizer.step()

    before, seconds = peak(), []
    for _ in range(5):
        start = time.process_time()
        step()
        seconds.append(time.process_time() - start)
    return peak() - before, min(seconds)


def network():
    """1.6 million weights, most of them in two wide convolutions."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 256, 3, padding=1), nn.GroupNorm(8, 256), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(256, 640, 3, padding=1), nn.GroupNorm(8, 640), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(640, 10),
    )  # fmt: skip


def peak():
    """MiB"""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
