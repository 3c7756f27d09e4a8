"""Embeddings to text. Every inverter has `invert(embeddings) -> list[str]`, which post-processes released rows."""

from hushvec._util.lazy import at_first_use

__all__ = ["Inverter", "LawInverter", "PublicInverter", "TrainedInverter", "Vec2TextInverter"]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "Inverter": "protocol",
        "LawInverter": "protocol",
        "PublicInverter": "public",
        "TrainedInverter": "trained.inverter",
        "Vec2TextInverter": "vec2text.inverter",
    },
)
