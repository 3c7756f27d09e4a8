"""Settings of a study as pydantic models: strict types, errors of one line, and the command-line options that go with them.

An error names the setting, the rule and the value: TypeError for the wrong kind of thing, ValueError for the wrong value.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)

from hushvec.cli._parser import number_or_infinity
from hushvec.extend.helpers import nearest_of

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
_Model = TypeVar("_Model", bound="Settings")
_Item = TypeVar("_Item")


class Settings(BaseModel):
    """The base of all settings: frozen, and strict about types and names; a command line gives those of `places` without a name."""

    model_config = STRICT
    places: ClassVar[tuple[str, ...]] = ()


# ---- types ----

def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _infinity(value: Any) -> Any:
    """Infinity may be a word; what is not a number is refused here, as the bounds of a field let it pass."""
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("must be finite or inf, got nan")
    return math.inf if value == "inf" else value


def in_words(value: Any) -> Any:
    """A number as JSON can say it: infinity is the word "inf"."""
    return "inf" if value == math.inf else value


def as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def distinct(values: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """A repeated value would ask for the same rows twice."""
    for place, one in enumerate(values):
        if one in values[:place]:
            raise ValueError(f"must not name anything twice, got {one!r} again")
    return values


def one_of(choices: Collection[str]) -> AfterValidator:
    """Of these names only; the nearest one is suggested."""

    def check(value: str) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, got {value!r}{nearest_of(value, list(choices))}")
        return value

    return AfterValidator(check)


Text = Annotated[str, AfterValidator(_not_blank)]
Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Epsilon = Annotated[float, AllowInfNan(), Field(gt=0), BeforeValidator(_infinity), PlainSerializer(in_words, when_used="json")]
Listed = Annotated[tuple[_Item, ...], BeforeValidator(as_tuple)]
Several = Annotated[tuple[_Item, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Distinct = Annotated[tuple[_Item, ...], BeforeValidator(as_tuple), Field(min_length=1), AfterValidator(distinct)]
DistinctOrNone = Annotated[tuple[_Item, ...], BeforeValidator(as_tuple), AfterValidator(distinct)]


# ---- checks and their errors ----

def checked(kind: type[_Model], values: Mapping[str, Any]) -> _Model:
    """The model with these values.

    Raises:
        ValueError, TypeError: the first setting that is wrong.
    """
    found: _Model = _checked(lambda: kind(**values), "")
    return found


def check_of(kind: type[Settings], name: str) -> Callable[[str, Any], Any]:
    """A function of a dotted name and a value that gives back the value as one field of the model has it."""
    field = kind.model_fields[name]
    declared: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    adapter: TypeAdapter[Any] = TypeAdapter(declared, config=STRICT)
    return lambda place, value: _checked(lambda: adapter.validate_python(value), place)


def _checked(validate: Callable[[], Any], place: str) -> Any:
    try:
        return validate()
    except ValidationError as error:
        refusal = _refusal(error.errors(include_url=False)[0], place)
    raise refusal


def _refusal(error: Mapping[str, Any], place: str) -> Exception:
    name = place + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    name, value, limits = name.lstrip("."), error["input"], error.get("ctx", {})
    if error["type"] in _KINDS:
        return TypeError(f"{name} must be {_KINDS[error['type']]}, got {word_for(value)}")
    if error["type"] in _BOUNDS:
        sign, limit = _BOUNDS[error["type"]]
        return ValueError(f"{name} must be {sign} {limits[limit]:g}, got {value!r:.40}")
    texts: dict[str, Callable[[], str]] = {
        "value_error": lambda: str(limits["error"]),
        "finite_number": lambda: f"must be finite, got {value!r:.40}",
        "multiple_of": lambda: f"must be a multiple of {limits['multiple_of']}, got {value}",
        "too_short": lambda: "must not be empty" if not value else f"must have {limits['min_length']} elements, got {len(value)}",
        "too_long": lambda: f"must have {limits['max_length']} elements, got {len(value)}",
        "missing": lambda: "must be given",
        "extra_forbidden": lambda: "is not a setting",
    }
    said = texts[error["type"]]() if error["type"] in texts else str(error["msg"])
    return ValueError(f"{name} {said}")


_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
}
_BOUNDS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": (">=", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("<=", "le"),
}


def word_for(value: Any) -> str:
    """What YAML made of a value, in YAML's words."""
    words = {type(None): "nothing", bool: "true or false", dict: "a mapping", list: "a list", tuple: "a list", str: "a text"}
    return words.get(type(value), f"the number {value!r:.40}" if isinstance(value, int | float) else type(value).__name__)


# ---- the command line ----

def parsed(description: str, kind: type[_Model]) -> _Model:
    """The settings of a program, from its command line; one that is wrong ends the program with one line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, kind)
    try:
        return checked(kind, given(parser.parse_args(), kind))
    except (ValueError, TypeError) as error:
        parser.error(str(error))


def add_options(parser: argparse.ArgumentParser, kind: type[Settings]) -> None:
    """An option for every field that has a description, which is its help: a flag for those that are true or false, no name for
    those that `kind.places` lists. One without a default has to be given."""
    for name, field in kind.model_fields.items():
        if field.description is None:
            continue
        flags = [*(["-o"] if name == "output" else []), f"--{name.replace('_', '-')}"]
        element, several = _element(field.annotation)
        if element is bool:
            parser.add_argument(*flags, action="store_true", help=field.description)
            continue
        default = None if field.is_required() else field.default
        words = " ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in (default or () if several else [default]))
        known: dict[str, Any] = {} if name in kind.places else {"default": default, "required": field.is_required()}
        parser.add_argument(
            *([name] if name in kind.places else flags),
            type=number_or_infinity if element is float else element,
            nargs="*" if several else None,
            metavar=name.upper(),
            help=(field.description if default in (None, ()) else f"{field.description} (default: {words})").replace("%", "%%"),
            **known,
        )


def _element(annotation: Any) -> tuple[Any, bool]:
    """The type of one word on the command line, and whether there may be several."""
    several = False
    while get_origin(annotation) is not None:
        several |= get_origin(annotation) is tuple
        annotation = get_args(annotation)[0]
    return annotation, several


def given(options: argparse.Namespace, kind: type[Settings]) -> dict[str, Any]:
    return {name: getattr(options, name) for name, field in kind.model_fields.items() if field.description is not None}


def as_json(settings: Settings) -> dict[str, Any]:
    """The settings for a file of results: without paths of this machine."""
    paths = {name for name, field in type(settings).model_fields.items() if _element(field.annotation)[0] is Path}
    return settings.model_dump(mode="json", exclude=paths)
