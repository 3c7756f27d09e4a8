"""How much noise a model needs: by its name, by its norm, by a clip norm, or by an estimate labeled as one."""

import hushvec as hv
from hushvec.text import MiniLMEmbedder

for model_id in ("BAAI/bge-small-en-v1.5", "sentence-transformers/all-MiniLM-L6-v2", "unknown-model"):
    print(f"{model_id}: {hv.get_sensitivity(model_id)}")

base_model = MiniLMEmbedder()
print("calibrated, unit vectors:", hv.calibrate_sensitivity(base_model))


class Unnormalized:
    """The same model with longer vectors, as many models make them."""

    model_id = "my-custom-model"

    def embed(self, texts):
        return base_model.embed(texts) * 3.0


custom_model = Unnormalized()
estimate = hv.calibrate_sensitivity(custom_model, ["First sample text", "Second sample text", "Third very different text"])
print(f"calibrated, other vectors: {estimate:.3f} ({type(estimate).__name__})")

# "auto": model_id= in the table, then the model's own name, then a check of the norms; this model fails all three.
try:
    hv.wrap_embedding_model(custom_model, hv.dp_embedding_middleware(epsilon=8.0)).embed(["a private note"])
except ValueError as error:
    print("refused:", error)

for title, setting in {
    "clip_norm=3.0": {"clip_norm": 3.0},
    "sensitivity=6.0, made true by clipping to 3.0": {"sensitivity": 6.0},
    "an estimate": {"sensitivity": estimate},
}.items():
    private_model = hv.wrap_embedding_model(custom_model, hv.dp_embedding_middleware(epsilon=8.0, **setting))
    receipt = private_model.embed(["a private note"]).receipt
    print(f"{title}: sigma {receipt.sigma:.3f}, epsilon {receipt.epsilon:.3f}; {receipt.notes[-1]}")
