"""`NoiseJob`: one release that many processes compute together, charged once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays, rowwise
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.recording import require_no_recorder
from hushvec.budget import PrivacyBudget
from hushvec.jobs import derivation, job_file
from hushvec.jobs.answers import answered
from hushvec.jobs.job_file import StoredJob
from hushvec.jobs.parameters import JobParameters, planned_parameters
from hushvec.mechanisms import CodebookResponse, Mechanism, PrivUnit, PublicCodebook, VectorMechanism
from hushvec.receipts.base import LedgerEntry
from hushvec.receipts.labels import RowReceipt
from hushvec.release.vectors import ReleasePlan

_LARGEST_SEED_BITS = 8 * derivation.KEY_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseJob(JobParameters):
    """One release of one data set, in as many parts, processes and attempts as it takes.

    Made by `NoiseJob.start` or `NoiseJob.load`. A job can be pickled and sent to workers, with its secret key: anyone who reads the
    key can check guesses of a row against its released values, and the guarantee is void against them. `repr` does not show it.

    Args:
        mechanism: the mechanism of every row, one row per person.
        dtype: "float32", "float64" or "float16"; batches have this dtype.
        normalize: rows brought to unit length before the noise.
        renormalize: rows brought to unit length after it.
        cipher: what noise is drawn from, "aes256" or "chacha20".
        entry: the row of the ledger that paid for the job, or None.
        seeded: the key was given by the caller, so the job claims nothing.

    Guarantees:
        The released row is a function of the job, the row's place (its id, or its partition and number) and the row itself: batches,
        order, threads, workers and repeated attempts do not change a bit of it. The key stream of a row follows from its bytes too:
        other data at the same place has unrelated noise. Every row of the data set, released once, has the guarantee of the receipt.

    Edge cases:
        What is released twice is paid for once only if it is the same: two attempts at one place with different data, both
        seen, are two releases of that row. So is a second data set under the same job. docs/scale-out.md says how to avoid both.
    """

    entry: LedgerEntry | None = None
    seeded: bool = False
    _key: bytes = field(repr=False)

    @classmethod
    def start(
        cls,
        *,
        dimension: int,
        dtype: str = "float32",
        epsilon: float | None = None,
        delta: float = 1e-5,
        clip_norm: float = 1.0,
        mechanism: str | Mechanism = "gaussian",
        sigma: float | None = None,
        normalize: bool = False,
        renormalize: bool = False,
        cipher: str | None = None,
        budget: PrivacyBudget | None = None,
        path: str | PathLike[str] | None = None,
    ) -> NoiseJob:
        """A new job with a key from the operating system; with a path, the job in that file if it exists.

        Args:
            dimension: d, elements in a row.
            dtype: of the rows.
            epsilon, delta, clip_norm, mechanism, sigma, normalize, renormalize: as for `hushvec.privatize`; the mechanism must
                have an exact form ("l2_laplace" has none). `PublicCodebook.mechanism` has one. Every row is another person
                (`per="record"`).
            cipher: "aes256" or "chacha20". By default that of the job in `path`, else AES-256 where this machine has instructions for
                it, else ChaCha20. Bits are the same on every machine, but without such instructions AES-256 takes 3 to 9 times
                as long as ChaCha20: choose "chacha20" where workers lack them.
            budget: charged once for the job, under its id, however often and by how many processes it is started from one path.
            path: where the job is kept, a file that only its owner can read. All who start a job from one path get one job.
                Delete the file when the job is done.

        Raises:
            TypeError, ValueError: as `privatize`; a cipher that jobs do not draw from; a path with a job of other parameters or
                another cipher. Nothing was charged.
            PrivacyBudgetExhaustedError, BudgetError: the budget refused; nothing may be released.
            OSError: the file cannot be read or written, or others than its owner may read it.

        Example:
            >>> import numpy as np
            >>> from hushvec.jobs import NoiseJob, noise_batch
            >>> job = NoiseJob.start(dimension=8, epsilon=4.0)
            >>> rows = np.ones((5, 8), np.float32)
            >>> whole = noise_batch(rows, job)
            >>> parts = [noise_batch(rows[:2], job), noise_batch(rows[2:], job, first_row=2)]
            >>> bool((np.concatenate(parts) == whole).all())
            True
        """
        planned = planned_parameters(
            dimension=dimension,
            dtype=dtype,
            epsilon=epsilon,
            delta=delta,
            clip_norm=clip_norm,
            mechanism=mechanism,
            sigma=sigma,
            normalize=normalize,
            renormalize=renormalize,
            cipher=_core.backends()["default_cipher"] if cipher is None else cipher,
        )
        job = cls(**planned, _key=secrets.token_bytes(derivation.KEY_BYTES))
        if path is not None:
            job = cls._of(job_file.kept(job._stored(), Path(path), any_cipher=cipher is None))
        if budget is None:
            return job
        paid = job.charge(budget)
        if path is not None:
            paid.save(path)
        return paid

    @classmethod
    def load(cls, path: str | PathLike[str], *, codebook: PublicCodebook | None = None) -> NoiseJob:
        """The job of a file that `start` or `save` wrote.

        Args:
            path: of the file.
            codebook: that the job was started with, if it answers with codes: the file has only its digest.

        Raises:
            TypeError: a codebook is missing, or is not a codebook.
            ValueError: not a job file, or one whose noise this version of hushvec would compute differently; another codebook.
            OSError: the file cannot be read, or others than its owner may read it.
        """
        return cls._of(job_file.read(Path(path), codebook))

    @classmethod
    def unsafe_seeded(
        cls,
        seed: int,
        *,
        dimension: int,
        dtype: str = "float32",
        epsilon: float | None = None,
        delta: float = 1e-5,
        clip_norm: float = 1.0,
        mechanism: str | Mechanism = "gaussian",
        sigma: float | None = None,
        normalize: bool = False,
        renormalize: bool = False,
        cipher: str = derivation.FIRST_CIPHER,
    ) -> NoiseJob:
        """A job whose key is a number in [0, 2^256): for tests and reproducible studies. Its receipt claims nothing.

        It draws from ChaCha20 on every machine unless `cipher` says otherwise, so that a seed gives the same noise everywhere.
        """
        number = validate.whole_number("seed", seed, at_least=0)
        if number.bit_length() > _LARGEST_SEED_BITS:
            raise ValueError(f"seed must be < 2^{_LARGEST_SEED_BITS}, got {number!r:.90}")
        planned = planned_parameters(
            dimension=dimension,
            dtype=dtype,
            epsilon=epsilon,
            delta=delta,
            clip_norm=clip_norm,
            mechanism=mechanism,
            sigma=sigma,
            normalize=normalize,
            renormalize=renormalize,
            cipher=cipher,
        )
        return cls(**planned, seeded=True, _key=number.to_bytes(derivation.KEY_BYTES, "little"))

    @cached_property
    def id(self) -> str:
        """32 hexadecimal digits that follow from key and parameters: no two jobs share an id, and it may be published."""
        return derivation.job_id(self._key, self.parameters)

    @property
    def format_version(self) -> int:
        """Of the release: 1 for ChaCha20, 2 for AES-256 (docs/format.md)."""
        return derivation.versions(self.cipher)[1]

    @property
    def charge_id(self) -> str:
        """The charge's id in a budget's ledger."""
        return f"job-{self.id}"

    @property
    def note(self) -> str:
        """The job's name in its receipts."""
        return f"job {self.id}: each row's key stream is keyed by the job's key, the row's place and its bytes"

    def charge(self, budget: PrivacyBudget) -> NoiseJob:
        """The same job, paid for: the budget is charged unless this job already was.

        It must be a `PrivacyBudget`, whose ledger recognizes the job: PostgreSQL for several machines, SQLite for one.

        Raises:
            TypeError: another kind of budget.
            ValueError: a seeded job.
            PrivacyBudgetExhaustedError, BudgetError: the budget refused; nothing may be released.
        """
        if not isinstance(budget, PrivacyBudget):
            raise TypeError(f"budget must be a PrivacyBudget, whose ledger knows a job again, got {validate.kind(budget)}")
        if self.seeded:
            raise ValueError("budget must be None for a seeded job: such a release has no privacy to account for")
        epsilon, delta = self.mechanism.cost
        purpose = f"job, {self.mechanism.name}, dimension {self.dimension}, per record"
        charge = budget.consume(epsilon, delta, rho=self.mechanism.loss.rho, charge_id=self.charge_id, purpose=purpose)
        return replace(self, entry=LedgerEntry.of(charge))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the job, its key included, to a file that only its owner can read; written beside and renamed.

        Raises:
            ValueError: a seeded job, which its seed makes again.
            OSError: the file cannot be written.
        """
        if self.seeded:
            raise ValueError("a seeded job is not saved: its seed makes it again")
        job_file.write(self._stored(), Path(path))

    def receipt(self, rows: int, *, notes: tuple[str, ...] = ()) -> RowReceipt:
        """The receipt of the whole job; one of labels, with the codebook's digest, if it answers with codes.

        Args:
            rows: how many rows were released, by all workers together.
            notes: further notes.
        """
        cipher = self.cipher
        generator = _core.Generator.unsafe_seeded(0, cipher=cipher) if self.seeded else _core.Generator(cipher=cipher)
        plan = ReleasePlan(
            mechanism=self.mechanism,
            per="record",
            dtype=self.dtype,
            normalize=self.normalize,
            renormalize=self.renormalize,
            generator=require_generator(generator),
        )
        receipt = plan.receipt(validate.whole_number("rows", rows, at_least=0), notes=(self.note, *notes))
        return replace(receipt, charge=self.entry)

    def noise(self, name: str, values: NDArray[Any], places: derivation.Places, label: Callable[[int], str]) -> NDArray[Any]:
        """The released version of rows [n, d] of the job's dtype at these places.

        Raises:
            ValueError: NaN or Inf in `name`, in the row that `label` names.
        """
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
        mechanism, key = self.mechanism, self._rows_key
        if isinstance(mechanism, CodebookResponse):
            out[...] = answered(mechanism, source, key, places, self.cipher)
            return
        assert isinstance(mechanism, VectorMechanism)
        if isinstance(mechanism, PrivUnit):
            law = mechanism.cap_probability, mechanism.threshold
            _core.privunit_keyed(source, *law, mechanism.noise_parameter, out, key, places, self.cipher)
        else:
            noise = mechanism.clip_norm, mechanism.noise_parameter
            _core.clip_and_noise_keyed(source, *noise, out, key, places, self.cipher, mechanism.law)

    def _stored(self) -> StoredJob:
        return StoredJob(key=self._key, entry=self.entry, **_shared_fields(self))

    @classmethod
    def _of(cls, stored: StoredJob) -> NoiseJob:
        return cls(_key=stored.key, entry=stored.entry, **_shared_fields(stored))

    @cached_property
    def _rows_key(self) -> bytes:
        return derivation.rows_key(self._key, self.parameters)

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self.mechanism, CodebookResponse):
            _ = self.mechanism.table  # sent along: another machine might round it differently
        sent = {name: value for name, value in self.__dict__.items() if name not in ("id", "parameters", "_rows_key")}
        return {**sent, "format_version": self.format_version}

    def __setstate__(self, state: dict[str, Any]) -> None:
        fields = {"cipher": derivation.FIRST_CIPHER, **state}
        found = fields.pop("format_version")
        if fields["cipher"] not in derivation.JOB_VERSIONS or found != derivation.versions(fields["cipher"])[1]:
            raise ValueError(f"the job must have format version 1 for chacha20 or 2 for aes256, got {found} for {fields['cipher']}")
        self.__dict__.update(fields)


def _shared_fields(job: JobParameters) -> dict[str, Any]:
    return {field.name: getattr(job, field.name) for field in fields(JobParameters)}


def _require_finite(name: str, values: NDArray[Any], label: Callable[[int], str]) -> None:
    row = rowwise.first_nonfinite_row(values)
    if row is not None:
        raise ValueError(f"{name} must be finite, got {arrays.nonfinite_value(values, row)!r} in {label(row)}")
