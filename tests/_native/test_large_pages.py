"""Large results in torch's memory are advised to lie on large pages before the first write, as numpy does with its own."""

import mmap
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv

torch = pytest.importorskip("torch")
if not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
    pytest.skip("this system has no transparent huge pages", allow_module_level=True)


def is_advised(address):
    """Whether the mapping that this address lies in has the flag of MADV_HUGEPAGE."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        field = line.split(maxsplit=1)[0]
        if "-" in field and not field.endswith(":"):
            first, last = (int(part, 16) for part in field.split("-"))
            inside = first <= address < last
        elif inside and field == "VmFlags:":
            return "hg" in line.split()
    raise AssertionError(f"no mapping has {address:#x}")


@pytest.mark.parametrize("release", [lambda x: hv.clip_and_noise(x, 1.0, 0.5), lambda x: hv.privatize(x, epsilon=8.0).values])
def test_a_large_result_of_torch_lies_where_large_pages_may_be(release):
    # A mapping of its own: malloc may give what an earlier result lay in.
    rows = torch.frombuffer(mmap.mmap(-1, 4 * 9000 * 1024), dtype=torch.float32).view(9000, 1024)
    assert not is_advised(rows.data_ptr() + rows.nbytes // 2)
    result = release(rows)
    assert is_advised(result.data_ptr() + result.nbytes // 2)


def test_numpy_does_so_itself():
    result = hv.clip_and_noise(np.zeros((9000, 1024), np.float32), 1.0, 0.5)
    assert is_advised(result.ctypes.data + result.nbytes // 2)
