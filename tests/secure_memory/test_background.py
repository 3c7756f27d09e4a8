"""The handler of docs/secure_memory.md: secrets are zeros when the program has stopped; interrupted caches refuse to go on."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hushvec.errors import SecureMemoryError
from secure_memory.memory_scan import Scanner

SECURE, PLAIN = 21, 22
PAGE = (Path(__file__).parents[2] / "docs" / "secure_memory.md").read_text(encoding="utf-8")
HANDLER = re.search(r"^def stop\(.*?\n\n", PAGE, re.DOTALL | re.MULTILINE)[0]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import os, signal
import numpy as np
from memory_scan import write_secret
from hushvec.secure_memory import SecureBuffer

key, plain = SecureBuffer(4096), np.zeros(4096, np.uint8)

{handler}
if sys.argv[2] == "handler":
    signal.signal(signal.SIGTSTP, stop)
for line in sys.stdin:
    if line.strip() == "plant":
        write_secret(21, memoryview(key.numpy()))
        write_secret(22, memoryview(plain))
    print(int(key.numpy().any()), flush=True)
"""


class Program:
    """A child in its own process group that holds one secret in a SecureBuffer and one in an array."""

    def __init__(self, way):
        command = [sys.executable, "-c", PROGRAM.format(handler=HANDLER), str(Path(__file__).parent), way]
        # In this session: the kernel drops SIGTSTP for a process group without a parent in its own.
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0)

    def ask(self, word):
        self.child.stdin.write(word + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().strip()

    def stopped_by(self, number):
        """Send a signal and wait until the child has stopped."""
        self.child.send_signal(number)
        _, status = os.waitpid(self.child.pid, os.WUNTRACED)
        return os.WIFSTOPPED(status) and os.WSTOPSIG(status) == number

    def found(self):
        return Scanner(SECURE).in_process(self.child.pid), Scanner(PLAIN).in_process(self.child.pid)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.child.kill()
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="subprocess has no process_group before Python 3.11")
def test_zeros_when_the_process_has_stopped():
    with Program("handler") as program:
        for _ in range(2):   # the handler is in place again after SIGCONT
            assert program.ask("plant") == "1" and program.found() == (1, 1)
            assert program.stopped_by(signal.SIGTSTP)
            assert program.found() == (0, 1)
            program.child.send_signal(signal.SIGCONT)
            assert program.ask("go on") == "0"
        assert program.ask("plant") == "1"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="subprocess has no process_group before Python 3.11")
@pytest.mark.parametrize(("way", "number"), [("none", signal.SIGTSTP), ("handler", signal.SIGSTOP)], ids=["no handler", "SIGSTOP"])
def test_what_is_not_covered_is_found(way, number):
    """Without the handler, and with SIGSTOP, which no program can handle, the same search finds the secret."""
    with Program(way) as program:
        program.ask("plant")
        assert program.stopped_by(number)
        assert program.found() == (1, 1)


class TestCache:
    """A cache that held something refuses every use until it is scrubbed."""

    @pytest.fixture
    def model(self):
        pytest.importorskip("transformers")
        from secure_memory.small_model import make_model

        return make_model()

    def test_a_generation_that_was_interrupted_ends_with_an_error(self, model, monkeypatch):
        import torch

        from hushvec.secure_memory import SecureCache
        from hushvec.secure_memory.transformers_cache import SecureLayer
        from secure_memory.small_model import TOKENS

        with SecureCache(model.config, capacity=64) as cache, torch.no_grad():
            show = SecureLayer._show
            expected = model.generate(TOKENS, past_key_values=cache, max_new_tokens=6, do_sample=False)
            cache.scrub()
            calls = []

            def interrupted(layer, before):
                calls.append(before)
                if len(calls) == 5:   # in the middle of a pass: between the copy of new states and their use
                    cache.interrupt()
                show(layer, before)

            monkeypatch.setattr(SecureLayer, "_show", interrupted)
            with pytest.raises(SecureMemoryError, match="scrubbed when the program went to the background"):
                model.generate(TOKENS, past_key_values=cache, max_new_tokens=6, do_sample=False)
            monkeypatch.setattr(SecureLayer, "_show", show)
            for use in (cache.get_seq_length, lambda: model(TOKENS, past_key_values=cache)):
                with pytest.raises(SecureMemoryError, match="scrub\\(\\) it and begin again"):
                    use()
            assert not any(tensor.any() for layer in cache.layers for tensor in layer.held.tensors())
            cache.scrub()
            assert torch.equal(model.generate(TOKENS, past_key_values=cache, max_new_tokens=6, do_sample=False), expected)

    def test_an_empty_cache_stays_in_use(self, model):
        import torch

        from hushvec.secure_memory import SecureCache
        from secure_memory.small_model import TOKENS

        with SecureCache(model.config) as cache, torch.no_grad():
            cache.interrupt()
            model(TOKENS, past_key_values=cache)
            assert cache.get_seq_length() == TOKENS.shape[1]
