"""torch custom operators for use inside torch.compile: torch.ops.hushvec, and the key streams they draw from.

The public functions of hushvec turn into these by themselves while torch.compile records them, with one stream for each device.
`clip` and `clip_` draw nothing: torch.export and tracers keep them too. Importing this module imports torch.
"""

from hushvec._util.lazy import needs_extra

with needs_extra("hushvec.integrations.torch_ops", "torch"):
    from hushvec._native.torch_ops import (
        clip,
        clip_,
        clip_and_laplacian_noise,
        clip_and_noise,
        clip_and_noise_,
        gaussian_noise_,
        laplacian_noise_,
        stream_state,
    )

__all__ = [
    "clip", "clip_", "clip_and_laplacian_noise", "clip_and_noise", "clip_and_noise_", "gaussian_noise_", "laplacian_noise_",
    "stream_state",
]
