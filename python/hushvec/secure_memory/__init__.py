"""Locked, self-wiping memory: buffers on locked pages, a transformers cache in them, and its encrypted file.

docs/secure_memory.md says what is guaranteed and what is not. SecureBuffer and status need numpy alone; views for torch need torch,
SecureCache and model_digest need torch and transformers, and files need cryptography.
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use
from hushvec.errors import CacheFileError, SecureMemoryError, SecureMemoryWarning
from hushvec.secure_memory.buffer import BackgroundScrub, SecureBuffer, overwrite_freed_memory, status

if TYPE_CHECKING:
    from hushvec.secure_memory.transformers_cache import SecureCache, model_digest

__all__ = [
    "BackgroundScrub",
    "CacheFileError",
    "SecureBuffer",
    "SecureCache",
    "SecureMemoryError",
    "SecureMemoryWarning",
    "model_digest",
    "overwrite_freed_memory",
    "status",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {"transformers_cache": "SecureCache model_digest"},
    extra="secure",
    packages=("torch", "transformers"),   # or a release of transformers from before its caches had layers
)
