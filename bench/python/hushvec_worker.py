"""The other end of `hushvec_cases.BackendWorker`: one JSON request a line, one reply a line."""

import single_thread  # noqa: F401  before numpy

import json
import os
import sys
from typing import Any

from contestant import Contestant
from hushvec_cases import case_from_spec, in_use
from workloads import Workload, workload_from_spec

_cases: dict[str, Contestant] = {}
_workloads: dict[str, Workload] = {}


def _case(spec: dict[str, Any]) -> Contestant:
    return _cases.setdefault(json.dumps(spec), case_from_spec(spec))


def _workload(spec: dict[str, Any]) -> Workload:
    # Kept, because a workload holds its arrays; only one at a time, for the memory.
    key = json.dumps(spec)
    if key not in _workloads:
        _workloads.clear()
        _workloads[key] = workload_from_spec(spec)
    return _workloads[key]


def _open(case: Contestant) -> dict[str, Any]:
    """Instructions that were asked for and are not in use must not be timed under their names."""
    opened, reason = case.available()
    asked = (os.environ["HUSHVEC_BACKEND"], os.environ["HUSHVEC_AES"])
    if opened and in_use() != asked:
        opened, reason = False, f"backend and AES must be {asked}, got {in_use()}"
    return {"result": True} if opened else {"error": reason}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The result of one request, or the reason why there is none."""
    case = _case(request["case"])
    if request["action"] == "open":
        return _open(case)
    workload = _workload(request["workload"])
    if request["action"] == "complaint":
        return {"result": case.complaint(workload)}
    return {"result": case.measure(workload, request["calls"])}


def main() -> None:
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # the parent has the only place to show it
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
