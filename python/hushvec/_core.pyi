"""Types of the compiled core. An Array is a numpy array or a torch CPU tensor with one or two dimensions."""

from typing import Any, Literal, final, overload

import numpy as np
from numpy.typing import NDArray

_Array = Any
_Int64s = NDArray[np.int64]
# A Generator, or what its _reserve returned.
_Source = Any
_Float64s = NDArray[np.float64]
_Uint32s = NDArray[np.uint32]
_Int32s = NDArray[np.int32]
_Float32s = NDArray[np.float32]

__version__: str
format_version: int

@final
class Generator:
    """A key stream: ChaCha keyed by the operating system. Every call draws from a nonce of its own."""

    def __init__(self, rounds: int = 20) -> None: ...
    @staticmethod
    def unsafe_seeded(seed: int, rounds: int = 20) -> Generator: ...
    @property
    def rounds(self) -> int: ...
    @property
    def seeded(self) -> bool: ...
    @property
    def key_source(self) -> Literal["os", "seed"]: ...
    def _reserve(self) -> object: ...
    def _apart(self, place: int) -> object: ...

def default_generator() -> Generator: ...
def _state_words(stream: object) -> _Int64s: ...
def _take_from_state(state: _Int64s) -> object: ...
def fill_gaussian(out: _Array, sigma: float, source: _Source) -> None: ...
def fill_laplacian(out: _Array, scale: float, source: _Source) -> None: ...
def fill_l2_laplace(out: _Array, scale: float, source: _Source) -> None: ...
def clip(x: _Array, clip_norm: float, out: _Array, out_is_fresh: bool = False) -> None: ...
def clip_and_noise(
    x: _Array,
    clip_norm: float,
    sigma: float,
    out: _Array,
    source: _Source,
    law: str,
    exact: bool,
    out_is_fresh: bool = False,
) -> float: ...
def privunit(
    x: _Array,
    cap_probability: float,
    threshold: float,
    sigma: float,
    out: _Array,
    source: _Source,
    out_is_fresh: bool = False,
) -> None: ...
def clip_and_noise_keyed(
    x: _Array, clip_norm: float, sigma: float, out: _Array, key: bytes, places: NDArray[np.uint8], law: str
) -> None: ...
def privunit_keyed(
    x: _Array,
    cap_probability: float,
    threshold: float,
    sigma: float,
    out: _Array,
    key: bytes,
    places: NDArray[np.uint8],
) -> None: ...
def unit_rows(x: _Array, out: _Array) -> None: ...
def privunit_law(epsilon: float, threshold: float | None = None) -> tuple[float, float]: ...
def privunit_epsilon(cap_probability: float, threshold: float) -> float: ...
def privunit_mean(cap_probability: float, threshold: float) -> float: ...
def privunit_grid(sigma: float) -> tuple[float, float]: ...
def exact_grid(sigma: float, clip_norm: float) -> tuple[float, float]: ...
def set_num_threads(count: int) -> None: ...
def get_num_threads() -> int: ...
def backends() -> dict[str, Any]: ...
@overload
def gaussian_delta(epsilon: float, sigma: float, sensitivity: float) -> float: ...
@overload
def gaussian_delta(epsilon: _Float64s, sigma: _Float64s, sensitivity: _Float64s) -> _Float64s: ...
@overload
def gaussian_epsilon(delta: float, sigma: float, sensitivity: float) -> float: ...
@overload
def gaussian_epsilon(delta: _Float64s, sigma: _Float64s, sensitivity: _Float64s) -> _Float64s: ...
@overload
def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float: ...
@overload
def gaussian_sigma(epsilon: _Float64s, delta: _Float64s, sensitivity: _Float64s) -> _Float64s: ...
@overload
def gaussian_sigma_classical(epsilon: float, delta: float, sensitivity: float, allow_unproven: bool = False) -> float: ...
@overload
def gaussian_sigma_classical(
    epsilon: _Float64s, delta: _Float64s, sensitivity: _Float64s, allow_unproven: bool = False
) -> _Float64s: ...
@overload
def laplace_scale(epsilon: float, sensitivity: float) -> float: ...
@overload
def laplace_scale(epsilon: _Float64s, sensitivity: _Float64s) -> _Float64s: ...
def response_law(epsilon: float, labels: int) -> tuple[int, int]: ...
def randomized_response(codes: NDArray[Any], labels: int, law: tuple[int, int], source: _Source) -> NDArray[Any]: ...
def gumbel_top_k(
    scores: NDArray[np.floating[Any]], picks: int, epsilon: float, sensitivity: float, source: _Source, bound_factor: float = 1.0
) -> tuple[_Int64s, list[tuple[int, list[int]]], object]: ...
def stream_block(stream: object, domain: int, index: int) -> tuple[int, ...]: ...

class _testing:
    """Hooks for the tests; not part of the interface."""

    @staticmethod
    def chacha_block(key: bytes, counter: int, nonce: int, rounds: int) -> _Uint32s: ...
    @staticmethod
    def row_keys(backend: str, key: bytes, places: bytes, rows: bytes, row_bytes: int) -> bytes: ...
    @staticmethod
    def keystream(
        backend: str, key: bytes, nonce: int, rounds: int, domain: int, first_group: int, groups: int
    ) -> _Uint32s: ...
    @staticmethod
    def normals(backend: str, radius_words: _Uint32s, angle_words: _Uint32s) -> tuple[_Float32s, _Float32s, _Float32s]: ...
    @staticmethod
    def exponentials(backend: str, words: _Uint32s) -> _Float32s: ...
    @staticmethod
    def normals_f64(
        backend: str, radius_words: _Uint32s, radius_low: _Uint32s, angle_words: _Uint32s, angle_low: _Uint32s
    ) -> tuple[_Float64s, _Float64s]: ...
    @staticmethod
    def laplaces_f64(backend: str, words: _Uint32s, low: _Uint32s) -> _Float64s: ...
    @staticmethod
    def exact_gaussian(
        backend: str,
        key: bytes,
        nonce: int,
        rounds: int,
        first_pair: int,
        radius_words: _Uint32s,
        angle_words: _Uint32s,
        x_cos: NDArray[np.floating[Any]],
        x_sin: NDArray[np.floating[Any]],
        s: float,
        bound_factor: float = 1.0,
    ) -> tuple[_Int32s, _Int32s]: ...
    @staticmethod
    def exact_laplace(
        backend: str,
        key: bytes,
        nonce: int,
        rounds: int,
        first_sample: int,
        words: _Uint32s,
        x: NDArray[np.floating[Any]],
        s: float,
        bound_factor: float = 1.0,
    ) -> _Int32s: ...
    @staticmethod
    def settle_gaussian(
        level: int,
        key: bytes,
        nonce: int,
        rounds: int,
        pair: int,
        sine: bool,
        radius_word: int,
        angle_word: int,
        x: float,
        s: float,
    ) -> tuple[int, int]: ...
    @staticmethod
    def settle_laplace(
        level: int, key: bytes, nonce: int, rounds: int, sample: int, word: int, x: float, s: float
    ) -> tuple[int, int]: ...
    @staticmethod
    def privunit(
        key: bytes,
        nonce: int,
        rounds: int,
        x: _Array,
        cap_probability: float,
        threshold: float,
        sigma: float,
        out: _Array,
        bound_factor: float = 1.0,
        first_level: int = 2,
    ) -> None: ...
    @staticmethod
    def error_bounds(backend: str) -> dict[str, dict[str, float]]: ...
    @staticmethod
    def response_intervals(epsilon: float, labels: int, uniforms: NDArray[np.uint64]) -> _Uint32s: ...
    @staticmethod
    def gumbel_brackets(prefixes: NDArray[np.uint64]) -> tuple[_Float64s, _Float64s]: ...
    @staticmethod
    def gumbel_caps(words: _Uint32s) -> _Float64s: ...
