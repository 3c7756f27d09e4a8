"""Training with differential privacy: clipped and noisy gradients, an optimizer that keeps the account, Poisson batches.

    from hushvec.training import DPOptimizer, per_example_gradients, poisson_loader
    optimizer = DPOptimizer(torch.optim.AdamW(model.parameters()), clip_norm=1.0, noise_multiplier=1.1,
                            expected_batch_size=64, sampling_probability=64 / 50_000, delta=1e-5)
    for texts, labels in poisson_loader(data, 64 / 50_000, steps=1000):
        per_example_gradients(model, loss, texts, labels)
        optimizer.step()
    print(optimizer.describe())

docs/training.md is the guide, docs/proofs/dp_sgd.md says why the guarantee holds. Needs hushvec[training]; `clip_and_noise_gradients`
and `PoissonSampler` need numpy only.
"""

from hushvec._util.lazy import at_first_use

with at_first_use(globals(), extra="training", packages=("opacus", "torch")):
    from hushvec.training import federated as federated
    from hushvec.training import secagg as secagg
    from hushvec.training.canaries import audit_training
    from hushvec.training.checkpoints import load_checkpoint, save_checkpoint
    from hushvec.training.dp_optimizer import DPOptimizer
    from hushvec.training.ghost import GhostClipping
    from hushvec.training.gradients import clip_and_noise_gradients
    from hushvec.training.guarantee import TrainingGuarantee
    from hushvec.training.independence import require_independent_examples
    from hushvec.training.journal import StepJournal
    from hushvec.training.lora import AdapterCheck, AdapterUnchangedError, add_lora
    from hushvec.training.model_watch import ModelChangedError
    from hushvec.training.noise_multiplier import noise_multiplier_for
    from hushvec.training.opacus_engine import OpacusAccounting, opacus_accounting, secure_opacus
    from hushvec.training.per_example import per_example_gradients, unpack_people
    from hushvec.training.sampler import CyclicSampler, PoissonSampler, cyclic_loader, poisson_loader
    from hushvec.training.schedule import Account, AdaptiveClip, Clipping, CorrelatedNoise, StepSchedule

__all__ = [
    "Account", "AdapterCheck", "AdapterUnchangedError", "AdaptiveClip", "Clipping", "CorrelatedNoise", "CyclicSampler",
    "DPOptimizer", "GhostClipping", "ModelChangedError", "OpacusAccounting", "PoissonSampler", "StepJournal", "StepSchedule",
    "TrainingGuarantee", "add_lora", "audit_training", "clip_and_noise_gradients", "cyclic_loader", "load_checkpoint",
    "noise_multiplier_for", "opacus_accounting", "per_example_gradients", "poisson_loader", "require_independent_examples",
    "save_checkpoint", "secure_opacus", "unpack_people",
]
