"""Detectors by name, for a command line or a policy: `presidio`, `spacy=PIPELINE`, `classifier=FOLDER`, `gliner=FOLDER`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hushvec.text.pii.spans import Detector


def _presidio(where: str) -> Detector:
    from hushvec.integrations.presidio import PresidioDetector

    return PresidioDetector()


def _spacy(where: str) -> Detector:
    from hushvec.integrations.spacy import SpacyDetector

    return SpacyDetector(where)


def _classifier(where: str) -> Detector:
    from hushvec.integrations.token_classifier import TokenClassifierDetector

    return TokenClassifierDetector(where)


def _gliner(where: str) -> Detector:
    from hushvec.integrations.gliner import GlinerDetector

    return GlinerDetector(where)


# kind -> (what makes it, what stands behind the sign of equality; "" for nothing)
_KINDS: dict[str, tuple[Callable[[str], Detector], str]] = {
    "presidio": (_presidio, ""),
    "spacy": (_spacy, "PIPELINE"),
    "classifier": (_classifier, "FOLDER"),
    "gliner": (_gliner, "FOLDER"),
}
FORMS = tuple(f"{kind}={where}" if where else kind for kind, (_, where) in _KINDS.items())


@cache
def detector(entry: str) -> Detector:
    """The detector of an entry, loaded once in a process; nothing is downloaded.

    Args:
        entry: `presidio` (pattern recognizers without a model), `spacy=PIPELINE` (a folder or an installed package),
            `classifier=FOLDER` (a token classification model of transformers) or `gliner=FOLDER`.

    Raises:
        ValueError: the entry has none of these forms.
        MissingExtraError: its library is not installed.
        OSError: there is no such model.
    """
    kind, sign, where = entry.partition("=")
    make, wanted = _KINDS.get(kind, (None, ""))
    if make is None or bool(sign and where) != bool(wanted):
        raise ValueError(f"detector must be {', '.join(FORMS[:-1])} or {FORMS[-1]}, got {entry!r:.80}")
    return make(where)
