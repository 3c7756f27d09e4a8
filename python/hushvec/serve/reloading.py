"""The policy in force: read again when its file changes, checked as at the start, and kept where the file is wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

from hushvec._util.publish import plain_bytes, published_bytes
from hushvec.errors import MissingExtraError
from hushvec.integrations.detectors import detector
from hushvec.serve.policy import MOST_BYTES, Policy, Redaction, policy_of, policy_of_text, require_keys_beyond_loopback
from hushvec.serve.releases import load_codebook
from hushvec.text.pii.redactor import Redactor

_log = logging.getLogger("hushvec.serve")

SECONDS_BETWEEN_LOOKS = 2.0
SECONDS_BETWEEN_TRIES = 30.0

# A key that is gone from a file which cannot be put in force was probably revoked in the same edit.
SECONDS_UNTIL_REFUSED = 60.0

_COMMENT = re.compile(rb"(?m)(^|\s)#.*$")


class PolicyInForce:
    """One process's policy.

    Args:
        policy: what is in force at first.
        path: of its file, for `reload`; None without one.
        host: where the service listens; None if the caller sees to that.
        kept: a file with the policy in force in this process's siblings. A worker that starts later begins with it, and then
            reads the policy's file as they did, so that it never takes what they refused.
    """

    def __init__(self, policy: Policy, path: Path | None, host: str | None = None, kept: Path | None = None) -> None:
        self.policy = policy
        self._path = path
        self._host = host
        self._kept = kept
        self._refused_from: dict[str, float] = {}
        require_usable(policy, host)
        if kept is not None and path is not None:
            try:
                self.reload(seconds_until_refused=0.0)
            except Exception as error:
                _log.error("policy: the one of the other workers stays in force: %s", reason_of(error))

    def valid_keys_of(self, policy: Policy) -> list[tuple[str, str]]:
        """Return (who, hash) for every key of the policy, which is or was in force, without those that are refused by now."""
        now, never = time.monotonic(), float("inf")
        return [(who, known) for who, known in policy.owners_of_keys() if now < self._refused_from.get(known, never)]

    def reload(self, *, seconds_until_refused: float = SECONDS_UNTIL_REFUSED) -> bool:
        """Put the file's policy in force; returns whether it is another one. A file that is wrong leaves the policy as it is, but
        keys whose hashes are gone from it, outside of comments, are refused when `seconds_until_refused` have passed: all of them
        where the file cannot be read."""
        if self._path is None:
            raise ValueError("there is no policy file to read again")
        text = b""
        try:
            text = plain_bytes(self._path, MOST_BYTES)
            fresh = policy_of_text(text, str(self._path))
            self._require_successor(fresh)
        except BaseException:
            self._doubt_keys_missing_in(text, time.monotonic() + seconds_until_refused)
            raise
        self._refused_from = {}
        changed = fresh != self.policy
        self.policy = fresh
        if changed and self._kept is not None:
            keep_policy(fresh, self._kept)
        return changed

    def _require_successor(self, fresh: Policy) -> None:
        if fresh.store != self.policy.store:
            raise ValueError("store must stay the same while the service runs")
        if self.policy.needs_keys and fresh.tenants_without_keys():
            raise ValueError(f"tenants.{fresh.tenants_without_keys()[0]}.keys must not be empty while the service runs")
        require_usable(fresh, self._host)

    def _doubt_keys_missing_in(self, text: bytes, refused_from: float) -> None:
        stated = _COMMENT.sub(b"", text)
        missing = [known for _, known in self.policy.owners_of_keys() if known.encode() not in stated]
        self._refused_from = {known: self._refused_from.get(known, refused_from) for known in missing}


def keep_policy(policy: Policy, kept: Path) -> None:
    """Write the policy that is in force, for workers that start later."""
    with published_bytes(kept) as file:
        file.write(policy.model_dump_json().encode())


def kept_policy(kept: Path) -> Policy:
    return policy_of(json.loads(kept.read_bytes()), str(kept))


async def watch(path: Path, reload: Callable[[], bool]) -> None:
    """Call `reload` when the file has changed, and again later where that failed. Nothing but cancellation ends it."""
    seen: object = None  # the file may have changed since it was read at the start
    said, again = "", 0.0
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        now = await asyncio.to_thread(_state_of, path)
        if now == seen and time.monotonic() < again:
            continue
        said = said if now == seen else ""
        seen, again = now, float("inf")
        try:
            if await asyncio.to_thread(reload):
                _log.warning("policy: read again, in force")
        except (Exception, SystemExit) as error:  # SystemExit: of a detector's or a model's code
            again = time.monotonic() + SECONDS_BETWEEN_TRIES
            if said != reason_of(error):
                said = reason_of(error)
                _log.error("policy: the old one stays in force: %s", said)


def reason_of(error: BaseException) -> str:
    """Return the text of an error for the log: its message only where that is ours or the system's."""
    is_known = isinstance(error, ValueError | OSError | MissingExtraError) and not isinstance(error, UnicodeError)
    return str(error) if is_known else type(error).__name__


def _state_of(path: Path) -> bytes | str:
    """Return what the file says, or why it cannot be read. A time or a size may stay while content or rights change."""
    try:
        return plain_bytes(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        return str(error)


def require_usable(policy: Policy, host: str | None) -> None:
    """Check what a policy needs around it, at the start, in every worker, and whenever the file changes. Models of
    detectors and codebooks are loaded before the first request, and what is missing is said now."""
    if host is not None:
        require_keys_beyond_loopback(policy, host)
    for name, tenant in policy.tenants.items():
        try:
            redactor_of(tenant.redact)
        except ValueError as error:
            raise ValueError(f"tenants.{name}.redact: {error}") from None
        try:
            if tenant.codebook is not None:
                load_codebook(tenant.codebook)
        except (ValueError, OSError) as error:
            raise ValueError(f"tenants.{name}.codebook: {error}") from None


def redactor_of(settings: bool | Redaction) -> Redactor | None:
    if settings is False:
        return None
    chosen = Redaction() if settings is True else settings
    return Redactor(
        patterns=chosen.categories, allow_categories=chosen.allow_categories or None, allow_list=chosen.allow_list or None,
        replacement=chosen.replacement,
        detectors=[detector(entry) for entry in chosen.detectors] or None,
    )
