"""The order in which test files begin."""

from pathlib import Path

TESTS = Path(__file__).parent

# Each takes more than some 10 s of processor time, the longest first. Workers take whole files: one of these that begins last would
# leave the other processors idle. Ray and Spark start processes for every processor, so not both at once.
LONG_FILES = (
    "integrations/test_ray.py",
    "receipts/test_training_receipt.py",
    "native/cuda/test_emulated_device.py",
    "native/cuda/test_on_emulated_device.py",
    "structure/test_package.py",
    "budget/test_processes.py",
    "receipts/test_verifiers_agree.py",
    "integrations/test_spark.py",
    "accounting/test_shuffling.py",
    "training/test_noise_multiplier.py",
    "docs/test_site.py",
    "accounting/test_poisson.py",
    "evidence/exact/test_exact_gaussian.py",
    "audit/test_audit_mutants.py",
    "scripts/test_notebooks.py",
    "evidence/statistical/test_independence.py",
    "integrations/test_jax.py",
    "docs/test_blocks.py",
    "docs/test_commands.py",
    "serve/test_resources.py",
    "_util/test_torch_recording.py",
    "evidence/exact/test_same_bits.py",
    "_native/test_torch_ops.py",
    "training/test_distributed.py",
    "evidence/statistical/test_noise_laws.py",
    "evidence/statistical/test_release_laws.py",
    "secure_memory/test_secure_cache.py",
    "text/test_redaction_patterns.py",
    "text/test_vec2text.py",
    "native/cuda/test_device_run.py",
    "native/cuda/test_build_choice.py",
    "evidence/exact/test_float_modes.py",
    "evidence/exact/test_exact_laplace.py",
)


def longest_first(items):
    """Sorts the items by file: LONG_FILES, then the others as they were."""
    places = {TESTS / file: place for place, file in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
