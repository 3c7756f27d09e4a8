"""How much noise: from (epsilon, delta) to the parameter of a mechanism, and back.

With s = sigma/sensitivity and Phi the standard normal distribution function, the Gaussian mechanism is (epsilon, delta)-DP exactly for
(Balle and Wang 2018, theorem 8)

    delta >= Phi(1/(2 s) - epsilon s) - e**epsilon * Phi(-1/(2 s) - epsilon s)

Every answer is on the safe side of the exact one for the float64 numbers that were passed: sigma, scale, epsilon and delta are never
too small. Arguments are scalars or arrays, which are broadcast against each other: scalars give a float, and if any argument is an
array or a sequence, the result is a float64 array of the broadcast shape. A ValueError names the argument, and in an array the
element, counted in C order after broadcasting: ``epsilon[3] must be > 0 and finite, got -1.0``.
"""

import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushvec._native import _core

__all__ = ["expected_cosine", "gaussian_delta", "gaussian_epsilon", "gaussian_sigma", "laplace_scale"]

_METHODS = ("analytic", "classical")
_FLOAT = frozenset({float})


def gaussian_sigma(
    epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike = 1.0, *, method: str = "analytic", allow_unproven: bool = False
) -> float | NDArray[np.float64]:
    """Smallest noise per coordinate that makes the Gaussian mechanism (epsilon, delta)-DP.

    Args:
        epsilon: > 0 and finite; scalar or array, like delta and sensitivity.
        delta: > 0 and < 1. Subnormal numbers keep full accuracy.
        sensitivity: L2 sensitivity, > 0 and finite, in the unit of sigma. A vector clipped to norm C and replaced has 2 C.
        method: "analytic" is exact. "classical" is sensitivity * sqrt(2 ln(1.25/delta))/epsilon, for comparison with published
            numbers; it is proved for epsilon < 1 only, and above epsilon of about 8 it adds **too little** noise.
        allow_unproven: with "classical", accept epsilon >= 1. Then report the actual delta, ``gaussian_delta(epsilon, sigma,
            sensitivity)``, instead of the requested one.

    Returns:
        sigma, the standard deviation in the unit of sensitivity.

    Raises:
        ValueError: a value breaks its rule; sigma would exceed the largest float64.

    Guarantees:
        ``gaussian_delta(epsilon, gaussian_sigma(epsilon, delta, D), D) <= delta``, checked for every element ("analytic"). At most
        4e-14 above the exact value, relative; never below it. To use sigma in float32, round it up.

    Edge cases:
        As accurate for delta = 5e-324 and for epsilon = 1e4 and beyond. Pure DP (delta = 0) has no Gaussian sigma.

    Reference:
        Analytic: Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy" (2018), theorem 8. Classical: Dwork and
        Roth, "The Algorithmic Foundations of Differential Privacy" (2014), theorem A.1.

    Example:
        >>> import hushvec as hv
        >>> round(hv.gaussian_sigma(1.0, 1e-5), 4)
        3.7306
        >>> hv.gaussian_sigma([1.0, 8.0], 1e-5, sensitivity=2.0).round(4)
        array([7.4613, 1.2005])
    """
    if not isinstance(method, str):
        raise TypeError(f"method must be a str, got {type(method).__name__}")
    if method not in _METHODS:
        raise ValueError(f"method must be 'analytic' or 'classical', got {method!r}")
    if not isinstance(allow_unproven, bool):
        raise TypeError(f"allow_unproven must be a bool, got {type(allow_unproven).__name__}")
    if method == "analytic":
        return _elementwise(_core.gaussian_sigma, epsilon=epsilon, delta=delta, sensitivity=sensitivity)

    def classical(epsilon: Any, delta: Any, sensitivity: Any) -> Any:
        try:
            return _core.gaussian_sigma_classical(epsilon, delta, sensitivity, allow_unproven=allow_unproven)
        except ValueError as error:
            if "classical" not in str(error):
                raise
            raise ValueError(f"{error} (allow_unproven=True accepts it; see gaussian_delta)") from None

    return _elementwise(classical, epsilon=epsilon, delta=delta, sensitivity=sensitivity)


def gaussian_delta(epsilon: ArrayLike, sigma: ArrayLike, sensitivity: ArrayLike = 1.0) -> float | NDArray[np.float64]:
    """Smallest delta for which noise of standard deviation sigma is (epsilon, delta)-DP.

    Args:
        epsilon: >= 0 and finite.
        sigma: standard deviation per coordinate, > 0 and finite.
        sensitivity: as in `gaussian_sigma`.

    Returns:
        delta in (0, 1].

    Raises:
        ValueError: a value breaks its rule.

    Guarantees:
        Never below the exact value, and at most 2.5e-14 above it, relative (or one unit of the smallest float64, where that is more).

    Edge cases:
        epsilon = 0: the total variation distance, 2 Phi(1/(2 s)) - 1. A tiny sigma gives 1.0, a huge one 5e-324, never 0.

    Reference:
        Balle and Wang (2018), theorem 8.

    Example:
        >>> import hushvec as hv
        >>> f"{hv.gaussian_delta(1.0, 3.7307):.4e}"
        '9.9970e-06'
    """
    return _elementwise(_core.gaussian_delta, epsilon=epsilon, sigma=sigma, sensitivity=sensitivity)


def gaussian_epsilon(delta: ArrayLike, sigma: ArrayLike, sensitivity: ArrayLike = 1.0) -> float | NDArray[np.float64]:
    """Smallest epsilon for which noise of standard deviation sigma is (epsilon, delta)-DP.

    Args:
        delta: > 0 and < 1.
        sigma, sensitivity: as in `gaussian_delta`.

    Returns:
        epsilon >= 0.

    Raises:
        ValueError: a value breaks its rule.

    Guarantees:
        ``gaussian_delta(gaussian_epsilon(delta, sigma, D), sigma, D) <= delta``, checked for every element where epsilon is finite.
        Never below the exact value, and above it by at most 1e-13 of epsilon + min(1, sensitivity/sigma).

    Edge cases:
        delta >= 2 Phi(1/(2 s)) - 1: 0.0, any epsilon will do. sigma/sensitivity < about 5e-155: inf, no float64 is large enough.

    Reference:
        Balle and Wang (2018), theorem 8.

    Example:
        >>> import hushvec as hv
        >>> round(hv.gaussian_epsilon(1e-5, 0.2, sensitivity=2.0), 1)
        91.8
    """
    return _elementwise(_core.gaussian_epsilon, delta=delta, sigma=sigma, sensitivity=sensitivity)


def laplace_scale(epsilon: ArrayLike, sensitivity: ArrayLike) -> float | NDArray[np.float64]:
    """Scale of independent Laplace noise that gives pure epsilon-DP: sensitivity/epsilon.

    Args:
        epsilon: > 0 and finite; scalar or array.
        sensitivity: **L1** sensitivity, > 0 and finite, in the unit of scale. With an L2 bound D in dimension d it is sqrt(d) D.

    Returns:
        scale, per coordinate (the standard deviation is sqrt(2) times it).

    Raises:
        ValueError: a value breaks its rule, or the scale would exceed the largest float64.

    Guarantees:
        The quotient rounded up to float64: scale * epsilon >= sensitivity in real arithmetic.

    Edge cases:
        An exact quotient stays exact (for sensitivity above 1e-288). One below every float64 becomes the smallest one, never 0.

    Reference:
        Dwork, McSherry, Nissim, Smith, "Calibrating Noise to Sensitivity in Private Data Analysis" (2006), proposition 1.

    Example:
        >>> import hushvec as hv
        >>> hv.laplace_scale(0.5, 3.0)
        6.0
    """
    return _elementwise(_core.laplace_scale, epsilon=epsilon, sensitivity=sensitivity)


def expected_cosine(sigma: ArrayLike, dimension: ArrayLike, norm: ArrayLike = 1.0) -> float | NDArray[np.float64]:
    """Mean cosine between a vector and itself with Gaussian noise, for large dimensions: 1/sqrt(1 + dimension (sigma/norm)**2).

    Args:
        sigma: standard deviation per coordinate, >= 0 and finite; scalar or array, like the others.
        dimension: number of coordinates, an integer >= 1.
        norm: L2 norm of the vector before the noise, > 0 and finite, in the unit of sigma.

    Guarantees:
        Within 1 % of the true mean for 100 dimensions or more: the norm of the noisy vector is replaced by the root of its mean
        square, E|x + sigma Z|^2 = |x|^2 + d sigma^2.

    Example:
        >>> import hushvec as hv
        >>> round(hv.noise.expected_cosine(0.2, 768), 3)
        0.178
    """
    integer = np.asarray(dimension)
    if integer.dtype.kind not in "iu":
        raise TypeError(f"dimension must be an integer or an array of them, got {_kind(dimension, integer)}")
    return _elementwise(_expected_cosine, sigma=sigma, dimension=dimension, norm=norm)


def _expected_cosine(sigma: Any, dimension: Any, norm: Any) -> Any:
    _require(sigma >= 0, sigma, "sigma", ">= 0 and finite")
    _require(dimension >= 1, dimension, "dimension", ">= 1")
    _require(norm > 0, norm, "norm", "> 0 and finite")
    cosine = 1.0 / np.hypot(1.0, np.sqrt(dimension) * (sigma / norm))
    return float(cosine) if np.ndim(cosine) == 0 else cosine


def _require(holds: Any, values: Any, name: str, rule: str) -> None:
    """ValueError for the first element that is not finite or does not hold."""
    broken = ~(np.atleast_1d(holds) & np.isfinite(np.atleast_1d(values)))
    if broken.any():
        where = int(np.argmax(broken))
        index = f"[{where}]" if np.ndim(values) else ""
        raise ValueError(f"{name}{index} must be {rule}, got {float(np.atleast_1d(values)[where])}")


def _elementwise(function: Callable[..., Any], **arguments: Any) -> float | NDArray[np.float64]:
    """function of floats, or of equally long one-dimensional float64 arrays brought back to the broadcast shape."""
    if _FLOAT.issuperset(map(type, arguments.values())):  # as nearly always: other questions take longer than the formula
        return function(*arguments.values())  # type: ignore[no-any-return]
    numbers_or_arrays = {name: _real(name, value) for name, value in arguments.items()}
    if all(isinstance(value, float) for value in numbers_or_arrays.values()):
        scalar: float = function(*numbers_or_arrays.values())
        return scalar
    try:
        broadcast = np.broadcast_arrays(*numbers_or_arrays.values())
    except ValueError:
        shapes = ", ".join(str(np.shape(value)) for value in numbers_or_arrays.values())
        raise ValueError(f"{', '.join(arguments)} must broadcast against each other, got shapes {shapes}") from None
    flat = (np.ascontiguousarray(array).reshape(-1) for array in broadcast)
    result: NDArray[np.float64] = function(*flat).reshape(broadcast[0].shape)
    return result


def _real(name: str, value: Any) -> float | NDArray[np.float64]:
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            return float(value)
        except OverflowError:   # an int beyond float64
            return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be a real number or an array of them, got {_kind(value, array)}")
    return array.astype(np.float64, copy=False)


def _kind(value: Any, array: NDArray[Any]) -> str:
    return f"array of {array.dtype}" if array.ndim else type(value).__name__
