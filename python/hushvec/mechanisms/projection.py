"""A public linear map in front of a mechanism spreads rows apart, so that noise does less harm: docs/proofs/projection.md."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays, rowwise
from hushvec._native.products import product
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec.mechanisms import public_arrays
from hushvec.mechanisms.codebook import NEIGHBORS, nearest_others
from hushvec.mechanisms.public_arrays import FittedRows, PublicArrays

_FEWEST_ROWS = 32
_MOST_ROWS = 2000  # of more, as many at random
_ENOUGH = 0.5

_Rows = NDArray[np.float64]


class ProjectionFit(NamedTuple):
    """How much of a public sample survives a map. Shares, in [0, 1].

    Args:
        kept_length: of the sample's squared length around its mean, what the map's components hold.
        possible_length: what as many components would hold if they were fitted on rows like the sample: on one half, for the other.
        kept_neighbors: of the ten nearest rows of each row, by cosine, those that are still among its ten nearest behind the map.
    """

    kept_length: float
    possible_length: float
    kept_neighbors: float

    @property
    def fits(self) -> bool:
        """Whether the components hold half of what is possible, or half of the neighbors stay, as with a wide random map."""
        return self.kept_length >= _ENOUGH * self.possible_length or self.kept_neighbors >= _ENOUGH

    def __str__(self) -> str:
        verdict = "it fits" if self.fits else "fit one on public rows of this kind, or use no map"
        return (
            f"this map keeps {self.kept_length:.2f} of your sample's squared length, of {self.possible_length:.2f} that as many "
            f"components can keep, and {self.kept_neighbors:.2f} of its neighbors: {verdict}"
        )


ALL = "all"

# Components are stored as float32: their products with each other then differ from 0 and 1 by at most about sqrt(d) 2^-24.
_ORTHONORMAL_WITHIN = 1e-5

# Directions in which public rows vary less than this, relative to the largest, are rounding errors and not data.
_SMALLEST_SPREAD = 1e-6

_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, eq=False)
class PublicProjection(PublicArrays):
    """x -> scales * (components (x - mean)), a map that is fixed before any private row is seen.

    Made by `fit`, `mean_only`, `johnson_lindenstrauss` or `load`; two projections are equal if they are the same map.

    Args:
        mean: float32 [d], subtracted first; zeros where no mean is removed.
        components: float32 [m, d], orthonormal rows, m <= d; None for the identity.
        scales: float32 [m], > 0, one for each component; None for ones, and without components.
        fitted_rows: digests of the rows that it was fitted on, which `fit` and `mean_only` keep; None: not known, or none.

    Guarantees:
        If M, which clips or normalizes **after** the map, is (epsilon, delta)-DP for all pairs of inputs, so is M(f(.)) for every
        fixed f, which may be published, and so may its `digest`. A map fitted on the private rows voids every guarantee (but one of
        `private_pca`, whose epsilon adds to M's), so a release of a row that `fit` has seen is refused (`require_other_rows` says what
        that cannot see).

    Edge cases:
        Lengths change: normalize after the map (`privatize(..., normalize=True)`). A row equal to the mean becomes zeros. Cosines
        change too: queries on released rows have to be transformed as well.

    Reference:
        Johnson and Lindenstrauss, "Extensions of Lipschitz mappings into a Hilbert space" (1984), lemma 1; Kenthapadi, Korolova,
        Mironov, Mishra, "Privacy via the Johnson-Lindenstrauss transform" (2013), for noise after a projection.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> from hushvec.mechanisms import PublicProjection
        >>> rng = np.random.default_rng(0)
        >>> public, private = rng.standard_normal((500, 64)), rng.standard_normal((3, 64))
        >>> projection = PublicProjection.fit(public, components=16)
        >>> low = projection.transform(private)
        >>> low.shape, low.dtype, projection.lift(low).shape
        ((3, 16), dtype('float32'), (3, 64))
        >>> hv.privatize(low, epsilon=16.0, normalize=True).values.shape
        (3, 16)
    """

    kind = "projection"
    mean: NDArray[np.float32]
    components: NDArray[np.float32] | None = None
    scales: NDArray[np.float32] | None = None
    fitted_rows: FittedRows | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", public_arrays.frozen("mean", self.mean, 1))
        if self.components is not None:
            object.__setattr__(self, "components", public_arrays.frozen("components", self.components, 2))
            self._require_orthonormal()
        if self.scales is not None:
            object.__setattr__(self, "scales", public_arrays.frozen("scales", self.scales, 1))
            count = 0 if self.components is None else len(self.components)
            if self.components is None or self.scales.shape != (count,):
                raise ValueError(f"scales must be one for each of {count} components, got shape {self.scales.shape}")
            if not (self.scales > 0).all():
                raise ValueError(f"scales must be > 0, got {float(self.scales.min())!r}")

    @classmethod
    def fit(
        cls, public_embeddings: Any, *, components: int | str = 40, remove_mean: bool = True, whiten: bool = False
    ) -> PublicProjection:
        """The principal components of public rows, the strongest first.

        Args:
            public_embeddings: float array [n, d], n >= 2, numpy or torch: public rows, never those that are to be released.
            components: m, how many are kept; at most the number of directions in which the rows vary. "all": that number.
            remove_mean: also subtract the mean of the public rows; without it the components are those of the uncentered rows.
            whiten: also divide each component by its spread in the public rows; their mean square length is then 1.
        """
        rows = _public_rows(public_embeddings)
        wanted = rows.shape[1] if components == ALL else _components(components, rows.shape[1])
        centered = validate.flag("remove_mean", remove_mean)
        mean = rows.mean(axis=0).astype(np.float32) if centered else np.zeros(rows.shape[1], np.float32)
        moved = rows - mean
        spread, axes = np.linalg.eigh(moved.T @ moved / len(rows))
        varying = int((spread > _SMALLEST_SPREAD**2 * spread[-1]).sum()) if spread[-1] > 0 else 0
        count = max(1, varying) if components == ALL else wanted
        if count > varying:
            raise ValueError(f"components must be at most {varying}, the directions in which public_embeddings vary, got {count}")
        scales = (1 / np.sqrt(count * spread[::-1][:count])).astype(np.float32) if validate.flag("whiten", whiten) else None
        return cls(mean, signed_axes(axes[:, ::-1][:, :count].T).astype(np.float32), scales, FittedRows.of(rows))

    @classmethod
    def mean_only(cls, public_embeddings: Any) -> PublicProjection:
        """Subtract the mean of public rows, and nothing else. The argument is that of `fit`."""
        rows = _public_rows(public_embeddings)
        return cls(rows.mean(axis=0).astype(np.float32), fitted_rows=FittedRows.of(rows))

    @classmethod
    def johnson_lindenstrauss(cls, dimension: int, components: int, seed: int) -> PublicProjection:
        """A random subspace: m <= d orthonormal directions, uniform among all such, from a seed in [0, 2^32), which is public.

        Guarantees:
            Distances shrink by about sqrt(m / d), all alike up to 1 +- epsilon for n rows once m is about 8 ln(n) / epsilon^2.
            Machines may differ in the last bit: copy the map (`save`) and compare digests.
        """
        size = validate.whole_number("dimension", dimension, at_least=1)
        count = _components(components, size)
        start = validate.whole_number("seed", seed, at_least=0)
        if start > _LARGEST_SEED:
            raise ValueError(f"seed must be at most 2^32 - 1, got {start}")
        # RandomState, because numpy promises that its stream stays as it is.
        gaussian = np.random.RandomState(start).standard_normal((size, count))
        axes, triangle = np.linalg.qr(gaussian)
        # The decomposition is unique, and its law uniform, only with positive diagonal.
        axes *= np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
        return cls(np.zeros(size, np.float32), axes.T.astype(np.float32))

    @property
    def dimension(self) -> int:
        """d of the rows that go in."""
        return int(self.mean.shape[0])

    @property
    def output_dimension(self) -> int:
        """m of the rows that come out: the dimension of the mechanism behind it."""
        return self.dimension if self.components is None else int(self.components.shape[0])

    def transform(self, x: Any) -> Any:
        """The rows of x in the public coordinates, before the noise: a new float32 array [m] or [n, m] of x's kind and device.

        Args:
            x: float array [d] or [n, d], numpy or torch on any device, or a list, as in `hushvec.privatize`. Not changed.

        Guarantees:
            Computed in float64 and rounded once. On the CPU, and without gradients, a row's bits depend on the row alone, so that
            equal rows stay equal. NaN, Inf and results beyond float32 are refused with their row.
        """
        wide = self._checked("x", x, self.dimension)
        wide = wide - _like(wide, self.mean)
        if self.components is not None:
            wide = _coordinates(wide, self.components)
        return arrays.returned(x, _narrowed("x", wide if self.scales is None else wide * _like(wide, self.scales)))

    def lift(self, y: Any) -> Any:
        """Rows of the public coordinates back in the original space: mean + components^T (y / scales), float32 [d] or [n, d].

        Post-processing, hence free. `lift(transform(x))` is x without what the components leave out.

        Args:
            y: float array [m] or [n, m], numpy or torch, in the units of what `transform` returns.
        """
        wide = self._checked("y", y, self.output_dimension)
        if self.scales is not None:
            wide = wide / _like(wide, self.scales)
        if self.components is not None:
            wide = _coordinates(wide, self.components.T)
        return arrays.returned(y, _narrowed("y", wide + _like(wide, self.mean)))

    def require_other_rows(self, x: Any, name: str = "x") -> None:
        """Refuse rows [d] or [n, d], before the map, that it was fitted on, as `FittedRows` finds them.

        The error tells the row to whoever sees it. Only maps made by `fit` or `mean_only` refuse: no refusal proves nothing.
        """
        public_arrays.require_other_rows("projection", self.fitted_rows, as_array(name, x), name)

    def check(self, public_sample: Any) -> ProjectionFit:
        """How much of rows like those to be released survives the map, before any epsilon is spent. `print` shows what it means.

        Args:
            public_sample: float array [n, d], n >= 32, numpy or torch: **public** rows like those to be released, and not those that
                the map was fitted on. Never private ones: the answer is not private. Of more than 2,000 rows as many are looked at.

        Edge cases:
            Lengths are measured without the map's scales and mean, neighbors with them: whitening moves neighbors on purpose.
        """
        public_sample = public_arrays.checked_public_rows("public_sample", public_sample)
        count, dimension = public_sample.shape
        if dimension != self.dimension:
            raise ValueError(f"public_sample must have {self.dimension} columns, got {dimension}")
        if count < _FEWEST_ROWS:
            raise ValueError(f"public_sample must have at least {_FEWEST_ROWS} rows, got {count}")
        values = public_sample.detach().double().cpu().numpy() if arrays.is_torch(public_sample) else public_sample
        rows = np.asarray(values, np.float64)[np.random.default_rng(0).permutation(count)[:_MOST_ROWS]]
        seen, held_out = (half - half.mean(axis=0) for half in (rows[::2], rows[1::2]))
        best_axes = np.linalg.svd(seen, full_matrices=False)[2][: self.output_dimension]
        before, after = (_neighbors(side) for side in (rows, np.asarray(self.transform(rows), np.float64)))
        return ProjectionFit(
            kept_length=1.0 if self.components is None else _share(rows - rows.mean(axis=0), self.components.astype(np.float64)),
            possible_length=_share(held_out, best_axes),
            kept_neighbors=float(np.mean([len(set(one) & set(other)) / NEIGHBORS for one, other in zip(before, after)])),
        )

    def _checked(self, name: str, x: Any, dimension: int) -> Any:
        x = as_array(name, x)
        arrays.require_array(name, x)
        if arrays.is_cupy(x):
            raise TypeError(f"{name} must be a numpy array or a torch tensor, got {arrays.array_kind(x)}")
        if x.shape[-1] != dimension:
            raise ValueError(f"{name} must have {dimension} columns, got {x.shape[-1]}")
        rowwise.require_finite(name, x)
        return x.double() if arrays.is_torch(x) else x.astype(np.float64)

    def __repr__(self) -> str:
        return f"PublicProjection({self.dimension} -> {self.output_dimension}, digest {self.digest[:12]})"

    def _stored(self) -> dict[str, NDArray[np.float32]]:
        """What is None is an empty array: a map onto no components does not exist."""
        nothing = np.zeros((0,), np.float32)
        return {
            "mean": self.mean,
            "components": nothing if self.components is None else self.components,
            "scales": nothing if self.scales is None else self.scales,
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PublicProjection:
        """The map that `save` wrote; ValueError where it is not such a file, or its digest is not that of its contents."""

        def made(stored: dict[str, Any]) -> PublicProjection:
            components, scales = (stored[name] if len(stored[name]) else None for name in ("components", "scales"))
            return cls(stored["mean"], components, scales, fitted_rows=FittedRows.stored(stored[public_arrays.FITTED_ROWS]))

        names = ("mean", "components", "scales", public_arrays.FITTED_ROWS)
        return public_arrays.load_npz(path, "projection", public_arrays.FORMAT, names, made)

    def _require_orthonormal(self) -> None:
        assert self.components is not None
        count, dimension = self.components.shape
        if dimension != self.dimension or not 1 <= count <= dimension:
            raise ValueError(f"components must have shape (m, {self.dimension}) with 1 <= m <= d, got {self.components.shape}")
        wide = self.components.astype(np.float64)
        error = float(np.abs(wide @ wide.T - np.eye(count)).max())
        if error > _ORTHONORMAL_WITHIN:
            raise ValueError(f"components must be orthonormal within {_ORTHONORMAL_WITHIN}, got an error of {error:.3g}")


def _share(centered: _Rows, components: _Rows) -> float:
    whole = float(np.square(centered).sum())
    return min(1.0, float(np.square(centered @ components.T).sum()) / whole) if whole > 0 else 1.0


def _neighbors(rows: _Rows) -> list[list[int]]:
    unit = public_arrays.unit_rows(rows)
    found: list[list[int]] = nearest_others(unit, unit, np.arange(len(unit))).tolist()
    return found


def _public_rows(public_embeddings: Any) -> NDArray[np.float64]:
    public_embeddings = public_arrays.checked_public_rows("public_embeddings", public_embeddings)
    if arrays.is_torch(public_embeddings):
        public_embeddings = public_embeddings.double().cpu().numpy()
    return np.asarray(public_embeddings, np.float64)


def _components(components: Any, dimension: int) -> int:
    count = validate.whole_number("components", components, at_least=1)
    if count > dimension:
        raise ValueError(f"components must be at most {dimension}, the dimension, got {count}")
    return count


def signed_axes(axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row with its largest element positive: an axis has no direction, a map must have one."""
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, None]


def _like(x: Any, array: NDArray[np.float32]) -> Any:
    wide = array.astype(np.float64)
    return sys.modules["torch"].from_numpy(wide).to(x.device) if arrays.is_torch(x) else wide


def _coordinates(wide: Any, axes: NDArray[np.float32]) -> Any:
    """Inner products of the rows of `wide`, or of its one row, with the axes, of its kind and on its device."""
    torch = sys.modules["torch"] if arrays.is_torch(wide) else None
    if torch is not None and (wide.device.type != "cpu" or wide.requires_grad):
        return wide @ _like(wide, axes).T
    found = product(np.asarray(wide), axes.T.astype(np.float64))
    return found if torch is None else torch.from_numpy(found)


def _narrowed(name: str, wide: Any) -> Any:
    if arrays.is_torch(wide):
        narrow = wide.float()
    else:
        with np.errstate(over="ignore"):
            narrow = wide.astype(np.float32)
    rowwise.require_finite(f"{name} in the range of float32", narrow)
    return narrow
