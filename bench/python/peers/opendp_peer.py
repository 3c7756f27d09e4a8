"""OpenDP: exact discrete samplers under float data.  The exact peer, at 10 to 60 us a sample."""

from __future__ import annotations

import numpy as np

from contestant import Contestant


class OpenDP(Contestant):
    name = "OpenDP"
    secure_key_stream = True
    exact = True
    sample_limit = 2_048

    def open(self) -> None:
        import opendp.prelude as dp

        # make_gaussian and make_laplace are behind this switch.
        dp.enable_features("contrib")
        self._dp = dp
        self._domain = dp.vector_domain(dp.atom_domain(T="f32", nan=False))
        self._measurements: dict[tuple[str, float], object] = {}

    def _release(self, out: np.ndarray, law: str, scale: float) -> np.ndarray:
        key = (law, scale)
        if key not in self._measurements:
            self._measurements[key] = {
                "gaussian": lambda: self._dp.m.make_gaussian(
                    self._domain, self._dp.l2_distance(T="f32"), scale=scale
                ),
                "laplace": lambda: self._dp.m.make_laplace(
                    self._domain, self._dp.l1_distance(T="f32"), scale=scale
                ),
            }[law]()
        out.fill(0.0)
        out[:] = self._measurements[key](out)
        return out

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        return self._release(out, "gaussian", sigma)

    def laplace(self, out: np.ndarray, scale: float) -> np.ndarray:
        return self._release(out, "laplace", scale)
