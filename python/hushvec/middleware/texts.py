"""How long a text for a model may be."""

from __future__ import annotations

# A model reads the first few hundred tokens of a text; one far longer than that is a mistake, and costs a long tokenization.
MOST_CHARACTERS = 100_000


def require_length(name: str, text: str, position: int, max_characters: int) -> None:
    """Refuse the text at a position of the argument `name` if it is too long."""
    if len(text) > max_characters:
        raise ValueError(
            f"{name} must have at most {max_characters} characters each, got {len(text)} at position {position} "
            "(a model reads only the beginning: split the text, or raise max_characters)"
        )
