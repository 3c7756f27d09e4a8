"""From YAML files and overrides to a checked `Configuration`, and back to plain values.

A file may say `extends:` another file (beside it) or a shipped configuration (by name). Mappings are merged key by key, everything
else is replaced; `ablate`, whose keys are settings themselves, is replaced too. Each file and each override is checked on its own, so
that an error names the one that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from hushvec._util import validate
from hushvec._util.validate import nearest_of
from hushvec_studies.harness.settings import checked
from hushvec_studies.retrieval.schema import EXTENDS, KEYS, SECTIONS, Configuration, suggestion

Values = dict[str, Any]

_SUFFIXES = (".yaml", ".yml")
# YAML 1.1 takes 1e-5 for a text, as it has no point.
_NUMBER = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


def load_configuration(source: str | Path, overrides: Sequence[str] = ()) -> Configuration:
    """Read, merge and check a configuration.

    Args:
        source: a YAML file, or the name of a shipped configuration (`shipped()` lists them).
        overrides: `a.b=value` each, the value in YAML; they win over the file, the last one over earlier ones.

    Returns:
        The configuration, every setting checked, defaults filled in.

    Raises:
        FileNotFoundError: neither a file nor a shipped name; the nearest shipped one is suggested.
        ValueError, TypeError: not YAML, an unknown key (the nearest valid one is suggested), a key that stands twice, a value out of
            range or of the wrong kind, files that extend each other in a circle.

    Example:
        >>> configuration = load_configuration("doc_ldp", ["attack.shadow_models=8"])
        >>> configuration.name, configuration.seed, configuration.attack.shadow_models
        ('doc_ldp', 2025, 8)
    """
    settings = _file_settings(source, ())
    for override in overrides:
        settings |= _override_settings(override)
    settings.setdefault("name", _name(source))
    return _configuration(settings)


def shipped() -> list[str]:
    """Names of the configurations that come with the package."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _shipped_folder().iterdir() if entry.name.endswith(".yaml"))


def to_values(configuration: Configuration) -> Values:
    """Every setting as YAML and JSON know it: nested mappings of texts, numbers and lists; infinity is the word "inf"."""
    return configuration.model_dump(mode="json")


def from_values(values: Mapping[str, Any]) -> Configuration:
    """The configuration that `to_values` was given.

    Raises:
        ValueError, TypeError: as `load_configuration`.
    """
    return _configuration(_checked(values, "configuration"))


def with_settings(configuration: Configuration, changes: Mapping[str, Any]) -> Configuration:
    """The same configuration with other values at dotted keys; the values are taken as checked ones."""
    flat: Values = {key: _at(configuration, key) for key in KEYS}
    return _configuration(flat | dict(changes))


def _at(configuration: Configuration, key: str) -> Any:
    section, _, inner = key.rpartition(".")
    return getattr(getattr(configuration, section) if section else configuration, inner)


# ---- files ----


def _shipped_folder() -> Any:
    return resources.files("hushvec_studies.retrieval") / "configs"


def _file_settings(source: str | Path, extended_by: tuple[str, ...]) -> Values:
    """Dotted keys and checked values of a file and of those it extends."""
    path = Path(source)
    if not path.is_file():
        _require_shipped(str(source), str(source))
        return _settings_of(str(source), _shipped_text(str(source)), None, extended_by)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: must be UTF-8 text ({error.reason} at byte {error.start})") from None
    identity = str(path.resolve())
    if identity in extended_by:
        raise ValueError(f"{source}: extends itself, by way of {len(extended_by)} file(s)")
    return _settings_of(str(source), text, path.parent, (*extended_by, identity))


def _settings_of(label: str, text: str, folder: Path | None, extended_by: tuple[str, ...]) -> Values:
    values = _mapping(label, text)
    base = values.pop(EXTENDS, None)
    settings = _checked(values, label)
    if base is None:
        return settings
    if not isinstance(base, str) or not base:
        raise TypeError(f"{label}: {EXTENDS} must be the name of a file or of a shipped configuration, got {base!r:.40}")
    if folder is not None and (folder / base).is_file():
        below = _file_settings(folder / base, extended_by)
    else:
        _require_shipped(base, f"{label}: {EXTENDS}: {base}")
        below = _settings_of(base, _shipped_text(base), None, extended_by)
    return {key: value for key, value in below.items() if key != "name"} | settings


def _require_shipped(name: str, label: str) -> None:
    known = shipped()
    if name not in known:
        raise FileNotFoundError(f"{label}: no such file, and not one of the shipped {', '.join(known)}{nearest_of(name, known)}")


def _shipped_text(name: str) -> str:
    text: str = (_shipped_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    return text


def _name(source: str | Path) -> str:
    path = Path(source)
    return path.stem if path.suffix in _SUFFIXES else path.name


def _mapping(label: str, text: str) -> Values:
    values = _parsed(label, text)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise TypeError(f"{label}: must be a mapping of settings, got {validate.kind(values)}")
    return values


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
    key = key.strip()
    label = f"--set {override}"
    if not equals or not key:
        raise ValueError(f"{label}: must be key=value, as in attack.shadow_models=8")
    if key in SECTIONS:
        raise ValueError(
            f"{label}: {key} is a section; set one of {', '.join(name for name in KEYS if name.startswith(key + '.'))}"
        )
    return {key: _checked_value(key, _parsed(label, value), label)}


# ---- checks ----


def _checked(values: Mapping[Any, Any], label: str) -> Values:
    """Dotted keys with checked values."""
    settings: Values = {}
    for key, value in values.items():
        if key in SECTIONS:
            if value is None:
                continue
            if not isinstance(value, Mapping):
                raise TypeError(f"{label}: {key} must be a mapping of settings, got {validate.kind(value)}")
            settings |= {f"{key}.{inner}": _checked_value(f"{key}.{inner}", one, label) for inner, one in value.items()}
        else:
            settings[str(key)] = _checked_value(str(key), value, label)
    return settings


def _checked_value(key: str, value: Any, label: str) -> Any:
    if key not in KEYS:
        raise ValueError(f"{label}: {key} is not a setting{suggestion(key) or _of_its_section(key)}")
    try:
        return KEYS[key].check(key, value)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{label}: {error}") from None


def _of_its_section(key: str) -> str:
    """What there is, where no name is near."""
    section = key.partition(".")[0]
    names = [name for name in KEYS if section in SECTIONS and name.startswith(section + ".")]
    return f"; there are {', '.join(names or [*(name for name in KEYS if '.' not in name), *SECTIONS])}"


# ---- configurations ----


def _configuration(settings: Mapping[str, Any]) -> Configuration:
    """From dotted keys."""
    values: Values = {}
    for key, value in settings.items():
        section, dot, inner = key.partition(".")
        if dot:
            values.setdefault(section, {})[inner] = value
        else:
            values[key] = value
    return checked(
        Configuration, {name: SECTIONS[name](**value) if name in SECTIONS else value for name, value in values.items()}
    )
