"""The peers a user would pick instead, each in a file of its own."""

from __future__ import annotations

from typing import Sequence

from contestant import Contestant
from peers.aes_ctr import mkl_maths_recipe, numpy_recipe
from peers.memcpy import Memcpy
from peers.mkl_vsl import MklARS5
from peers.numpy_blocks import NumpyBlocks
from peers.numpy_generators import NumpyPCG64, NumpySFC64
from peers.opendp_peer import OpenDP
from peers.randomgen_peer import RandomgenAESCounter, RandomgenChaCha20
from peers.sigma_solvers import DpAccounting, ScipyFindRoot
from peers.torch_cpu import TorchEager, TorchInPlace, TorchInPlaceBlocks

MEMCPY = Memcpy.name
MKL = MklARS5.name
AES_RECIPE = numpy_recipe().name
TORCH_IN_PLACE = TorchInPlace.name
BLOCKS_MKL = "numpy blocks + MKL ARS5"
BLOCKS_AES = "numpy blocks + AES-256-CTR"
BLOCKS_AES_MKL = "numpy blocks + AES-256-GCM, MKL maths"
BLOCKS_SFC64 = "numpy blocks + SFC64"


def all_peers(threads: Sequence[int] = (1,)) -> list[Contestant]:
    """Every peer, unopened; those with a thread pool once for each number of threads."""
    peers: list[Contestant] = [
        Memcpy(),
        MklARS5(),
        numpy_recipe(),
        mkl_maths_recipe(),
        NumpyPCG64(),
        NumpySFC64(),
        RandomgenChaCha20(),
        RandomgenAESCounter(),
        OpenDP(),
        NumpyBlocks(BLOCKS_MKL, MklARS5()),
        NumpyBlocks(BLOCKS_AES, numpy_recipe()),
        NumpyBlocks(BLOCKS_AES_MKL, mkl_maths_recipe()),
        NumpyBlocks(BLOCKS_SFC64, NumpySFC64()),
        ScipyFindRoot(),
        DpAccounting(),
    ]
    for count in threads:
        peers += [TorchInPlace(count), TorchInPlaceBlocks(count), TorchEager(count)]
    return peers
