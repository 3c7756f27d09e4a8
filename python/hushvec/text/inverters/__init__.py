"""Embeddings to text. Every inverter has `invert(embeddings) -> list[str]`, which post-processes released rows."""

from hushvec._util.lazy import at_first_use

with at_first_use(globals()):
    from hushvec.text.inverters.protocol import Inverter, LawInverter
    from hushvec.text.inverters.public import PublicInverter
    from hushvec.text.inverters.trained import TrainedInverter
    from hushvec.text.inverters.vec2text.inverter import Vec2TextInverter

__all__ = ["Inverter", "LawInverter", "PublicInverter", "TrainedInverter", "Vec2TextInverter"]
