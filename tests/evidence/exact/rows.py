"""Input rows for the tests of this folder."""

import numpy as np


def representable(values, dtype):
    """The values rounded to dtype and widened to float32 or float64; overflow becomes the largest finite value."""
    if dtype == "bfloat16":
        bits = np.asarray(values, dtype=np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)
    info = np.finfo(dtype)
    narrowed = np.clip(values, float(info.min), float(info.max)).astype(dtype)
    return narrowed.astype(np.float32 if dtype == "float16" else dtype)


def around_the_ball(rng, count, dimension, clip_norm, dtype):
    """Rows with norms from clip_norm / 1000 to 10 * clip_norm, a zero row among them."""
    rows = rng.standard_normal((count, dimension))
    norms = clip_norm * 10.0 ** rng.uniform(-3, 1, (count, 1))
    rows *= norms / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[count // 2] = 0.0
    return representable(rows, dtype)
