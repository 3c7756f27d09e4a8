"""Indexes and attack models of runs, kept in a folder so that a rerun loads them and does not make them again.

    FOLDER/DIGEST/run.json     what decided the noise here, and the seconds that the index took to build
    FOLDER/DIGEST/index/       the index that recall is measured on, with its receipts (PrivateIndex.save)
    FOLDER/DIGEST/attack/      game.npz: who was in which index of the membership game, what each answered, and the trained
                               classifier of each k; 0/, 1/, ...: the indexes whose rows an attack reads, targets first

Attacks, rates and intervals are judged anew from these. The folder holds vectors: it is as private as the texts, and for a run
without noise it holds them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

import hushvec
from hushvec.audit.targets import Logistic
from hushvec.extend.helpers import private_folder, published_folder
from hushvec.retrieval import PrivateIndex
from hushvec.retrieval.attacks.shadows import Game, Model
from hushvec_studies.harness.measurements import digest_of, dotted
from hushvec_studies.retrieval.plan import Run

_RUN, _INDEX, _ATTACK, _GAME = "run.json", "index", "attack", "game.npz"
_OF_MODELS = ("members", "pairs", "coins", "slots", "ids")
_CLASSIFIER = "classifier "
_DAMAGED = (BadZipFile, EOFError, KeyError, OSError, RuntimeError, TypeError, ValueError)


class Prepared:
    """What is kept in a folder of one run on inputs of a digest.

    Guarantees:
        Each part appears whole or not at all, and is loaded only where everything agrees that decided it: settings, vectors and
        version. Files that are damaged are refused.
    """

    def __init__(self, folder: Path, run: Run, inputs: str) -> None:
        self._run = run
        self._key = run.drawing(inputs, hushvec.__version__)
        self._folder = folder / digest_of(self._key)[:32]

    def index(self, stream: hushvec.Generator) -> tuple[PrivateIndex, float] | None:
        """The index, and the seconds that it took to build; None if none is kept.

        `stream` is the new key stream that the index was built with. What building drew from it is passed over, so that noise on
        queries and scores is that of the first search and shares no key stream with the documents' noise.

        Raises:
            ValueError: the folder holds another run's, or a file is missing or is not what was saved.
        """
        if not self._folder.is_dir():
            return None
        seconds = self._seconds()
        index = PrivateIndex.load(self._folder / _INDEX, generator=stream)
        if "document" in self._run.sides:
            hushvec.gaussian_noise(1, generator=stream)  # one call, as adding the documents was
        return index, seconds

    def keep_index(self, index: PrivateIndex, seconds: float) -> None:
        """Keep an index that was built and not searched yet."""
        private_folder(self._folder.parent)
        with published_folder(self._folder) as beside:
            said = {"key": self._key, "index_build_time_s": seconds}
            (beside / _RUN).write_text(json.dumps(said, indent=1), encoding="utf-8")
            index.save(beside / _INDEX)

    def attack(self) -> tuple[Game, dict[int, Logistic]] | None:
        """The game and the classifier of each k, None if none is kept; ValueError: a file is not what was saved."""
        folder = self._folder / _ATTACK
        if not folder.is_dir():
            return None
        try:
            with ZipFile(folder / _GAME) as archive:
                if (name := archive.testzip()) is not None:
                    raise ValueError(f"{_GAME} is not what was saved: the checksum of {name} is another")
            with np.load(folder / _GAME, allow_pickle=False) as kept:
                arrays = dict(kept)
            models = tuple(_model(arrays, number, folder) for number in range(len(arrays["members"])))
            targets = self._run.configuration.attack.target_models
            game = Game(
                arrays["documents"], arrays["queries"], models[:targets], models[targets:], max(self._run.ks), self._run.seed("game")
            )
            return game, {k: _classifier(arrays[f"{_CLASSIFIER}{k}"]) for k in self._run.ks}
        except _DAMAGED as error:
            raise ValueError(f"{folder}: must hold the attack models of a run; remove it to make them again ({error})") from None

    def keep_attack(self, game: Game, classifiers: Mapping[int, Logistic]) -> None:
        """Keep a game that was played, and the classifier that was trained on it for each k."""
        models = (*game.targets, *game.shadows)
        arrays: dict[str, Any] = {"documents": game.documents, "queries": game.queries}
        arrays |= {name: np.stack([getattr(model, name) for model in models]) for name in _OF_MODELS}
        if models[0].scores is not None:
            arrays["scores"] = np.stack([model.scores for model in models if model.scores is not None])
        arrays |= {f"{_CLASSIFIER}{k}": np.hstack([*vars(one).values()]) for k, one in classifiers.items()}
        with published_folder(self._folder / _ATTACK) as beside:
            np.savez(beside / _GAME, **arrays)
            for number, model in enumerate(models):
                if model.index is not None:
                    model.index.save(beside / str(number))

    def _seconds(self) -> float:
        """What building took, if the folder is this run's."""
        path = self._folder / _RUN
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            there, seconds = dict(dotted(said["key"])), float(said["index_build_time_s"])
        except (AttributeError, *_DAMAGED) as error:
            raise ValueError(f"{path}: must say what run it is of; remove the folder to make it again ({error})") from None
        here = dict(dotted(self._key))
        if there != here:
            name = min(name for name in {*there, *here} if there.get(name) != here.get(name))
            raise ValueError(
                f"{self._folder}: must belong to this run, got one of another configuration: "
                f"{name} is {there.get(name)!r} there and {here.get(name)!r} here"
            )
        return seconds


def _model(arrays: Mapping[str, Any], number: int, folder: Path) -> Model:
    index = folder / str(number)
    scores = arrays["scores"][number] if "scores" in arrays else None
    of_model = {name: arrays[name][number] for name in _OF_MODELS}
    return Model(index=PrivateIndex.load(index) if index.is_dir() else None, scores=scores, **of_model)


def _classifier(row: Any) -> Logistic:
    """From its mean, spread, weights and intercept, one behind the other."""
    mean, spread, weights = row[:-1].reshape(3, -1)
    return Logistic(mean, spread, weights, float(row[-1]))
