"""`hushvec serve`: private embeddings as a service in OpenAI's shape, with policies, budgets and receipts.

docs/serve.md has the policy file and every endpoint.
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec.serve.app import create_app
    from hushvec.serve.policy import Policy, local_policy, read_policy

__all__ = ["Policy", "create_app", "local_policy", "read_policy"]

__getattr__, __dir__ = at_first_use(
    globals(),
    {"app": "create_app", "policy": "Policy local_policy read_policy"},
    extra="serve",
    packages=("anyio", "fastapi", "prometheus_client", "pydantic", "starlette"),
)
