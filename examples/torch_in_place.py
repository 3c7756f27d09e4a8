"""Clip and noise a torch tensor in place, without a copy. Needs torch."""

import torch

import hushvec as hv

embeddings = torch.nn.functional.normalize(torch.randn(256, 768)).to(torch.bfloat16)
sigma = hv.gaussian_sigma(epsilon=8.0, delta=1e-5, sensitivity=2.0)

hv.clip_and_noise(embeddings, clip_norm=1.0, sigma=sigma, out=embeddings)
print(embeddings.shape, embeddings.dtype, f"sigma = {sigma:.4f}")
