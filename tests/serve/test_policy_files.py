"""A policy's file under everything that operators do to it: a key works exactly if the newest readable policy has it, and none does
once the file could not be read for the time that the documents state."""

import contextlib
import itertools
import os
import shutil
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from starlette.testclient import TestClient

from evidence.reference.sizes import scaled
from hushvec.cli import main
from hushvec.serve import app, reloading, server
from hushvec.serve.keys import hash_of, new_key, owner_of
from hushvec.serve.policy import read_policy
from hushvec.serve.reloading import PolicyInForce, watch
from serve.services import policy_fields, write_policy

KEYS = [new_key() for _ in range(4)]
SOME = st.sets(st.integers(0, 3), min_size=1).map(sorted)
KINDS = ("plain", "link", "mounted secret")


def text_of(folder, chosen):
    fields = policy_fields(folder / "budget.sqlite")
    fields["tenants"]["alpha"]["keys"] = [hash_of(KEYS[place]) for place in chosen]
    return yaml.safe_dump(fields)


class Secret:
    """A policy's file: itself, behind a link, or as Kubernetes mounts a secret: policy.yaml -> ..data/policy.yaml, ..data -> ..1."""

    def __init__(self, folder, kind):
        self.path, self._folder, self._kind, self._numbers = folder / "policy.yaml", folder, kind, itertools.count()

    @property
    def place(self):
        """Where the content lies."""
        return Path(os.path.realpath(self.path))

    def update(self, text):
        self.remove_what_is_no_file()
        if self._kind == "plain":
            self._take_place(self.path, lambda new: new.write_text(text))
            return
        old = self._folder / os.readlink(self._folder / "..data") if (self._folder / "..data").is_symlink() else None
        new = f"..{next(self._numbers)}"
        (self._folder / new).mkdir()
        (self._folder / new / "policy.yaml").write_text(text)
        self._take_place(self._folder / "..data", lambda link: link.symlink_to(new))
        behind = "..data/policy.yaml" if self._kind == "mounted secret" else f"{new}/policy.yaml"
        if not self.path.is_symlink() or os.readlink(self.path) != behind:
            self._take_place(self.path, lambda link: link.symlink_to(behind))
        if old is not None:
            shutil.rmtree(old)

    def remove_what_is_no_file(self):
        if self.path.is_dir() and not self.path.is_symlink():
            self.path.rmdir()

    def _take_place(self, path, make):
        with contextlib.suppress(FileNotFoundError):
            (self._folder / "new").unlink()
        make(self._folder / "new")
        os.replace(self._folder / "new", path)


class PolicyFiles(RuleBasedStateMachine):
    """The real watch, whose clock and looks are this machine's."""

    @initialize(kind=st.sampled_from(KINDS), chosen=SOME)
    def start(self, kind, chosen):
        self.folder = Path(tempfile.mkdtemp())
        self.secret = Secret(self.folder, kind)
        self.secret.update(text_of(self.folder, chosen))
        self.now, self.known, self.gone = 1000.0, set(chosen), {}
        self.text = text_of(self.folder, chosen)
        self._real = reloading.asyncio, reloading.time
        reloading.asyncio = SimpleNamespace(sleep=_Pause, to_thread=_at_once)
        reloading.time = SimpleNamespace(monotonic=lambda: self.now)
        self.in_force = PolicyInForce(read_policy(self.secret.path), self.secret.path)
        self.watch = watch(self.secret.path, self.in_force.reload)
        self.watch.send(None)

    def teardown(self):
        if hasattr(self, "watch"):
            self.watch.close()
            reloading.asyncio, reloading.time = self._real
            shutil.rmtree(self.folder)

    @rule(chosen=SOME)
    def replace(self, chosen):
        self.secret.update(text := text_of(self.folder, chosen))
        self.found(text)

    @rule(chosen=SOME)
    def write_in_place(self, chosen):
        """With the time, and perhaps the size, of the old content."""
        if self.secret.place.is_file():
            status = self.secret.place.stat()
            self.secret.place.write_text(text := text_of(self.folder, chosen))
            os.utime(self.secret.place, ns=(status.st_atime_ns, status.st_mtime_ns))
            self.found(text)

    @rule(share=st.floats(0, 1))
    def truncate(self, share):
        if self.secret.place.is_file():
            text = self.secret.place.read_text()
            self.secret.place.write_text(text := text[: int(share * (len(text) - 1))])
            self.found(text)

    @rule()
    def delete(self):
        if self.secret.place.is_file():
            self.secret.place.unlink()
            self.found(None)

    @rule(kind=st.sampled_from(("pipe", "folder", "loop")))
    def something_else(self, kind):
        """What cannot be read at once."""
        self.secret.remove_what_is_no_file()
        self.secret.path.unlink(missing_ok=True)
        {"pipe": os.mkfifo, "folder": os.mkdir, "loop": lambda path: path.symlink_to(path)}[kind](self.secret.path)
        self.found(None)

    @rule()
    def deny(self):
        if self.secret.place.is_file() and os.geteuid():
            self.secret.place.chmod(0)
            self.found(None)

    @rule(seconds=st.sampled_from((2, 20, 58, 60, 62)))
    def wait(self, seconds):
        self.look(seconds)

    def found(self, text):
        self.text = text
        self.look(2)

    def look(self, seconds):
        """What is expected of looks every other second, and these looks."""
        for _ in range(int(seconds) // 2):
            self.now += 2
            try:
                tenant = yaml.safe_load(self.text or "")["tenants"]["alpha"]
                chosen = [place for place in range(4) if hash_of(KEYS[place]) in tenant["keys"]]
                whole = self.text.rstrip() == text_of(self.folder, chosen).rstrip()
            except (yaml.YAMLError, TypeError, KeyError):
                whole = False
            stated = {place for place in range(4) if hash_of(KEYS[place]) in (self.text or "")}
            if whole:
                self.known, self.gone = stated, {}
            else:
                self.gone = {place: self.gone.get(place, self.now) for place in self.known - stated}
            self.watch.send(None)

    @invariant()
    def keys_work_as_the_newest_policy_says(self):
        if not hasattr(self, "watch"):
            return
        expected = {place for place in self.known if self.now < self.gone.get(place, self.now) + reloading.SECONDS_UNTIL_REFUSED}
        valid = self.in_force.valid_keys_of(self.in_force.policy)
        assert {place for place in range(4) if owner_of(KEYS[place], valid)} == expected


class _Pause:
    """In place of `asyncio.sleep`: the watch goes on when it is sent something."""

    def __init__(self, seconds):
        assert seconds == reloading.SECONDS_BETWEEN_LOOKS

    def __await__(self):
        yield


async def _at_once(call, *arguments):
    return call(*arguments)


def test_a_key_works_exactly_if_the_newest_readable_policy_has_it():
    terms = settings(max_examples=scaled(25, 400), stateful_step_count=15, deadline=None)
    run_state_machine_as_test(PolicyFiles, settings=terms)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_revoked_behind_a_link_is_refused(tmp_path, monkeypatch, kind):
    """The path was resolved at the start, so an update of a mounted secret was never seen."""
    monkeypatch.setattr(reloading, "SECONDS_BETWEEN_LOOKS", 0.02)
    secret = Secret(tmp_path, kind)
    secret.update(text_of(tmp_path, [0, 1]))
    monkeypatch.setenv(app.POLICY_VARIABLE, "")
    monkeypatch.setenv(app.HOST_VARIABLE, "127.0.0.1")
    monkeypatch.setattr("uvicorn.run", lambda *arguments, **options: None)
    server.run(read_policy(secret.path), secret.path, server.Listening())
    made = app.app_of_environment()
    made.state.owns_process = False  # but this test's
    with TestClient(made, base_url="http://localhost") as client:
        status = lambda place: client.get("/v1/budgets", headers={"Authorization": f"Bearer {KEYS[place]}"}).status_code
        assert (status(0), status(1)) == (200, 200)
        secret.update(text_of(tmp_path, [1]))
        until = time.monotonic() + 20
        while status(0) == 200 and time.monotonic() < until:
            time.sleep(0.02)
        assert (status(0), status(1)) == (401, 200)


PIPES = {
    "a policy": lambda pipe, policy: ["--policy", str(pipe)],
    "a certificate": lambda pipe, policy: ["--policy", str(policy), "--certificate", str(pipe), "--private-key", str(pipe)],
    "a codebook": lambda pipe, policy: [
        "--policy",
        str(write_policy(policy, policy_fields(policy.with_name("b.sqlite"), mechanism="codebook", codebook=str(pipe)))),
    ],
}


@pytest.mark.parametrize("check", ([], ["--check"]))
@pytest.mark.parametrize("what", PIPES)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, capsys, what, check):
    os.mkfifo(tmp_path / "pipe")
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite"))
    assert main(["serve", *PIPES[what](tmp_path / "pipe", policy), *check]) == 2
    assert f"{tmp_path / 'pipe'}: must be a plain file" in capsys.readouterr().err


def test_a_file_that_is_mounted_alone_is_named(tmp_path, monkeypatch):
    """A container that mounts the file itself keeps the old one when another takes its place."""
    path = tmp_path / "policy.yaml"
    path.write_text("")
    assert not server.is_mount(path)
    monkeypatch.setattr(server, "mounts", lambda real: [("/", "ext4"), (str(path.resolve()), "ext4")])
    assert server.is_mount(path)
    (tmp_path / "link").symlink_to(path)
    assert server.is_mount(tmp_path / "link")
