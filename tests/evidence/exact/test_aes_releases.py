"""Releases under AES-256 have the same frozen bits on every backend with every implementation of AES. Their values are held to the
reference in the other files of this folder, in mechanisms/discrete and in collect."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hushvec._native import _core

CALLS = Path(__file__).with_name("aes_releases.py")
IMPLEMENTATIONS = ("vaes512", "vaes256", "aesni", "neon", "portable")
FROZEN = """
gaussian float32: 96e2dad4b2dde5d6bfacee29d48a0f85
laplacian float32: ee764083211011c7af8f8a7df47e74fe
gaussian float64: 7b2befee9ebe40df0854e3db5fc12558
laplacian float64: d2bde500d4ca4393190f09857871530f
gaussian float16: 687bd09e2d22657161895a5b109717ce
laplacian float16: 608355ba95b0ca292432b994a8449bc7
privunit float32: dd32e905390c28db351a5b3c4a5d4586
privunit float64: 1de87c2bc3e8e22ba136bccc40668af5
responses: 3bc8a8710bed84143e43df6d014100e1
top-k: 74f775e3f43b93d2ee62d91494690580
bits: 7cd3339b8f21dd8cc2e0c2b233be38b4
cells: 4d5cb6de0c83de7d6d33d4b6cabd9bf1
job gaussian: a34f6627572a87a238aa9f8952230b88
job laplacian: 20b0f680295aafac6420403d48ec17f3
job privunit: e8a5f401a8f7c51cbc24f767a0b80ade
gaussian int8 of float32: 63678038814de6797d039607ffae9acd
privunit int8 of float32: 13dd988b62d73a90bec377255f2811fa
gaussian int8 of float64: 23e388d958f66f08ceb63bdcd3442c16
privunit int8 of float64: edb37fbb41903eeb7524895b0f94a1f2
gaussian float32, version 3: ee77d46b97b2c963c907e32245776eb6
laplacian float32, version 3: 84afd7474690837918bacb9f98224ec1
gaussian float64, version 3: 4889527c406ddf08d8c2cf7c7c7f112b
laplacian float64, version 3: bfd23503fcde1ea27b0d877f8a866164
gaussian float16, version 3: a97b6bc57ac9551a7941b0673a8a5130
laplacian float16, version 3: 49042e5f44212fc3f169e91b22bdaaca
gaussian int8, version 3: bcd4bc13bc76cff9dc5a9abe7c020e20
"""


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_frozen_bits(backend, implementation):
    if implementation not in _core.backends()["aes"]["available"]:
        pytest.skip(f"this machine or build has no {implementation} AES")
    finished = subprocess.run(
        [sys.executable, str(CALLS), backend, implementation],
        env=dict(os.environ, HUSHVEC_BACKEND=backend, HUSHVEC_AES=implementation),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert finished.stdout.splitlines() == FROZEN.strip().splitlines()
