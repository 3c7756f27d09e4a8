"""Jobs in files: JSON with the secret key, readable by its owner alone; of several processes the first one creates it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec._util.publish import Unfinished, sync_folder, unfinished
from hushvec.jobs import derivation
from hushvec.jobs.parameters import JobParameters, planned_parameters
from hushvec.mechanisms import CodebookResponse, EmpiricalGaussian, PrivUnit, PublicCodebook
from hushvec.receipts.base import LedgerEntry

_LARGEST_FILE = 1 << 16
_FIELDS = ("job_version", "format_version", "id", "key", "arguments", "charge")


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredJob(JobParameters):
    """What is in a job file: a job with its secret key, and the charge that paid for it, if one did."""

    key: bytes = field(repr=False)
    entry: LedgerEntry | None

    @property
    def id(self) -> str:
        return derivation.job_id(self.key, self.parameters)


def kept(job: StoredJob, path: Path, *, any_cipher: bool) -> StoredJob:
    """`job`, now in the file, or the job that was already there; it may draw from another cipher where `any_cipher` says so."""
    with _written_beside(job, path) as beside:
        try:
            beside.take_free_place()
            return job
        except FileExistsError:
            present = read(path, getattr(job.mechanism, "codebook", None))
    asked = replace(job, cipher=present.cipher).parameters
    if present.parameters != asked:
        raise ValueError(f"{path} holds a job with other parameters: {_difference(present.parameters, asked)}")
    if present.cipher != job.cipher and not any_cipher:
        raise ValueError(f"cipher must be {present.cipher!r}, that of the job in {path}, or None, got {job.cipher!r}")
    return present


def write(job: StoredJob, path: Path) -> None:
    with _written_beside(job, path) as beside:
        beside.take_place()
        sync_folder(path.parent)


def read(path: Path, codebook: PublicCodebook | None = None) -> StoredJob:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise PermissionError(f"{path} must be readable by its owner alone (mode 600), got mode {mode:o}")
        text = file.read(_LARGEST_FILE)
    with _as_bad_file(path):
        fields = json.loads(text)
        if not isinstance(fields, dict) or set(fields) != set(_FIELDS):
            raise ValueError(f"its fields must be {', '.join(_FIELDS)}")
    _require_codebook(path, fields["arguments"], codebook)
    with _as_bad_file(path):
        return _job_of(fields, codebook)


@contextmanager
def _as_bad_file(path: Path) -> Iterator[None]:
    """Any problem with the file as one error that names it."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} must be a job file of this version of hushvec: {error}") from None


def _require_codebook(path: Path, arguments: Any, codebook: PublicCodebook | None) -> None:
    """The file names the codebook by its digest; the caller provides the codebook."""
    digest = arguments.get("codebook") if isinstance(arguments, dict) else None
    if codebook is not None and not isinstance(codebook, PublicCodebook):
        raise TypeError(f"codebook must be a hushvec.mechanisms.PublicCodebook or None, got {validate.kind(codebook)}")
    if codebook is None and digest is not None:
        raise TypeError(f"codebook must be given for the job in {path}: the one with digest {digest!r:.80}")
    if codebook is not None and codebook.digest != digest:
        raise ValueError(f"codebook must be that of the job in {path}, {digest!r:.80}, got one with digest {codebook.digest!r}")


def _job_of(fields: dict[str, Any], codebook: PublicCodebook | None) -> StoredJob:
    cipher = _cipher_of((fields["job_version"], fields["format_version"]))
    key = bytes.fromhex(fields["key"])
    if len(key) != derivation.KEY_BYTES:
        raise ValueError(f"its key must have {derivation.KEY_BYTES} bytes, got {len(key)}")
    entry = None if fields["charge"] is None else LedgerEntry(**fields["charge"])
    arguments = _with_codebook(fields["arguments"], codebook)
    job = StoredJob(**planned_parameters(cipher=cipher, **arguments), entry=entry, key=key)
    if job.id != fields["id"]:
        raise ValueError("its id does not follow from its key and parameters, so its noise would be another")
    return job


def _cipher_of(versions: tuple[Any, Any]) -> str:
    for cipher in derivation.JOB_VERSIONS:
        if versions == derivation.versions(cipher):
            return cipher
    raise ValueError(f"its versions must be 1 and 1, or 2 and 2, got {versions}")


def _with_codebook(arguments: dict[str, Any], codebook: PublicCodebook | None) -> dict[str, Any]:
    """The arguments of `start`, with a mechanism of the codebook in the place of the codebook's digest."""
    if codebook is None:
        return arguments
    others = {name: value for name, value in arguments.items() if name != "codebook"}
    return {**others, "mechanism": codebook.mechanism(arguments["epsilon"]), "epsilon": None}


def _text_of(job: StoredJob) -> str:
    if isinstance(job.mechanism, PrivUnit) and job.mechanism.corpus_size is not None:
        raise ValueError(f"a job with corpus_size cannot be saved, got corpus_size={job.mechanism.corpus_size}")
    job_version, format_version = derivation.versions(job.cipher)
    fields = {
        "job_version": job_version,
        "format_version": format_version,
        "id": job.id,
        "key": job.key.hex(),
        "arguments": _arguments(job),
        "charge": None if job.entry is None else asdict(job.entry),
    }
    return json.dumps(fields, indent=2, allow_nan=False) + "\n"


def _arguments(job: StoredJob) -> dict[str, Any]:
    """What `start` is to be called with to get the same mechanism."""
    mechanism = job.mechanism
    epsilon, delta = mechanism.cost
    return {
        "dimension": mechanism.dimension,
        "dtype": job.dtype,
        "mechanism": mechanism.name,
        "epsilon": None if isinstance(mechanism, EmpiricalGaussian) else epsilon,
        "delta": delta,
        "sigma": mechanism.chosen_sigma if isinstance(mechanism, EmpiricalGaussian) else None,
        "clip_norm": mechanism.clip_norm,
        "normalize": job.normalize,
        "renormalize": job.renormalize,
        **({"codebook": mechanism.codebook.digest} if isinstance(mechanism, CodebookResponse) else {}),
    }


@contextmanager
def _written_beside(job: StoredJob, path: Path) -> Iterator[Unfinished]:
    with unfinished(path) as beside:
        beside.file.write(_text_of(job).encode())
        beside.complete()
        yield beside


def _difference(present: str, asked: str) -> str:
    pairs = zip(present.splitlines(), asked.splitlines(), strict=False)
    return "; ".join(f"{ours}, asked for {theirs}" for ours, theirs in pairs if ours != theirs)
