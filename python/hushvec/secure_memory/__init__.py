"""Locked, self-wiping memory: buffers on locked pages, a transformers cache in them, and the encrypted file of its prefix.

docs/secure_memory.md says what is guaranteed and what is not. SecureBuffer and status need numpy alone; views for torch need torch,
SecureCache needs torch and transformers, its files cryptography.
"""

from hushvec._util.lazy import at_first_use
from hushvec.errors import SecureMemoryError, SecureMemoryWarning
from hushvec.secure_memory.buffer import SecureBuffer, overwrite_freed_memory, status

# Without its packages, or with a release of transformers from before its caches had layers, SecureCache needs the extra.
with at_first_use(globals(), extra="secure", packages=("torch", "transformers")):
    from hushvec.secure_memory.transformers_cache import SecureCache

__all__ = ["SecureBuffer", "SecureCache", "SecureMemoryError", "SecureMemoryWarning", "overwrite_freed_memory", "status"]
