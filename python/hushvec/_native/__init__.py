"""Everything that touches the compiled core: arrays in and out, the choice of device, torch operators. Private to hushvec."""

from hushvec._native import interpreter  # noqa: F401  # refuses subinterpreters, before the core is loaded
