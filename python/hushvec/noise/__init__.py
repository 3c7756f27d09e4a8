"""Noise, clipping and calibration as functions on arrays: what users of the fast backend import. No budget, no receipt."""

from hushvec.noise.calibration import expected_cosine, gaussian_delta, gaussian_epsilon, gaussian_sigma, laplace_scale
from hushvec.noise.discrete import discrete_gaussian, discrete_laplacian
from hushvec.noise.fills import add_noise, clip, clip_and_noise, gaussian_noise, l2_laplace_noise, laplacian_noise

__all__ = [
    "add_noise", "clip", "clip_and_noise", "discrete_gaussian", "discrete_laplacian", "expected_cosine", "gaussian_delta",
    "gaussian_epsilon", "gaussian_noise", "gaussian_sigma", "l2_laplace_noise", "laplace_scale", "laplacian_noise",
]
