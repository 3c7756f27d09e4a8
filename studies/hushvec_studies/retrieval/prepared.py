"""Indexes and attack models of runs, kept in a folder so that a rerun loads them and does not make them again.

    FOLDER/DIGEST/run.json     what decided the noise here, ready for JSON: a run that differs in any of it is refused
    FOLDER/DIGEST/index/       the index that recall is measured on, with its receipts (PrivateIndex.save)
    FOLDER/DIGEST/attack/      game.npz: who was in which index of the membership game, and what each answered
                               game.json: its root, SHA-256 of game.npz, and the trained classifier of each k
                               target-0/, shadow-0/, ...: the indexes whose rows an attack reads

Attacks, rates, intervals and timings are judged anew from these; a rerun with the same settings gives the same figures. The folder
holds vectors: it is as private as the texts, and for a run without noise it holds them as they are.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hushvec
from hushvec.audit.targets import Logistic
from hushvec.extend.helpers import private_folder, published_folder, published_text
from hushvec.retrieval import PrivateIndex
from hushvec.retrieval.attacks.shadows import Game, Model
from hushvec_studies.harness.measurements import digest_of, dotted
from hushvec_studies.retrieval.plan import Run

FORMAT = 1
_RUN, _INDEX, _ATTACK, _GAME, _ARRAYS = "run.json", "index", "attack", "game.json", "game.npz"
_OF_MODELS = ("members", "pairs", "coins", "slots", "ids")


def prepared_for(run: Run, inputs: str) -> Prepared | None:
    """What is kept of a run on inputs of this digest, None where nothing is; ValueError: the folder holds another run's."""
    folder = run.configuration.retrieval.prepared
    return None if folder is None else Prepared(Path(folder), run, run.drawing(inputs, hushvec.__version__))


class Prepared:
    """What is kept of one run. Made by `prepared_for`.

    Guarantees:
        Each part appears whole or not at all, and is loaded only where everything agrees that decided it: settings, vectors and
        version. A file that was changed is refused by its SHA-256.
    """

    def __init__(self, folder: Path, run: Run, key: Mapping[str, Any]) -> None:
        self._folder = folder / digest_of(key)[:32]
        self._key = key
        self._noisy_documents = "document" in run.sides
        if self._folder.exists():
            self._require_same()

    def index(self, stream: hushvec.Generator) -> tuple[PrivateIndex, float] | None:
        """The index, and the seconds that it took to build; None if none is kept.

        `stream` is the new key stream that the index was built with. What building drew from it is passed over, so that noise on
        queries and scores is that of the first search and shares no key stream with the documents' noise.

        Raises:
            ValueError: a file is missing or is not what was saved.
        """
        if not (self._folder / _INDEX).is_dir():
            return None
        index = PrivateIndex.load(self._folder / _INDEX, generator=stream)
        if self._noisy_documents:
            hushvec.gaussian_noise(1, generator=stream)  # one call, as adding the documents was
        return index, float(self._said()["index_build_time_s"])

    def keep_index(self, index: PrivateIndex, seconds: float) -> None:
        """Keep an index that was built and not searched yet."""
        private_folder(self._folder.parent)
        private_folder(self._folder)
        with published_text(self._folder / _RUN) as file:
            json.dump({"format": FORMAT, "key": self._key, "index_build_time_s": seconds}, file, indent=1)
        with published_folder(self._folder / _INDEX) as beside:
            index.save(beside)

    def attack(self) -> tuple[Game, dict[int, Logistic]] | None:
        """The game and the classifier of each k, None if none is kept; ValueError: a file is not what was saved."""
        folder = self._folder / _ATTACK
        if not folder.is_dir():
            return None
        try:
            said = json.loads((folder / _GAME).read_text(encoding="utf-8"))
            content = (folder / _ARRAYS).read_bytes()
            if hashlib.sha256(content).hexdigest() != said["sha256"]:
                raise ValueError(f"{_ARRAYS} is not what was saved: its SHA-256 is another")
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                game = _game(said, arrays, folder)
            classifiers = {int(k): _classifier(one) for k, one in said["classifiers"].items()}
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{folder}: must hold the attack models of a run; remove it to make them again ({error})") from None
        return game, classifiers

    def keep_attack(self, game: Game, classifiers: Mapping[int, Logistic]) -> None:
        """Keep a game that was played, and the classifiers that were trained on it."""
        models = [*game.targets, *game.shadows]
        arrays: dict[str, Any] = {name: np.stack([getattr(model, name) for model in models]) for name in _OF_MODELS}
        arrays["ids"] = arrays["ids"].astype(np.int32)  # at most one for each document of a study
        if all(model.scores is not None for model in models):
            arrays["scores"] = np.stack([model.scores for model in models if model.scores is not None])
        content = io.BytesIO()
        np.savez(content, **(arrays | {"documents": game.documents, "queries": game.queries}))
        with published_folder(self._folder / _ATTACK) as beside:
            (beside / _ARRAYS).write_bytes(content.getvalue())
            said = {
                "k": game.k,
                "root": str(game.root),
                "targets": len(game.targets),
                "sha256": hashlib.sha256(content.getvalue()).hexdigest(),
                "classifiers": {
                    str(k): {name: np.asarray(value).tolist() for name, value in vars(one).items()} for k, one in classifiers.items()
                },
            }
            (beside / _GAME).write_text(json.dumps(said, indent=1), encoding="utf-8")
            for number, model in enumerate(models):
                if model.index is not None:
                    model.index.save(beside / _name(number, len(game.targets)))

    def _require_same(self) -> None:
        said = self._said().get("key")
        if said == self._key:
            return
        there, here = (dict(dotted(key if isinstance(key, Mapping) else {})) for key in (said, self._key))
        name = next(name for name in sorted({*there, *here}) if there.get(name) != here.get(name))
        raise ValueError(
            f"{self._folder}: must belong to this run, got one of another configuration: "
            f"{name} is {there.get(name)!r} there and {here.get(name)!r} here"
        )

    def _said(self) -> dict[str, Any]:
        path = self._folder / _RUN
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"key": self._key}  # another process has made the folder and not yet this file
        except ValueError as error:
            raise ValueError(f"{path}: is not JSON; remove the folder to make it again ({error})") from None
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            raise ValueError(f"{path}: must be of format {FORMAT}, got {said.get('format') if isinstance(said, dict) else said!r}")
        return said


def _name(number: int, targets: int) -> str:
    """Folder of the index of a model, the targets first."""
    return f"target-{number}" if number < targets else f"shadow-{number - targets}"


def _game(said: Mapping[str, Any], arrays: Mapping[str, Any], folder: Path) -> Game:
    stacked = {name: arrays[name] for name in _OF_MODELS}
    stacked["ids"] = stacked["ids"].astype(np.int64)
    scores = arrays.get("scores")
    targets = int(said["targets"])

    def model(number: int) -> Model:
        place = folder / _name(number, targets)
        return Model(
            index=PrivateIndex.load(place) if place.is_dir() else None,
            scores=None if scores is None else scores[number],
            **{field: stacked[field][number] for field in _OF_MODELS},
        )

    models = tuple(map(model, range(len(stacked["members"]))))
    return Game(
        documents=arrays["documents"],
        queries=arrays["queries"],
        targets=models[:targets],
        shadows=models[targets:],
        k=int(said["k"]),
        root=int(said["root"]),
    )


def _classifier(said: Mapping[str, Any]) -> Logistic:
    mean, spread, weights = (np.array(said[name], np.float64) for name in ("mean", "spread", "weights"))
    return Logistic(mean, spread, weights, float(said["intercept"]))
