"""Loads the known answers of tests/evidence/known_answers/vectors."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

VECTORS = Path(__file__).parent / "vectors"


class KnownBlock(NamedTuple):
    name: str
    rounds: int
    key: bytes
    counter: int
    nonce: int
    words: np.ndarray  # uint32[16]


def known_blocks():
    found = []
    for path in sorted(VECTORS.glob("*.json")):
        for entry in json.loads(path.read_text())["vectors"]:
            found.append(
                KnownBlock(
                    name=f"{path.stem} {entry['name']} rounds {entry['rounds']}",
                    rounds=entry["rounds"],
                    key=bytes.fromhex(entry["key"]),
                    counter=entry["counter"],
                    nonce=int.from_bytes(bytes.fromhex(entry["nonce"]), "little"),
                    words=np.frombuffer(bytes.fromhex(entry["keystream"]), dtype="<u4"),
                )
            )
    return found
