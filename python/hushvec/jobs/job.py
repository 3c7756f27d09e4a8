"""`NoiseJob`: one release that many processes compute together, charged once; and its file.

A job file is JSON with the secret key, readable by its owner alone; of several processes the first one creates it.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays, rowwise
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.publish import Unfinished, sync_folder, unfinished
from hushvec._util.recording import require_no_recorder
from hushvec.budget import PrivacyBudget
from hushvec.extend import ReleasePlan, RowReceipt, plan_release
from hushvec.jobs import derivation
from hushvec.mechanisms import Mechanism, PublicCodebook, answers_with_codes
from hushvec.mechanisms.base import RowKeys
from hushvec.receipts import HALF_WORDS, LedgerEntry

_LARGEST_SEED_BITS = 8 * derivation.KEY_BYTES
_LARGEST_FILE = 1 << 16
_FIELDS = ("job_version", "format_version", "id", "key", "arguments", "charge", "rows_by")
# Arguments of `privatize` that a job has too.
_RELEASE = dict(epsilon=None, delta=1e-5, clip_norm=1.0, mechanism="gaussian", sigma=None, normalize=False, renormalize=False)
# How rows may be named: the four are unrelated places, so a job that took two of them would release every row twice.
ROWS_BY = ("numbers", "partitions", "integer-ids", "text-ids")


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseJob:
    """One release of one data set, in as many parts, processes and attempts as it takes.

    Made by `NoiseJob.start` or `NoiseJob.load`. A job can be pickled and sent to workers, with its secret key: anyone who reads the
    key can check guesses of a row against its released values, and the guarantee is void against them. `repr` does not show it.

    Args:
        mechanism: of every row, one row per person.
        dtype: of batches: "float32", "float64" or "float16".
        normalize, renormalize: bring rows to unit length before the noise, and after it.
        cipher: what noise is drawn from, "aes256" or "chacha20".
        half_words: whether its release is of version 3 (docs/format.md section 16), as Gaussian and Laplacian ones of new jobs are.
        rows_by: how all of its rows are named: "numbers", "partitions", "integer-ids" or "text-ids"; None for one from before this
            was kept, which releases nothing until `load` or `start` is told.
        entry: the row of the ledger that paid for the job, or None.
        seeded: the key was given by the caller, so the job claims nothing.

    Guarantees:
        The released row is a function of the job, the row's place (its id, or its partition and number) and the row itself: batches,
        order, threads, workers and repeated attempts do not change a bit of it. The key stream of a row follows from its bytes too:
        other data at the same place has unrelated noise. Every row of the data set, released once, has the guarantee of the receipt.

    Edge cases:
        What is released twice is paid for once only if it is the same: two attempts at one place with different data, both
        seen, are two releases of that row. So are a second data set under the same job, and the same rows under other numbers,
        partitions or ids of one kind. docs/scale-out.md says how to avoid them.
    """

    mechanism: Mechanism
    dtype: str
    normalize: bool
    renormalize: bool
    cipher: str = derivation.FIRST_CIPHER
    half_words: bool = False
    rows_by: str = ROWS_BY[0]
    entry: LedgerEntry | None = None
    seeded: bool = False
    _key: bytes = field(repr=False)

    @classmethod
    def start(
        cls, *, dimension: int, dtype: str = "float32", cipher: str | None = None, rows_by: str | None = None,
        budget: PrivacyBudget | None = None, path: str | PathLike[str] | None = None, people: Iterable[Any] | None = None,
        **release: Any,
    ) -> NoiseJob:
        """Make a job with a key from the operating system; with a path, return the job in that file if it exists.

        Args:
            dimension: d, elements in a row.
            dtype: of the rows.
            cipher: "aes256" or "chacha20". By default that of the job in `path`, else AES-256 where this machine has instructions for
                it, else ChaCha20. Bits are the same on every machine, but without such instructions AES-256 takes 3 to 9 times
                as long as ChaCha20: choose "chacha20" where workers lack them.
            rows_by: how `noise_batch` is told which row is which, the same for all rows: "numbers" (first_row), "partitions"
                (partition and first_row), "integer-ids" or "text-ids". By default that of the job in `path`, else "numbers".
            budget: charged once for the job, under its id, however often and by how many processes it is started from one path.
            path: where the job is kept, a file that only its owner can read. All who start a job from one path get one job.
                Delete the file when the job is done.
            people: whom the job's rows are about, an id for each row, for a budget that counts by person. None: everyone is charged.
            release: epsilon, delta, clip_norm, mechanism, sigma, normalize, renormalize, as for `hushvec.privatize`; the mechanism
                must have an exact form ("l2_laplace" has none). `PublicCodebook.mechanism` has one. Every row is another person
                (`per="record"`).

        Raises:
            ValueError: a path with a job of other parameters or another cipher. Nothing was charged.
            PrivacyBudgetExhaustedError, BudgetError: the budget refused; nothing may be released.
        """
        if unknown := [name for name in release if name not in _RELEASE]:
            raise TypeError(f"NoiseJob.start() got an unexpected keyword argument {unknown[0]!r}")
        chosen = _core.backends()["default_cipher"] if cipher is None else cipher
        planned = _planned(dimension=dimension, dtype=dtype, cipher=chosen, **_RELEASE | release)
        if rows_by is not None:
            validate.choice("rows_by", rows_by, ROWS_BY)
        laws = {"rows_by": rows_by or ROWS_BY[0], "half_words": planned["mechanism"].half_words}
        job = cls(**planned, **laws, _key=secrets.token_bytes(derivation.KEY_BYTES))
        if path is not None:
            job = job._kept(Path(path), any_cipher=cipher is None, rows_by=rows_by)
        if budget is None:
            if people is not None:
                raise ValueError("people must be None without a budget, got ids")
            return job
        paid = job.charge(budget, people)
        if path is not None:
            paid.save(path)
        return paid

    @classmethod
    def load(cls, path: str | PathLike[str], *, codebook: PublicCodebook | None = None) -> NoiseJob:
        """Read the job of a file that `start` or `save` wrote, with the codebook that it was started with: the file has its digest.

        ValueError for one whose noise this version of hushvec would compute differently; OSError if others may read the file.
        """
        return _read(Path(path), codebook)

    @classmethod
    def unsafe_seeded(
        cls, seed: int, *, cipher: str = derivation.FIRST_CIPHER, format_version: int | None = None, **arguments: Any
    ) -> NoiseJob:
        """Return a job whose key is a number in [0, 2^256): for tests and reproducible studies. Its receipt claims nothing.

        `arguments` are those of `start` but budget, path and people. It draws from ChaCha20 on every machine unless `cipher` says
        otherwise, so that a seed gives the same noise everywhere, by the first version of the release format that this cipher had,
        unless format_version is 3.
        """
        number = validate.whole_number("seed", seed, at_least=0)
        if number.bit_length() > _LARGEST_SEED_BITS:
            raise ValueError(f"seed must be < 2^{_LARGEST_SEED_BITS}, got {number!r:.90}")
        for name in ("budget", "path", "people"):
            if name in arguments:
                raise TypeError(f"{name} must be left out for a seeded job, whose seed makes it again")
        started = cls.start(cipher=cipher, **arguments)
        half_words = _by_half_words(started.mechanism, cipher, format_version)
        return replace(started, half_words=half_words, seeded=True, _key=number.to_bytes(derivation.KEY_BYTES, "little"))

    @property
    def dimension(self) -> int:
        """Elements in a row."""
        return self.mechanism.dimension

    @cached_property
    def parameters(self) -> str:
        """Everything that determines the result besides the key and the rows, as docs/format.md section 10 writes it."""
        return derivation.parameters_text(
            self.mechanism, job_version=self._versions[0], dtype=self.dtype, normalize=self.normalize, renormalize=self.renormalize
        )

    @cached_property
    def id(self) -> str:
        """32 hexadecimal digits that follow from key and parameters: no two jobs share an id, and it may be published."""
        return derivation.job_id(self._key, self.parameters)

    @property
    def format_version(self) -> int:
        """Format of the release (docs/format.md): 3, or of older jobs and other mechanisms 1 for ChaCha20 and 2 for AES-256."""
        return self._versions[1]

    @property
    def _versions(self) -> tuple[int, int]:
        return derivation.versions(self.cipher, self.half_words)

    @property
    def charge_id(self) -> str:
        """The charge's id in a budget's ledger."""
        return f"job-{self.id}"

    @property
    def note(self) -> str:
        return f"job {self.id}: each row's key stream is keyed by the job's key, the row's place and its bytes"

    def charge(self, budget: PrivacyBudget, people: Iterable[Any] | None = None) -> NoiseJob:
        """Return the same job, paid for: the budget is charged, for `people` if they are given, unless this job already was.

        It must be a `PrivacyBudget`, whose ledger recognizes the job: PostgreSQL for several machines, SQLite for one. If it refuses,
        nothing may be released.
        """
        validate.instance("budget", budget, PrivacyBudget, "a PrivacyBudget, whose ledger knows a job again")
        if self.seeded:
            raise ValueError("budget must be None for a seeded job: such a release has no privacy to account for")
        epsilon, delta = self.mechanism.cost
        purpose = f"job, {self.mechanism.name}, dimension {self.dimension}, per record"
        given: dict[str, Any] = {"rho": self.mechanism.loss.rho, "charge_id": self.charge_id, "purpose": purpose, "people": people}
        charge = budget.consume(epsilon, delta, **given)
        return replace(self, entry=LedgerEntry.of(charge))

    def require_rows_by(self, asked: str) -> None:
        """Raises ValueError unless rows are named so: by "numbers", "partitions" or "ids"."""
        if not self.rows_by.endswith(asked):
            other = "'integer-ids' or 'text-ids'" if asked == "ids" else repr(asked)
            raise ValueError(
                f"rows must be named by {self.rows_by} in this job, got {asked}: under other names they would be a second release for "
                f"one charge (a job that is started with rows_by={other} takes them)"
            )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the job, its key included, to a file that only its owner can read; written beside and renamed.

        A seeded job is refused with ValueError: its seed makes it again.
        """
        if self.seeded:
            raise ValueError("a seeded job is not saved: its seed makes it again")
        with self._written_beside(Path(path)) as beside:
            beside.take_place()
            sync_folder(Path(path).parent)

    def receipt(self, rows: int, *, notes: tuple[str, ...] = ()) -> RowReceipt:
        """Return the receipt of the whole job for the rows that all workers released together.

        It is one of labels, with the codebook's digest, if the job answers with codes.
        """
        generator = _core.Generator(cipher=self.cipher)
        if self.seeded:
            generator = _core.Generator.unsafe_seeded(0, cipher=self.cipher, format_version=self.format_version)
        setting = self.mechanism, "record", self.dtype, self.normalize, self.renormalize
        plan = ReleasePlan(*setting, require_generator(generator), half_words=self.half_words)
        receipt = plan.receipt(validate.whole_number("rows", rows, at_least=0), notes=(self.note, *notes))
        return replace(receipt, charge=self.entry)

    def noise(self, name: str, values: NDArray[Any], places: derivation.Places, label: Callable[[int], str]) -> NDArray[Any]:
        """Return the released version of rows [n, d] of the job's dtype at these places; `name` and `label` are for errors."""
        require_no_recorder()
        source = np.ascontiguousarray(values)
        if self.normalize:
            _require_finite(name, source, label)
            rows, source = source, np.empty_like(source)
            _core.unit_rows(rows, source)
        out = np.empty_like(source)
        try:
            self._run(source, out, places)
        except ValueError:
            _require_finite(name, source, label)
            raise
        if self.renormalize:
            _core.unit_rows(out, out)
        return out

    def _run(self, source: NDArray[Any], out: NDArray[Any], places: derivation.Places) -> None:
        keys = RowKeys(self._rows_key, places, self.cipher)
        self.mechanism.release_keyed(source, out, keys, half_words=self.half_words)

    def _kept(self, path: Path, *, any_cipher: bool, rows_by: str | None) -> NoiseJob:
        """This job, now in the file, or the job that was already there; it may draw from another cipher where `any_cipher` says so."""
        with self._written_beside(path) as beside:
            try:
                beside.take_free_place()
                return self
            except FileExistsError:
                present = _read(path, getattr(self.mechanism, "codebook", None))
        asked = replace(self, cipher=present.cipher, half_words=present.half_words).parameters
        if present.parameters != asked:
            pairs = zip(present.parameters.splitlines(), asked.splitlines(), strict=False)
            different = "; ".join(f"{ours}, asked for {theirs}" for ours, theirs in pairs if ours != theirs)
            raise ValueError(f"{path} holds a job with other parameters: {different}")
        if present.cipher != self.cipher and not any_cipher:
            raise ValueError(f"cipher must be {present.cipher!r}, that of the job in {path}, or None, got {self.cipher!r}")
        if rows_by not in (None, present.rows_by):
            raise ValueError(f"{path} holds a job with other parameters: rows_by {present.rows_by}, asked for rows_by {rows_by}")
        return present

    @contextmanager
    def _written_beside(self, path: Path) -> Iterator[Unfinished]:
        mechanism = self.mechanism
        corpus_size = getattr(mechanism, "corpus_size", None)
        if corpus_size is not None:
            raise ValueError(f"a job with corpus_size cannot be saved, got corpus_size={corpus_size}")
        epsilon, delta = mechanism.cost
        sigma = getattr(mechanism, "chosen_sigma", None)
        arguments = {  # of `start`, for the same mechanism
            "dimension": mechanism.dimension,
            "dtype": self.dtype,
            "mechanism": mechanism.name,
            "epsilon": epsilon if sigma is None else None,
            "delta": delta,
            "sigma": sigma,
            "clip_norm": mechanism.clip_norm,
            "normalize": self.normalize,
            "renormalize": self.renormalize,
            **({"codebook": mechanism.codebook.digest} if answers_with_codes(mechanism) else {}),
        }
        charge = None if self.entry is None else asdict(self.entry)
        values = (*self._versions, self.id, self._key.hex(), arguments, charge, self.rows_by)
        fields = dict(zip(_FIELDS, values, strict=True))
        with unfinished(path) as beside:
            beside.file.write((json.dumps(fields, indent=2, allow_nan=False) + "\n").encode())
            beside.complete()
            yield beside

    @cached_property
    def _rows_key(self) -> bytes:
        return derivation.rows_key(self._key, self.parameters)

    def __getstate__(self) -> dict[str, Any]:
        if answers_with_codes(self.mechanism):
            _ = self.mechanism.table  # sent along: another machine might round it differently
        sent = {name: value for name, value in self.__dict__.items() if name not in ("id", "parameters", "_rows_key")}
        return {**sent, "format_version": self.format_version}

    def __setstate__(self, state: dict[str, Any]) -> None:
        fields = dict(state)
        found = fields.pop("format_version")
        if fields["cipher"] not in derivation.CIPHERS or found != derivation.versions(fields["cipher"], fields["half_words"])[1]:
            known = "3, or 1 for chacha20 or 2 for aes256"
            raise ValueError(f"the job must have format version {known}, got {found} for {fields['cipher']}")
        self.__dict__.update(fields)


def _planned(dimension: int, dtype: str, cipher: str, **arguments: Any) -> dict[str, Any]:
    validate.choice("cipher", cipher, derivation.CIPHERS)
    plan = plan_release(
        rows=1, dimension=validate.whole_number("dimension", dimension, at_least=1),
        dtype=validate.choice("dtype", dtype, arrays.NUMPY_DTYPES), per="record", generator=None, **arguments,
    )
    if plan.mechanism.grade != "exact":
        raise ValueError(f"mechanism must have an exact form in a job, got {plan.mechanism.name!r}")
    if not plan.mechanism.in_jobs:
        raise ValueError(f"mechanism must be one of jobs, got {plan.mechanism.name!r}: its rows have no keys of their own")
    return dict(mechanism=plan.mechanism, dtype=dtype, normalize=plan.normalize, renormalize=plan.renormalize, cipher=cipher)


def _by_half_words(mechanism: Mechanism, cipher: str, format_version: int | None) -> bool:
    """Return whether a job of this mechanism and version is of half words; without a version, that of the first jobs."""
    before = _core.format_versions[cipher]
    known = [before, *([HALF_WORDS] if mechanism.half_words else [])]
    if format_version is not None and format_version not in known:
        allowed = " or ".join(map(str, known))
        raise ValueError(f"format_version must be {allowed} for {mechanism.name!r} from {cipher}, got {format_version!r}")
    return format_version == HALF_WORDS


def _read(path: Path, codebook: PublicCodebook | None) -> NoiseJob:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise PermissionError(f"{path} must be readable by its owner alone (mode 600), got mode {mode:o}")
        text = file.read(_LARGEST_FILE)
    with _as_bad_file(path):
        fields = json.loads(text)
        if not isinstance(fields, dict) or set(fields) != set(_FIELDS):
            raise ValueError(f"its fields must be {', '.join(_FIELDS)}")
    arguments = fields["arguments"]
    digest = arguments.get("codebook") if isinstance(arguments, dict) else None
    validate.instance("codebook", codebook, PublicCodebook | None, "a hushvec.mechanisms.PublicCodebook or None")
    if codebook is None and digest is not None:
        raise TypeError(f"codebook must be given for the job in {path}: the one with digest {digest!r:.80}")
    if codebook is not None and codebook.digest != digest:
        raise ValueError(f"codebook must be that of the job in {path}, {digest!r:.80}, got one with digest {codebook.digest!r}")
    with _as_bad_file(path):
        return _job_of(fields, codebook)


@contextmanager
def _as_bad_file(path: Path) -> Iterator[None]:
    """Any problem with the file as one error that names it."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} must be a job file of this version of hushvec: {error}") from None


def _job_of(fields: dict[str, Any], codebook: PublicCodebook | None) -> NoiseJob:
    versions = fields["job_version"], fields["format_version"]
    of_version = {(job, of_format): cipher for (cipher, of_format), job in derivation.JOB_VERSIONS.items()}
    cipher = next((cipher for pair, cipher in of_version.items() if pair == versions), None)
    if cipher is None:
        raise ValueError(f"its versions must be one of {', '.join(map(str, sorted(of_version)))}, got {versions}")
    key = bytes.fromhex(fields["key"])
    if len(key) != derivation.KEY_BYTES:
        raise ValueError(f"its key must have {derivation.KEY_BYTES} bytes, got {len(key)}")
    entry = None if fields["charge"] is None else LedgerEntry(**fields["charge"])
    arguments = fields["arguments"]
    if codebook is not None:
        others = {name: value for name, value in arguments.items() if name != "codebook"}
        arguments = {**others, "mechanism": codebook.mechanism(arguments["epsilon"]), "epsilon": None}
    planned = _planned(cipher=cipher, **arguments)
    half_words = _by_half_words(planned["mechanism"], cipher, versions[1])
    rows_by = validate.choice("its rows_by", fields["rows_by"], ROWS_BY)
    job = NoiseJob(**planned, half_words=half_words, rows_by=rows_by, entry=entry, _key=key)
    if job.id != fields["id"]:
        raise ValueError("its id does not follow from its key and parameters, so its noise would be another")
    return job


def _require_finite(name: str, values: NDArray[Any], label: Callable[[int], str]) -> None:
    row = rowwise.first_nonfinite_row(values)
    if row is not None:
        raise ValueError(f"{name} must be finite, got {arrays.nonfinite_value(values, row)!r} in {label(row)}")
