"""`hushvec serve`: private embeddings as a service in OpenAI's shape, with policies, budgets and receipts.

docs/serve.md has the policy file and every endpoint.
"""

from hushvec._util.lazy import at_first_use

with at_first_use(globals(), extra="serve", packages=("anyio", "fastapi", "prometheus_client", "pydantic", "starlette")):
    from hushvec.serve.app import create_app
    from hushvec.serve.policy import Policy, local_policy, read_policy

__all__ = ["Policy", "create_app", "local_policy", "read_policy"]
