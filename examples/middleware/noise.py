"""Noise by hand, then noise as middleware: every embedding that leaves the model is private and has a receipt."""

import hushvec as hv
from hushvec.text import MiniLMEmbedder

base_model = MiniLMEmbedder()
original_embedding = base_model.embed(["sensitive medical record"])[0]

# Noise by hand, in floating point: for a release with a guarantee, use the middleware below or hv.privatize.
gaussian = hv.gaussian_noise(384, 0.1)
laplacian = hv.laplacian_noise(384, 0.5)
noisy_embedding = hv.add_noise(original_embedding, gaussian)
print("by hand:", noisy_embedding.shape, noisy_embedding.dtype, laplacian.shape)

private_model = hv.wrap_embedding_model(
    base_model,
    hv.dp_embedding_middleware(epsilon=1.0, delta=1e-5, mechanism="gaussian"),
)
embedding = private_model.embed(["sensitive medical record"])
print(f"gaussian:  epsilon {embedding.receipt.epsilon}, delta {embedding.receipt.delta}, sigma {embedding.receipt.sigma:.4f}")

# Pure epsilon, no delta: the scale grows with the square root of the dimension.
private_model = hv.wrap_embedding_model(base_model, hv.dp_embedding_middleware(epsilon=1.0, mechanism="laplacian"))
receipt = private_model.embed(["sensitive medical record"]).receipt
print(f"laplacian: epsilon {receipt.epsilon}, delta {receipt.delta}, scale {receipt.scale:.2f}")

# Search only needs directions: no delta, at an epsilon that keeps some signal.
private_model = hv.wrap_embedding_model(base_model, hv.dp_embedding_middleware(epsilon=16.0, mechanism="privunit", renormalize=True))
embedding = private_model.embed(["sensitive medical record"])
print(f"privunit:  epsilon {embedding.receipt.epsilon:.6g}, cosine to the original {float(embedding[0] @ original_embedding):.2f}")
print(*hv.verify_receipt(embedding.receipt), sep=": ")
