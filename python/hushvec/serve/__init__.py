"""`hushvec serve`: private embeddings as a service in OpenAI's shape, with policies, budgets and receipts.

docs/serve.md has the policy file and every endpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hushvec._util.lazy import at_first_use
from hushvec.errors import MissingExtraError

if TYPE_CHECKING:
    from hushvec.serve.app import create_app
    from hushvec.serve.policy import Policy, local_policy, read_policy

__all__ = ["Policy", "create_app", "local_policy", "read_policy"]

_PACKAGES = ("anyio", "fastapi", "prometheus_client", "pydantic", "starlette")

_get, __dir__ = at_first_use(globals(), {"app": "create_app", "policy": "Policy local_policy read_policy"})


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ImportError as error:
        if error.name in _PACKAGES:
            raise MissingExtraError(f"hushvec.serve.{name}", "serve") from None
        raise
