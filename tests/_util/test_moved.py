"""Modules under their old names: they warn, and are the modules of today."""

import importlib
import subprocess
import sys
import warnings

import pytest

from hushvec._util.moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_old_names_warn_and_give_the_module(old):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(old.rpartition(".")[0])
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"^{old} is now {MOVED[old]}; the old name goes in 0.2$"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(MOVED[old])
    assert module.__name__ == module.__spec__.name == MOVED[old]


def test_other_names_are_missing_as_ever():
    code = "import hushvec.no_such_module"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().endswith("ModuleNotFoundError: No module named 'hushvec.no_such_module'")


def test_old_names_are_attributes_of_the_package_too(monkeypatch):
    import hushvec as hv
    import hushvec.noise.calibration

    monkeypatch.delitem(sys.modules, "hushvec.calibrate", raising=False)
    monkeypatch.delattr(hv, "calibrate", raising=False)
    text = r"^hushvec.calibrate is now hushvec.noise.calibration; the old name goes in 0.2$"
    with pytest.warns(DeprecationWarning, match=text) as caught:
        assert hv.calibrate is hushvec.noise.calibration
    assert [warning.filename for warning in caught] == [__file__]
