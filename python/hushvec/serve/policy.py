"""Policies: who may release what, and what it costs. One YAML file, read whole and checked before it is used."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (  # isort: skip
    AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, field_validator, model_validator,
)
from pydantic_core import PydanticCustomError

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import plain_bytes
from hushvec.budget import MEMORY, file_of
from hushvec.mechanisms import MECHANISMS, PrivUnit, priced_mechanisms
from hushvec.serve.keys import HASH_PATTERN

MEGABYTE = 1_000_000
MOST_BYTES = 16 * MEGABYTE  # of the file

OPERATOR = "(operator)"
CODEBOOK = "codebook"

# Names stand in addresses, ledgers, metrics and logs.
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MiniLM(_Strict):
    """all-MiniLM-L6-v2 from the extra "text"; nothing is downloaded."""

    kind: Literal["minilm"]


class SentenceTransformersModel(_Strict):
    """A folder or hub id of a sentence-transformers model."""

    kind: Literal["sentence-transformers"]
    path: str
    device: str | None = None


class OpenAIModel(_Strict):
    """Another service with POST {base_url}/embeddings in the OpenAI shape. It sees the texts, after redaction."""

    kind: Literal["openai"]
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    model: str
    api_key_env: str | None = Field(default=None, description="environment variable that holds the upstream's key")
    timeout: Positive = 30.0


class CustomModel(_Strict):
    """Anything that `hushvec.wrap_embedding_model` takes, as `package.module:attribute`."""

    kind: Literal["python"]
    object: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]


AnyModel = Annotated[MiniLM | SentenceTransformersModel | OpenAIModel | CustomModel, Field(discriminator="kind")]


class BudgetTerms(_Strict):
    """Budget of a tenant until it renews. Days and months are those of UTC; losses of several periods add up."""

    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None
    renews: Literal["daily", "monthly", "never"] = "daily"

    def period(self, now: datetime) -> str:
        """The name of the period that `now` lies in; empty where there is only one."""
        return {"daily": f"{now:%Y-%m-%d}", "monthly": f"{now:%Y-%m}", "never": ""}[self.renews]

    def renewal(self, now: datetime) -> datetime | None:
        """When the next period begins."""
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.renews == "daily":
            return midnight + timedelta(days=1)
        if self.renews == "monthly":
            return (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
        return None


class Redaction(_Strict):
    """Personal data that is replaced before a text reaches the model. Rules miss things: this is no guarantee."""

    categories: list[str] | None = Field(default=None, description="what is looked for; everything if left out")
    allow_categories: list[str] = []
    allow_list: list[str] = []
    replacement: str | None = None
    detectors: list[str] = Field(default=[], description="models beside the rules: presidio, spacy=PIPELINE or classifier=FOLDER")


class Limits(_Strict):
    """Limits of a request, and of the answers that are kept for requests with an Idempotency-Key."""

    body_bytes: Annotated[int, Field(ge=1_000, le=1_000 * MEGABYTE)] = 64 * MEGABYTE
    texts: Annotated[int, Field(ge=1)] = 2048
    characters: Annotated[int, Field(ge=1)] = 100_000
    rows: Annotated[int, Field(ge=1)] = 1_000_000
    answers: Annotated[int, Field(ge=1)] = 10_000  # kept for a day
    answer_bytes: Annotated[int, Field(ge=1)] = 64 * MEGABYTE


class ClientReleases(_Strict):
    """What rows that clients released themselves may cost by their receipt."""

    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    rows: Annotated[int, Field(ge=1)] = 100_000  # kept for the tenant


def mechanisms_offered(*, directions: bool = False) -> tuple[str, ...]:
    """Return the names of what a policy may name: an exact grade and a price; `directions`: those that release directions."""
    exact = priced_mechanisms(exact=True)
    return *(name for name, kind in exact.items() if kind.directions_only or not directions), CODEBOOK


def _offered(name: str) -> str:
    known = mechanisms_offered()
    if name not in known:
        *first, last = map(repr, known)
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": f"{', '.join(first)} or {last}"})
    return name


class Tenant(_Strict):
    """One customer of the service: its keys, models, mechanism and budget."""

    keys: list[Annotated[str, Field(pattern=HASH_PATTERN)]] = []
    models: Annotated[list[Name], Field(min_length=1)]
    mechanism: Annotated[str, AfterValidator(_offered), WithJsonSchema({"type": "string"})] = PrivUnit.name
    epsilon: Positive
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    clip_norm: Positive = 1.0
    per: Literal["record", "release"] = "record"
    codebook: str | None = Field(default=None, description="file of a public codebook, for that mechanism")
    redact: bool | Redaction = False
    aggregates: bool = Field(default=False, description="whether many people's rows may be answered together, with delta")
    releases: ClientReleases | None = Field(default=None, description="takes rows that clients released, each with its receipt")
    budget: BudgetTerms
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _codebook_with_its_mechanism(self) -> Tenant:
        if (self.codebook is not None) != (self.mechanism == CODEBOOK):
            raise ValueError("codebook must be given with mechanism codebook, and with no other")
        if self.budget.delta == 0 and self.mechanism != CODEBOOK and MECHANISMS[self.mechanism].takes_delta:
            raise ValueError(f"budget.delta must be above 0 for mechanism {self.mechanism}, every release of which costs delta")
        if self.aggregates and (self.budget.delta == 0 or self.per == "release"):
            raise ValueError("aggregates must come with per record and a budget.delta above 0: they are of many people and cost delta")
        return self


class Operators(_Strict):
    """Keys that read the budget and the ledger of every tenant, and release nothing."""

    keys: Annotated[list[Annotated[str, Field(pattern=HASH_PATTERN)]], Field(min_length=1)]


class Policy(_Strict):
    """The whole file."""

    version: Literal[1]
    store: str | None = Field(default=None, repr=False, description="where ledgers and answers are kept: a path, sqlite:///... or postgresql://...")
    models: Annotated[dict[Name, AnyModel], Field(min_length=1)]
    tenants: Annotated[dict[Name, Tenant], Field(min_length=1)]
    operators: Operators | None = None

    @field_validator("store")
    @classmethod
    def _store_that_lasts(cls, store: str | None) -> str | None:
        if store == MEMORY:
            raise ValueError("store must be a file or a database: in memory, every process would have a budget of its own")
        if store is not None:
            file_of(store)
        return store

    @field_validator("tenants")
    @classmethod
    def _no_key_twice(cls, tenants: dict[str, Tenant]) -> dict[str, Tenant]:
        owners: dict[str, str] = {}
        for name, tenant in tenants.items():
            for key in tenant.keys:
                if owners.setdefault(key, name) != name:
                    raise ValueError(f"tenants {owners[key]} and {name} must not share a key")
        return tenants

    @model_validator(mode="after")
    def _tenants_fit(self) -> Policy:
        for name, tenant in self.tenants.items():
            if unknown := [model for model in tenant.models if model not in self.models]:
                raise ValueError(f"tenants.{name}.models must be among {', '.join(self.models)}, got {unknown[0]}")
            if self.operators is not None and not tenant.keys:
                raise ValueError(f"tenants.{name}.keys must not be empty with operators, because anybody could release for it")
            if self.operators is not None and not set(tenant.keys).isdisjoint(self.operators.keys):
                raise ValueError(f"operators and tenants.{name} must not share a key")
        return self

    @property
    def needs_keys(self) -> bool:
        """Whether every request must carry a key. A policy of one tenant without keys is for this machine alone."""
        return not (len(self.tenants) == 1 and not next(iter(self.tenants.values())).keys)

    def owners_of_keys(self) -> Iterator[tuple[str, str]]:
        """(who, hash) for every key that is known; operators are OPERATOR, which no tenant can be called."""
        owners: dict[str, Tenant | Operators] = {**self.tenants, **({OPERATOR: self.operators} if self.operators else {})}
        return ((name, known) for name, owner in owners.items() for known in owner.keys)

    def tenants_without_keys(self) -> list[str]:
        return [name for name, tenant in self.tenants.items() if not tenant.keys]


LOCAL = "local"


def local_policy(store: str | None = None) -> Policy:
    """Policy for a service without a policy file: one tenant, MiniLM, and a hundred requests a day for one person."""
    tenant = {"models": ["minilm"], "epsilon": 8.0, "budget": {"epsilon": 800.0, "renews": "daily"}}
    tenant |= {"aggregates": True, "limits": {"texts": 20_000}}  # whoever has topics of notes has thousands
    fields = {"version": 1, "store": store, "models": {"minilm": {"kind": "minilm"}}, "tenants": {LOCAL: tenant}}
    return policy_of(fields, "without a policy")


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy of a file. A ValueError names every place that is wrong, and no value. No key may stand twice in a mapping."""
    return policy_of_text(plain_bytes(Path(path), MOST_BYTES), os.fspath(path))


def policy_of_text(text: bytes, source: str) -> Policy:
    """`read_policy` for what was read; `source` is what errors call it."""
    with needs_extra("reading a policy", "serve"):
        import yaml

    repeated = "repeats a key"

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        def compose_mapping_node(self, anchor: Any) -> Any:
            """PyYAML takes the last of two equal keys, which drops the keys and budgets of the first."""
            node = super().compose_mapping_node(anchor)
            seen: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=repeated, problem_mark=key.start_mark)
                seen.add(key.value)
            return node

    try:
        fields = yaml.load(text, Loader)  # a SafeLoader
    except Exception as error:  # PyYAML lets some of Python's own through: KeyError for `!!bool maybe`, RecursionError for depth
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark is not None else ""
        why = repeated if getattr(error, "problem", "") == repeated else "is not YAML"
        raise ValueError(f"{source}:{where} {why}") from None
    return policy_of(fields, source)


def policy_of(fields: Any, source: str) -> Policy:
    """The policy with these fields; `source` is what errors call it."""
    try:
        return Policy.model_validate(fields)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        places = (".".join(map(str, problem["loc"])) or "the file" for problem in problems)
        said = (f"{place}: {problem['msg'].removeprefix('Value error, ')}" for place, problem in zip(places, problems))
        raise ValueError(f"{source}: {'; '.join(said)}") from None


def now_utc() -> datetime:
    return datetime.now(timezone.utc)


def require_keys_beyond_loopback(policy: Policy, host: str) -> None:
    """Refuse to let others in without keys."""
    if is_loopback(host):
        if policy.needs_keys and (missing := policy.tenants_without_keys()):
            raise ValueError(f"tenants.{missing[0]}.keys must not be empty: with several tenants, each needs a key")
        return
    if missing := policy.tenants_without_keys():
        raise ValueError(f"host must be a loopback address while tenants.{missing[0]} has no keys, got {host!r}")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
