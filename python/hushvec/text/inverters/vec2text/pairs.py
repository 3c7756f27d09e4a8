"""Which corrector belongs to which inversion model: by a corrector's config.json, or by their names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hushvec.embedders.checkpoints import CONFIG_FILE, CheckpointError, find_folder, require_file
from hushvec.text.inverters.vec2text.config import CORRECTOR, KINDS, CheckpointFields, read_fields
from hushvec.text.inverters.vec2text.loading import EXPECTED

# A corrector is named after its inversion model.
ENDING = "__correct"
# Those that vec2text itself loads.
PUBLISHED = {
    "jxm/gtr__nq__32": "jxm/gtr__nq__32__correct",
    "jxm/vec2text__openai_ada002__msmarco__msl128__hypothesizer": "jxm/vec2text__openai_ada002__msmarco__msl128__corrector",
}

Source = str | os.PathLike[str]


@dataclass(frozen=True)
class Pair:
    """Folders or hub ids of an inversion model and of its corrector, if it has one."""

    inversion: Source
    corrector: Source | None


def find_pair(path_or_id: Source, corrector: Source | None, num_steps: int | None) -> Pair:
    """The two checkpoints from one of them, or from both.

    Args:
        path_or_id: an inversion model; or a corrector, if no other is given.
        corrector: its corrector; None to look for it.
        num_steps: steps that will be taken; None for what the checkpoints are good for.
    """
    folder = find_folder(path_or_id, expected=EXPECTED, weights=False)
    fields = read_fields(require_file(folder, CONFIG_FILE, f"of a checkpoint; expected {EXPECTED}"))
    if corrector is None and fields.kind == CORRECTOR:
        return Pair(_inversion_of(path_or_id, fields), path_or_id)
    if corrector is None and num_steps != 0:
        corrector = _corrector_of(path_or_id, needed=bool(num_steps))
    return Pair(path_or_id, corrector)


def _corrector_of(inversion: Source, *, needed: bool) -> Source | None:
    folder = Path(inversion).expanduser()
    if not folder.is_dir():
        return PUBLISHED.get(str(inversion), f"{inversion}{ENDING}" if needed else None)
    beside = _beside(folder, folder.resolve().name + ENDING)
    if beside.is_dir():
        return beside
    if needed:
        raise CheckpointError(
            f"{folder} has no corrector, which num_steps > 0 needs; expected {beside}, or its folder or hub id as corrector=; "
            "num_steps = 0 is the inversion model alone"
        )
    return None


def _inversion_of(corrector: Source, fields: CheckpointFields) -> Source:
    folder = Path(corrector).expanduser()
    named = fields.inversion_source
    if named is not None:
        within = folder / named
        return within if folder.is_dir() and within.is_dir() else named
    if not folder.is_dir():
        published = {corrected: inversion for inversion, corrected in PUBLISHED.items()}
        if str(corrector) in published or str(corrector).endswith(ENDING):
            return published.get(str(corrector), str(corrector).removesuffix(ENDING))
        raise CheckpointError(f"{corrector} is {KINDS[CORRECTOR]}; {_BOTH}")
    name = folder.resolve().name
    beside = _beside(folder, name.removesuffix(ENDING))
    if name.endswith(ENDING) and beside.is_dir():
        return beside
    expected = f"its inversion model is expected in {beside}; " if name.endswith(ENDING) else ""
    raise CheckpointError(f"{folder} is {KINDS[CORRECTOR]}; {expected}{_BOTH}")


_BOTH = "give the inversion model, and this as corrector="


def _beside(folder: Path, name: str) -> Path:
    return folder.resolve().with_name(name)
