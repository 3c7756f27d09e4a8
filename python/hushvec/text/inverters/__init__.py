"""Embeddings to text. Every inverter has `invert(embeddings) -> list[str]`, which post-processes released rows."""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec.text.inverters.protocol import Inverter, LawInverter
    from hushvec.text.inverters.public import PublicInverter
    from hushvec.text.inverters.trained import TrainedInverter
    from hushvec.text.inverters.vec2text.inverter import Vec2TextInverter

__all__ = ["Inverter", "LawInverter", "PublicInverter", "TrainedInverter", "Vec2TextInverter"]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "protocol": "Inverter LawInverter",
        "public": "PublicInverter",
        "trained": "TrainedInverter",
        "vec2text.inverter": "Vec2TextInverter",
    },
)
