"""From YAML files and overrides to a checked `Configuration`, and back to plain values.

A file may say `extends:` another file (beside it) or a shipped configuration (by name). Mappings are merged key by key, everything
else is replaced; `ablate`, whose keys are settings themselves, is replaced too. Each file and each override is checked on its own, so
that an error names the one that is wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WrapValidator, model_validator

from hushvec._util import validate
from hushvec.extend.helpers import nearest, nearest_of
from hushvec_studies.harness.settings import (
    Distinct,
    DistinctOrNone,
    Epsilon,
    Listed,
    Positive,
    Seed,
    Settings,
    Share,
    Text,
    as_tuple,
    check_of,
    checked,
    distinct,
    in_words,
    one_of,
    word_for,
)
from hushvec_studies.retrieval.columns import ATTACKS, MECHANISMS

SPLITS = ("train", "val", "test", "all")
SIDES = ("document", "query", "score")
VECTOR_NOISE = ("gaussian", "laplacian", "l2_laplace", "privunit", "empirical")
SCORE_NOISE = ("gaussian", "laplacian", "gumbel")
STORES = ("flat", "numpy", "hnsw")
PROJECTIONS = ("none", "mean", "pca", "whiten")
_WITH_DIMENSION = ("pca", "whiten")
EXTENDS = "extends"
_FEWEST_SHADOWS = 4


class NoiseFamily(Settings):
    """The mechanisms of one comparison: one for vectors (documents and queries), one for scores; None: the family has none.

    Args:
        sigma: standard deviation of "empirical"; such a family has one run for each side, whatever epsilons are asked for.
        corpus_size: split the epsilon of "privunit" for a search among the indexed documents.
    """

    name: Text
    vectors: Annotated[str, one_of(VECTOR_NOISE)] | None = None
    scores: Annotated[str, one_of(SCORE_NOISE)] | None = None
    sigma: Positive | None = None
    corpus_size: bool = False

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, values: Any) -> Any:
        for key in values if isinstance(values, Mapping) else ():
            if key not in cls.model_fields:
                raise ValueError(f"has no {key}{nearest_of(str(key), tuple(cls.model_fields))}")
        return values

    @model_validator(mode="after")
    def _fit_together(self) -> NoiseFamily:
        if self.vectors is None and self.scores is None:
            raise ValueError("must name a mechanism for vectors, for scores, or both")
        if (self.vectors == "empirical") != (self.sigma is not None):
            raise ValueError("must have a sigma with vectors: empirical, and only then")
        if self.vectors == "empirical" and self.scores is not None:
            raise ValueError("must not have scores with vectors: empirical, which has no epsilon to share")
        if self.corpus_size and self.vectors != "privunit":
            raise ValueError("must have corpus_size with vectors: privunit only")
        return self


# What a configuration may name instead of spelling a family out.
FAMILIES = {
    family.name: family
    for family in (
        NoiseFamily(name="gaussian", vectors="gaussian", scores="gaussian"),
        NoiseFamily(name="pure", vectors="privunit", scores="laplacian"),
        NoiseFamily(name="pure_search", vectors="privunit", corpus_size=True),
        NoiseFamily(name="laplacian", vectors="laplacian", scores="laplacian"),
        NoiseFamily(name="l2_laplace", vectors="l2_laplace"),
        NoiseFamily(name="gumbel", scores="gumbel"),
    )
}


# ---- checks of single values ----

def _named_family(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value not in FAMILIES:
        raise ValueError(f"must be one of {', '.join(FAMILIES)}, got {value!r}{nearest_of(value, tuple(FAMILIES))}")
    return FAMILIES[value]


def _names_differ(families: tuple[NoiseFamily, ...]) -> tuple[NoiseFamily, ...]:
    distinct(tuple(family.name for family in families))
    return families


def _shares(value: Any, shares_of: Callable[[Any], tuple[float, ...]]) -> Any:
    """Three shares that add up to 1, or the word "given": the splits that the texts come with."""
    if isinstance(value, str):
        if value != "given":
            raise ValueError(f"must be three shares or 'given', got {value!r}")
        return value
    shares = shares_of(value)
    if abs(math.fsum(shares) - 1) > 1e-9:
        raise ValueError(f"must add up to 1, got {math.fsum(shares)!r}")
    return shares


def _in_order(tokens: tuple[int, int]) -> tuple[int, int]:
    if tokens[0] > tokens[1]:
        raise ValueError(f"must be the least and the most, got {tokens[0]} before {tokens[1]}")
    return tokens


def _sides(value: str) -> str:
    """Two or three sides, as in "document+query", in the order in which they act."""
    sides = [part.strip() for part in value.split("+")]
    for side in sides:
        if side not in SIDES:
            raise ValueError(f"must join sides of {', '.join(SIDES)} by +, got {side!r}{nearest_of(side, SIDES)}")
    if len(sides) < 2 or len(set(sides)) != len(sides):
        raise ValueError(f"must join two or three different sides by +, got {value!r}")
    return "+".join(side for side in SIDES if side in sides)


def _projection(value: str) -> str:
    """A public map: none, mean, or principal components, as in "pca:64", or brought to equal spread: "whiten:256", "whiten" (all)."""
    kind, colon, dimension = value.partition(":")
    if kind in PROJECTIONS and (not colon or kind in _WITH_DIMENSION):
        if colon and not (dimension.isdecimal() and int(dimension) > 0):
            raise ValueError(f"must name a dimension after '{kind}:', got {value!r}")
        return value
    near = nearest_of(kind, PROJECTIONS) if kind not in PROJECTIONS else ""
    raise ValueError(f"must be none, mean, pca, whiten, pca:DIMENSION or whiten:DIMENSION, got {value!r}{near}")


def _ablated(value: Any) -> dict[str, tuple[Any, ...]]:
    """Dotted keys of the configuration, each with the values that it takes in turn."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping of settings to lists, got {word_for(value)}")
    for key in value:
        if key not in KEYS or str(key).startswith(("ablate", "robustness", "name")):
            raise ValueError(f"must name settings: {key} is not one{suggestion(str(key))}")
    found: dict[str, tuple[Any, ...]] = {}
    for key, given in value.items():
        if not isinstance(given, list | tuple) or not given:
            raise ValueError(f"must have a list of values for {key}, got {word_for(given)}")
        values = [KEYS[key].check(key, one) for one in given]
        found[key] = tuple(one for place, one in enumerate(values) if one not in values[:place])
        if len(found[key]) < len(values):
            raise ValueError(f"must not name a value of {key} twice")
    return found


def _plain(value: Any, *, by_name: bool = False) -> Any:
    """A value as YAML and JSON know it; families of noise spelled out, or by their names."""
    if isinstance(value, NoiseFamily):
        return value.name if by_name else value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: _plain(one, by_name=by_name) for key, one in value.items()}
    return [_plain(one, by_name=by_name) for one in value] if isinstance(value, tuple) else in_words(value)


Split = Annotated[str, one_of(SPLITS)]
Tokens = Annotated[int, Field(ge=1, le=20)]


# ---- sections ----

class Data(Settings):
    """Which texts."""

    source: Text = Field(
        default="20newsgroups",
        description="20newsgroups, hushvec.data (the records that ship), or a .jsonl file (.xz, .gz)",
    )
    data_home: Text | None = Field(default=None, description="folder in which scikit-learn keeps 20 Newsgroups")
    categories: Distinct[Text] | None = Field(default=None, description="of these only; null: all")
    min_tokens: Annotated[int, Field(ge=0)] = Field(default=50, description="shorter texts are left out")
    lower_case: bool = Field(default=False, description="embed documents and queries in lower case")
    drop_stop_words: bool = Field(default=False, description="embed documents and queries without English stop words")
    splits: Annotated[
        Listed[Share], Field(min_length=3, max_length=3), WrapValidator(_shares), PlainSerializer(_plain, when_used="json")
    ] = Field(default=(0.70, 0.15, 0.15), description="shares of train, val, test; given: those of the file")
    split: Split = Field(default="train", description="the split that is indexed and searched")
    max_documents: Annotated[int, Field(ge=4)] | None = Field(default=None, description="at most so many, drawn by the seed")


class Embedding(Settings):
    """Which vectors."""

    model: Text = Field(default="all-MiniLM-L6-v2", description="name of the embedding model")
    cache: Text | None = Field(default=None, description="folder of the embedding cache; null: below the study's folder")


class Queries(Settings):
    """What is searched for."""

    per_document: Annotated[int, Field(ge=1, le=50)] = Field(default=3, description="key phrases of each document, at most")
    tokens: Annotated[tuple[Tokens, Tokens], BeforeValidator(as_tuple), AfterValidator(_in_order)] = Field(
        default=(3, 5), description="least and most tokens of a key phrase"
    )


class Privacy(Settings):
    """Which noise, where."""

    mechanisms: Distinct[Annotated[str, one_of(MECHANISMS)]] = Field(default=MECHANISMS, description="where noise is put")
    combined: Distinct[Annotated[str, AfterValidator(_sides)]] = Field(
        default=("document+query",), description="sides of the mechanism combined, each with the whole epsilon"
    )
    epsilons: Distinct[Epsilon] = Field(
        default=(math.inf, 20.0, 10.0, 5.0, 2.5), description="of one vector, or of one query's scores; inf: no noise"
    )
    delta: Share = Field(default=1e-5, description="for the Gaussian kinds")
    noise: Annotated[
        Listed[Annotated[NoiseFamily, Field(strict=False), BeforeValidator(_named_family)]],
        Field(min_length=1),
        AfterValidator(_names_differ),
    ] = Field(default=(FAMILIES["gaussian"], FAMILIES["pure"]), description="families of mechanisms")
    projections: Distinct[Annotated[str, AfterValidator(_projection)]] = Field(
        default=("none",), description="public maps before the noise"
    )
    public_split: Annotated[str, one_of(SPLITS[:3])] | None = Field(
        default=None, description="split that public maps are fitted on; null: val, or train for val"
    )
    renormalize: bool = Field(default=True, description="bring noisy vectors to unit length, so that scores are cosines")


class Retrieval(Settings):
    """How it is searched."""

    k: Distinct[Annotated[int, Field(ge=1, le=1000)]] = Field(
        default=(1, 5, 10), description="documents that a search answers with"
    )
    store: Annotated[str, one_of(STORES)] = Field(default="flat", description="index that holds the vectors")
    latency_queries: Annotated[int, Field(ge=1, le=100_000)] = Field(default=200, description="queries that are timed one by one")
    prepared: Text | None = Field(
        default=None, description="folder that keeps indexes and attack models, and gives them to a rerun; null: none are kept"
    )


class Attack(Settings):
    """Who attacks."""

    attacks: DistinctOrNone[Annotated[str, one_of(ATTACKS)]] = Field(
        default=tuple(ATTACKS), description="membership attacks; []: none"
    )
    own_vector: bool = Field(
        default=True, description="the adversary also asks with the candidate's own vector, and not with its key phrases alone"
    )
    shadow_models: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] = Field(
        default=16, description="indexes of the adversary's own to learn from; even"
    )
    target_models: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="indexes that attacks are judged on; more make intervals narrower"
    )
    candidates: Annotated[int, Field(ge=8)] | None = Field(default=None, description="documents in the game; null: all")


class Statistics(Settings):
    """How sure."""

    confidence: Share = Field(default=0.95, description="of every interval")
    resamples: Annotated[int, Field(ge=10, le=1_000_000)] = Field(default=1000, description="of the bootstrap")


class Robustness(Settings):
    """What `study robustness` repeats the runs on."""

    splits: DistinctOrNone[Split] = Field(default=("val", "test"), description="other splits")
    models: DistinctOrNone[Text] = Field(default=(), description="other embedding models")
    seeds: DistinctOrNone[Seed] = Field(default=(2026, 2027), description="other seeds")


class Configuration(Settings):
    """A study, every setting checked. Made by `load_configuration`."""

    name: Text = Field(default="study", description="name of the study; default: the file's")
    seed: Seed = Field(default=2025, description="of splits, noise and resampling")
    data: Data = Data()
    embedding: Embedding = Embedding()
    queries: Queries = Queries()
    privacy: Privacy = Privacy()
    retrieval: Retrieval = Retrieval()
    attack: Attack = Attack()
    statistics: Statistics = Statistics()
    ablate: Annotated[
        Mapping[str, tuple[Any, ...]], BeforeValidator(_ablated), PlainSerializer(_plain, when_used="json")
    ] = Field(
        default={"queries.per_document": (1, 3, 5)},
        description="settings that `study ablate` varies, one at a time, with their values",
    )
    robustness: Robustness = Robustness()

    @model_validator(mode="after")
    def _enough_shadows(self) -> Configuration:
        attack = self.attack
        if "likelihood" in attack.attacks and attack.shadow_models < _FEWEST_SHADOWS:
            raise ValueError(
                f"attack.shadow_models must be >= {_FEWEST_SHADOWS} for the attack 'likelihood', got {attack.shadow_models}"
            )
        return self

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


class Key(NamedTuple):
    """A setting under its dotted name."""

    check: Callable[[str, Any], Any]
    default: Any
    meaning: str


SECTIONS: dict[str, type[Settings]] = {
    name: field.annotation
    for name, field in Configuration.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Settings)
}


def _keys() -> dict[str, Key]:
    found: dict[str, Key] = {}
    for name, field in Configuration.model_fields.items():
        section = SECTIONS.get(name, Configuration)
        inner = section.model_fields if name in SECTIONS else {name: field}
        for key, one in inner.items():
            dotted = f"{name}.{key}" if name in SECTIONS else key
            found[dotted] = Key(check_of(section, key), one.default, one.description or "")
    return found


KEYS = _keys()


def settings_text() -> str:
    """Every setting with its default and its meaning, for the help of the commands."""
    lines = ["settings of CONFIG, with their defaults:"]
    for name, key in KEYS.items():
        lines += [f"  {name}: {json.dumps(_plain(key.default, by_name=True))}", f"      {key.meaning}"]
    return "\n".join(lines)


def suggestion(name: str) -> str:
    """`, did you mean 'attack.shadow_models'?`: of the same section, else of the same last name, else by the whole name."""
    section, _, last = name.rpartition(".")
    own = nearest(last, [key.partition(".")[2] for key in KEYS if key.startswith(f"{section}.")]) if section in SECTIONS else None
    elsewhere = (key for key in KEYS if key.rpartition(".")[2] == last)
    found = f"{section}.{own}" if own else next(elsewhere, None)
    if found or section in SECTIONS:
        return f", did you mean {found!r}?" if found else ""
    return nearest_of(name, [*KEYS, *SECTIONS, EXTENDS])


# ---- from files and overrides, and back to plain values ----

Values = dict[str, Any]

_SHIPPED = Path(__file__).parent / "configs"
# YAML 1.1 takes 1e-5 for a text, as it has no point.
_NUMBER = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


def load_configuration(source: str | Path, overrides: Sequence[str] = ()) -> Configuration:
    """A configuration from a YAML file or by the name of a shipped one (`shipped()`), merged and checked, defaults filled in.

    Args:
        overrides: `a.b=value` each, the value in YAML; they win over the file, the last one over earlier ones.

    Raises:
        FileNotFoundError: neither a file nor a shipped name; the nearest shipped one is suggested.
        ValueError, TypeError: not YAML, an unknown key (the nearest valid one is suggested), a key that stands twice, a value out
            of range or of the wrong kind, files that extend each other in a circle.

    Example:
        >>> configuration = load_configuration("doc_ldp", ["attack.shadow_models=8"])
        >>> configuration.name, configuration.seed, configuration.attack.shadow_models
        ('doc_ldp', 2025, 8)
    """
    settings = _file_settings(source, Path(), str(source))
    for override in overrides:
        settings |= _override_settings(override)
    path = Path(source)
    settings.setdefault("name", path.stem if path.suffix in (".yaml", ".yml") else path.name)
    return with_settings(Configuration(), settings)


def shipped() -> list[str]:
    """Names of the configurations that come with the package."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def to_values(configuration: Configuration) -> Values:
    """Every setting as YAML and JSON know it: nested mappings of texts, numbers and lists; infinity is the word "inf"."""
    return configuration.model_dump(mode="json")


def from_values(values: Mapping[str, Any]) -> Configuration:
    """The configuration that `to_values` was given; errors as for `load_configuration`."""
    return with_settings(Configuration(), _checked(values, "configuration"))


def with_settings(configuration: Configuration, changes: Mapping[str, Any]) -> Configuration:
    """The same configuration with other values at dotted keys; the values are taken as checked ones."""
    parts: Values = dict(configuration)
    for key, value in changes.items():
        section, _, inner = key.rpartition(".")
        parts[section or key] = parts[section].model_copy(update={inner: value}) if section else value
    return checked(Configuration, parts)


def _file_settings(source: str | Path, folder: Path, label: str, extended_by: tuple[Path, ...] = ()) -> Values:
    """Dotted keys and checked values of a file, or of the shipped one of that name, and of those it extends."""
    path, known = folder / source, shipped()
    if path.is_file():
        label = str(path)
    elif str(source) in known:
        path, label = _SHIPPED / f"{source}.yaml", str(source)
    else:
        near = nearest_of(str(source), known)
        raise FileNotFoundError(f"{label}: no such file, and not one of the shipped {', '.join(known)}{near}")
    if path.resolve() in extended_by:
        raise ValueError(f"{label}: extends itself, by way of {len(extended_by)} file(s)")
    try:
        values = _parsed(label, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{label}: must be UTF-8 text ({error.reason} at byte {error.start})") from None
    if values is not None and not isinstance(values, dict):
        raise TypeError(f"{label}: must be a mapping of settings, got {validate.kind(values)}")
    base = (values or {}).pop(EXTENDS, None)
    settings = _checked(values or {}, label)
    if base is None:
        return settings
    if not isinstance(base, str) or not base:
        raise TypeError(f"{label}: {EXTENDS} must be the name of a file or of a shipped configuration, got {base!r:.40}")
    below = _file_settings(base, path.parent, f"{label}: {EXTENDS}: {base}", (*extended_by, path.resolve()))
    return {key: value for key, value in below.items() if key != "name"} | settings


def _parsed(label: str, text: str) -> Any:
    def construct_mapping(self: Any, node: Any, deep: bool = False) -> Any:
        """Refuses a key that stands twice, of which YAML libraries keep the last."""
        seen: set[str] = set()
        for key_node in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key_node.value in seen:
                raise ValueError(f"{label}: line {key_node.start_mark.line + 1}: {key_node.value} stands twice")
            seen.add(key_node.value)
        return yaml.SafeLoader.construct_mapping(self, node, deep)

    loader: Any = type("Loader", (yaml.SafeLoader,), {"construct_mapping": construct_mapping})
    loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark is not None else ""
        raise ValueError(f"{label}: {place}is not YAML: {getattr(error, 'problem', None) or error}") from None


def _override_settings(override: str) -> Values:
    key, equals, value = override.partition("=")
    key, label = key.strip(), f"--set {override}"
    if not equals or not key:
        raise ValueError(f"{label}: must be key=value, as in attack.shadow_models=8")
    if key in SECTIONS:
        raise ValueError(f"{label}: {key} is a section; set one of {', '.join(_names_in(key))}")
    return {key: _checked_value(key, _parsed(label, value), label)}


def _checked(values: Mapping[Any, Any], label: str) -> Values:
    """Dotted keys with checked values."""
    settings: Values = {}
    for key, value in values.items():
        if key not in SECTIONS:
            settings[str(key)] = _checked_value(str(key), value, label)
        elif isinstance(value, Mapping):
            settings |= {f"{key}.{inner}": _checked_value(f"{key}.{inner}", one, label) for inner, one in value.items()}
        elif value is not None:
            raise TypeError(f"{label}: {key} must be a mapping of settings, got {validate.kind(value)}")
    return settings


def _checked_value(key: str, value: Any, label: str) -> Any:
    if key not in KEYS:
        # what there is, where no name is near
        known = _names_in(key.partition(".")[0]) or [*(name for name in KEYS if "." not in name), *SECTIONS]
        raise ValueError(f"{label}: {key} is not a setting" + (suggestion(key) or f"; there are {', '.join(known)}"))
    try:
        return KEYS[key].check(key, value)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{label}: {error}") from None


def _names_in(section: str) -> list[str]:
    return [name for name in KEYS if name.startswith(f"{section}.")]
