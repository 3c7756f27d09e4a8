"""What a configuration of a study may say: every key with its check, its default and its meaning.

A section is a frozen dataclass whose fields are made by `_setting`; `KEYS` lists them all under their dotted names. A check takes the
dotted name and the value that YAML gave, and returns the value as the study uses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple, get_type_hints

from hushvec._util import validate
from hushvec._util.near_names import nearest, nearest_of
from hushvec.study.columns import ATTACKS, MECHANISMS

Check = Callable[[str, Any], Any]

SPLITS = ("train", "val", "test", "all")
SIDES = ("document", "query", "score")
VECTOR_NOISE = ("gaussian", "laplacian", "l2_laplace", "privunit", "empirical")
SCORE_NOISE = ("gaussian", "laplacian", "gumbel")
STORES = ("flat", "numpy", "hnsw", "ivf")
PROJECTIONS = ("none", "mean", "pca", "whiten")
_WITH_DIMENSION = ("pca", "whiten")
EXTENDS = "extends"
_FAMILY_FIELDS = ("name", "vectors", "scores", "sigma", "corpus_size")
_FEWEST_SHADOWS = 4
_LARGEST_SEED = 2**32 - 1


class NoiseFamily(NamedTuple):
    """The mechanisms of one comparison: one for vectors (documents and queries), one for scores.

    Args:
        name: of the family in tables.
        vectors: a mechanism of hushvec.privatize, or None: the family has none for vectors.
        scores: a mechanism of ScoreNoise, or None: the family has none for scores.
        sigma: standard deviation of "empirical"; such a family has one run for each side, whatever epsilons are asked for.
        corpus_size: split the epsilon of "privunit" for a search among the indexed documents.
    """

    name: str
    vectors: str | None
    scores: str | None
    sigma: float | None = None
    corpus_size: bool = False


# What a configuration may name instead of spelling a family out.
FAMILIES = {
    family.name: family
    for family in (
        NoiseFamily("gaussian", "gaussian", "gaussian"),
        NoiseFamily("pure", "privunit", "laplacian"),
        NoiseFamily("pure_search", "privunit", None, corpus_size=True),
        NoiseFamily("laplacian", "laplacian", "laplacian"),
        NoiseFamily("l2_laplace", "l2_laplace", None),
        NoiseFamily("gumbel", None, "gumbel"),
    )
}


# ---- checks ----


def _optional(check: Check, name: str, value: Any) -> Any:
    return None if value is None else check(name, value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, got {_kind(value)}")
    if not value.strip():
        raise ValueError(f"{name} must not be empty")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, got {_kind(value)}")
    return value


def _whole(low: int, high: int | None, name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {_kind(value)}")
    if high is not None and not low <= value <= high:
        raise ValueError(f"{name} must be in [{low}, {high}], got {value}")
    return validate.whole_number(name, value, at_least=low)


def _even(name: str, value: Any) -> int:
    count = _whole(2, 4096, name, value)
    if count % 2:
        raise ValueError(f"{name} must be even, got {count}")
    return count


def _open_unit(name: str, value: Any) -> float:
    """A number above 0 and below 1."""
    return validate.probability(name, _number(name, value))


def _number(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {_kind(value)}")
    return validate.number(name, value)


def _epsilon(name: str, value: Any) -> float:
    """A number above 0; infinity, as a number or as a word, stands for no noise."""
    if value == "inf" or (isinstance(value, float) and value == math.inf):
        return math.inf
    return validate.positive(name, _number(name, value))


def _choice(choices: Sequence[str], name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(choices)}, got {_kind(value)}")
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}{nearest_of(value, choices)}")
    return value


def _list(check: Check, name: str, value: Any, *, may_be_empty: bool = False, length: int | None = None) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} must be a list, got {_kind(value)}")
    if not value and not may_be_empty:
        raise ValueError(f"{name} must not be empty")
    if length is not None and len(value) != length:
        raise ValueError(f"{name} must have {length} elements, got {len(value)}")
    return tuple(check(f"{name}[{place}]", one) for place, one in enumerate(value))


def _distinct(check: Check, name: str, value: Any, *, may_be_empty: bool = False) -> tuple[Any, ...]:
    """A list without repetitions: a repeated value would ask for the same rows twice."""
    values = _list(check, name, value, may_be_empty=may_be_empty)
    for place, one in enumerate(values):
        if one in values[:place]:
            raise ValueError(f"{name} must not name anything twice, got {value[place]!r} again")
    return values


def _shares(name: str, value: Any) -> tuple[float, ...] | str:
    """Three shares that add up to 1, or the word "given": the splits that the texts come with."""
    if value == "given":
        return "given"
    if isinstance(value, str):
        raise ValueError(f"{name} must be three shares or 'given', got {value!r}")
    shares = _list(_open_unit, name, value, length=3)
    if abs(math.fsum(shares) - 1) > 1e-9:
        raise ValueError(f"{name} must add up to 1, got {math.fsum(shares)!r}")
    return shares


def _token_range(name: str, value: Any) -> tuple[int, int]:
    low, high = _list(partial(_whole, 1, 20), name, value, length=2)
    if low > high:
        raise ValueError(f"{name} must be the least and the most, got {low} before {high}")
    return low, high


def _sides(name: str, value: Any) -> str:
    """Two or three sides, as in "document+query", in the order in which they act."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be sides joined by +, got {_kind(value)}")
    sides = [_choice(SIDES, name, part.strip()) for part in value.split("+")]
    if len(sides) < 2 or len(set(sides)) != len(sides):
        raise ValueError(f"{name} must join two or three different sides by +, got {value!r}")
    return "+".join(side for side in SIDES if side in sides)


def _projection(name: str, value: Any) -> str:
    """A public map: none, mean, or principal components, as in "pca:64" and, brought to equal spread, "whiten:256"."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, got {_kind(value)}")
    kind, colon, dimension = value.partition(":")
    if kind in PROJECTIONS and bool(colon) == (kind in _WITH_DIMENSION):
        if colon and not (dimension.isdecimal() and int(dimension) > 0):
            raise ValueError(f"{name} must name a dimension after '{kind}:', got {value!r}")
        return value
    near = nearest_of(kind, PROJECTIONS) if kind not in PROJECTIONS else ""
    raise ValueError(f"{name} must be none, mean, pca:DIMENSION or whiten:DIMENSION, got {value!r}{near}")


def _family(name: str, value: Any) -> NoiseFamily:
    """The name of a family, or a mapping that spells one out."""
    if isinstance(value, str):
        return FAMILIES[_choice(tuple(FAMILIES), name, value)]
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be the name of a noise family or a mapping, got {_kind(value)}")
    for key in value:
        if key not in _FAMILY_FIELDS:
            raise ValueError(f"{name}.{key} is not a setting{nearest_of(str(key), _FAMILY_FIELDS)}")
    family = NoiseFamily(
        name=_text(f"{name}.name", value.get("name")),
        vectors=_optional(partial(_choice, VECTOR_NOISE), f"{name}.vectors", value.get("vectors")),
        scores=_optional(partial(_choice, SCORE_NOISE), f"{name}.scores", value.get("scores")),
        sigma=_optional(lambda key, given: validate.positive(key, _number(key, given)), f"{name}.sigma", value.get("sigma")),
        corpus_size=_flag(f"{name}.corpus_size", value.get("corpus_size", False)),
    )
    if family.vectors is None and family.scores is None:
        raise ValueError(f"{name} must name a mechanism for vectors, for scores, or both")
    if (family.vectors == "empirical") != (family.sigma is not None):
        raise ValueError(f"{name}.sigma must be given with vectors: empirical, and only then")
    if family.vectors == "empirical" and family.scores is not None:
        raise ValueError(f"{name} must not have scores with vectors: empirical, which has no epsilon to share")
    if family.corpus_size and family.vectors != "privunit":
        raise ValueError(f"{name}.corpus_size is for vectors: privunit only")
    return family


def _families(name: str, value: Any) -> tuple[NoiseFamily, ...]:
    families = _list(_family, name, value)
    names = [family.name for family in families]
    for place, one in enumerate(names):
        if one in names[:place]:
            raise ValueError(f"{name} must not name anything twice, got {one!r} again")
    return families


def _ablated(name: str, value: Any) -> dict[str, tuple[Any, ...]]:
    """Dotted keys of the configuration, each with the values that it takes in turn."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping of settings to lists, got {_kind(value)}")
    for key in value:
        if key not in KEYS or str(key).startswith(("ablate", "robustness", "name")):
            raise ValueError(f"{name}: {key} is not a setting{suggestion(str(key))}")
    return {key: _distinct(partial(_value_of, key), f"{name}.{key}", values) for key, values in value.items()}


def _value_of(key: str, place: str, value: Any) -> Any:
    """The value that a setting takes at some place of a list."""
    return KEYS[key].check(key, value)


def _kind(value: Any) -> str:
    """What YAML made of a value, in YAML's words."""
    words = {type(None): "nothing", bool: "true or false", dict: "a mapping", list: "a list", str: "a text"}
    return words.get(type(value), f"the number {value!r}" if isinstance(value, int | float) else validate.kind(value))


# ---- sections ----


def _setting(default: Any, check: Check, meaning: str) -> Any:
    return field(default=default, metadata={"check": check, "meaning": meaning})


@dataclass(frozen=True)
class Data:
    """Which texts."""

    source: str = _setting("20newsgroups", _text, "20newsgroups, a folder of .txt, or a .jsonl file (.xz, .gz)")
    data_home: str | None = _setting(None, partial(_optional, _text), "folder in which scikit-learn keeps 20 Newsgroups")
    categories: tuple[str, ...] | None = _setting(None, partial(_optional, partial(_distinct, _text)), "of these only; null: all")
    min_tokens: int = _setting(50, partial(_whole, 0, None), "shorter texts are left out")
    splits: tuple[float, ...] | str = _setting(
        (0.70, 0.15, 0.15), _shares, "shares of train, val, test; given: those of the file"
    )
    split: str = _setting("train", partial(_choice, SPLITS), "the split that is indexed and searched")
    max_documents: int | None = _setting(None, partial(_optional, partial(_whole, 4, None)), "at most so many, drawn by the seed")


@dataclass(frozen=True)
class Embedding:
    """Which vectors."""

    model: str = _setting("all-MiniLM-L6-v2", _text, "name of the embedding model")
    cache: str | None = _setting(None, partial(_optional, _text), "folder of the embedding cache; null: below the study's folder")


@dataclass(frozen=True)
class Queries:
    """What is searched for."""

    per_document: int = _setting(3, partial(_whole, 1, 50), "key phrases of each document, at most")
    tokens: tuple[int, int] = _setting((3, 5), _token_range, "least and most tokens of a key phrase")


@dataclass(frozen=True)
class Privacy:
    """Which noise, where."""

    mechanisms: tuple[str, ...] = _setting(MECHANISMS, partial(_distinct, partial(_choice, MECHANISMS)), "where noise is put")
    combined: tuple[str, ...] = _setting(
        ("document+query",), partial(_distinct, _sides), "sides of the mechanism combined, each with the whole epsilon"
    )
    epsilons: tuple[float, ...] = _setting(
        (math.inf, 20.0, 10.0, 5.0, 2.5), partial(_distinct, _epsilon), "of one vector, or of one query's scores; inf: no noise"
    )
    delta: float = _setting(1e-5, _open_unit, "for the Gaussian kinds")
    noise: tuple[NoiseFamily, ...] = _setting((FAMILIES["gaussian"], FAMILIES["pure"]), _families, "families of mechanisms")
    projections: tuple[str, ...] = _setting(("none",), partial(_distinct, _projection), "public maps before the noise")
    public_split: str | None = _setting(
        None,
        partial(_optional, partial(_choice, SPLITS[:3])),
        "split that public maps are fitted on; null: val, or train for val",
    )
    renormalize: bool = _setting(True, _flag, "bring noisy vectors to unit length, so that scores are cosines")


@dataclass(frozen=True)
class Retrieval:
    """How it is searched."""

    k: tuple[int, ...] = _setting(
        (1, 5, 10), partial(_distinct, partial(_whole, 1, 1000)), "documents that a search answers with"
    )
    store: str = _setting("flat", partial(_choice, STORES), "index that holds the vectors")
    latency_queries: int = _setting(200, partial(_whole, 1, 100_000), "queries that are timed one by one")


@dataclass(frozen=True)
class Attack:
    """Who attacks."""

    attacks: tuple[str, ...] = _setting(
        tuple(ATTACKS), partial(_distinct, partial(_choice, tuple(ATTACKS)), may_be_empty=True), "membership attacks; []: none"
    )
    own_vector: bool = _setting(
        True, _flag, "the adversary also asks with the candidate's own vector, and not with its key phrases alone"
    )
    shadow_models: int = _setting(16, _even, "indexes of the adversary's own to learn from; even")
    target_models: int = _setting(1, partial(_whole, 1, 64), "indexes that attacks are judged on; more make intervals narrower")
    candidates: int | None = _setting(None, partial(_optional, partial(_whole, 8, None)), "documents in the game; null: all")


@dataclass(frozen=True)
class Statistics:
    """How sure."""

    confidence: float = _setting(0.95, _open_unit, "of every interval")
    resamples: int = _setting(1000, partial(_whole, 10, 1_000_000), "of the bootstrap")


@dataclass(frozen=True)
class Robustness:
    """What `study robustness` repeats the runs on."""

    splits: tuple[str, ...] = _setting(
        ("val", "test"), partial(_distinct, partial(_choice, SPLITS), may_be_empty=True), "other splits"
    )
    models: tuple[str, ...] = _setting((), partial(_distinct, _text, may_be_empty=True), "other embedding models")
    seeds: tuple[int, ...] = _setting(
        (2026, 2027), partial(_distinct, partial(_whole, 0, _LARGEST_SEED), may_be_empty=True), "other seeds"
    )


@dataclass(frozen=True)
class Configuration:
    """A study, every setting checked. Made by `hushvec.study.load_configuration`."""

    name: str = _setting("study", _text, "name of the study; default: the file's")
    seed: int = _setting(2025, partial(_whole, 0, _LARGEST_SEED), "of splits, noise and resampling")
    data: Data = field(default_factory=Data)
    embedding: Embedding = field(default_factory=Embedding)
    queries: Queries = field(default_factory=Queries)
    privacy: Privacy = field(default_factory=Privacy)
    retrieval: Retrieval = field(default_factory=Retrieval)
    attack: Attack = field(default_factory=Attack)
    statistics: Statistics = field(default_factory=Statistics)
    ablate: Mapping[str, tuple[Any, ...]] = field(
        default_factory=lambda: {"queries.per_document": (1, 3, 5)},
        hash=False,
        metadata={"check": _ablated, "meaning": "settings that `study ablate` varies, one at a time, with their values"},
    )
    robustness: Robustness = field(default_factory=Robustness)

    def __post_init__(self) -> None:
        attack = self.attack
        if "likelihood" in attack.attacks and attack.shadow_models < _FEWEST_SHADOWS:
            raise ValueError(
                f"attack.shadow_models must be >= {_FEWEST_SHADOWS} for the attack 'likelihood', got {attack.shadow_models}"
            )


class Key(NamedTuple):
    """A setting under its dotted name."""

    check: Check
    default: Any
    meaning: str


def _keys(section: type, prefix: str = "") -> dict[str, Key]:
    found: dict[str, Key] = {}
    kinds = get_type_hints(section)
    for one in fields(section):
        if is_dataclass(kinds[one.name]):
            found |= _keys(kinds[one.name], f"{prefix}{one.name}.")
        else:
            found[prefix + one.name] = Key(one.metadata["check"], _default(one), one.metadata["meaning"])
    return found


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


KEYS = _keys(Configuration)
SECTIONS = tuple(dict.fromkeys(name.partition(".")[0] for name in KEYS if "." in name))


def suggestion(name: str) -> str:
    """`, did you mean 'attack.shadow_models'?`: of the same section, else of the same last name, else by the whole name."""
    section, _, last = name.rpartition(".")
    own = nearest(last, [key.partition(".")[2] for key in KEYS if key.startswith(f"{section}.")]) if section in SECTIONS else None
    elsewhere = (key for key in KEYS if key.rpartition(".")[2] == last)
    found = f"{section}.{own}" if own else next(elsewhere, None)
    if found or section in SECTIONS:
        return f", did you mean {found!r}?" if found else ""
    return nearest_of(name, [*KEYS, *SECTIONS, EXTENDS])
