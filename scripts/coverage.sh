#!/usr/bin/env bash
# Coverage of the C++ sources by the C++ tests and the Python tests together, and of the Python package by the Python tests. The reports
# lie in build/coverage/html. The instrumented core is used by these processes alone: what `make dev` installed stays as it is.
#
#   scripts/coverage.sh                         all default tests
#   scripts/coverage.sh tests/noise tests/_native            these alone
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/coverage
mkdir -p build
python=$(command -v python)
[ $# -gt 0 ] || set -- tests

pybind11_DIR=$("$python" -m pybind11 --cmakedir) cmake --preset coverage -G Ninja >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build --preset coverage >"$build.log" 2>&1 || { tail -n 60 "$build.log"; exit 1; }
find "$build" -name '*.gcda' -delete
ctest --preset coverage --parallel "$(getconf _NPROCESSORS_ONLN)"

# The package's sources with the instrumented core among them. The finder of the editable installation would come first.
site=$PWD/$build/site
rm -rf "$site"
mkdir -p "$site"
cp -rs "$PWD/python/hushvec" "$site/hushvec"
find "$site/hushvec" -name '_core.*.so' -delete
cmake --install "$build" --component python --prefix "$site" >/dev/null
cat >"$site/sitecustomize.py" <<'EOF'
import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
EOF
mkdir -p "$build/html"
# Not two tests of processes in which coverage would write its own file: where files may not grow, and under many interrupts.
PYTHONPATH=$site "$python" -m pytest -p no:cacheprovider --numprocesses auto --maxprocesses 4 --dist loadfile -m "not alone" \
  --deselect tests/cli/test_cli_privatize.py::test_a_full_disk_leaves_nothing \
  --deselect tests/budget/test_processes.py::test_an_interrupt_in_the_middle_leaves_the_ledger_sound \
  --cov=hushvec --cov-report=term:skip-covered --cov-report="html:$build/html/python" "$@" || echo "some tests failed: the figures are of those that ran"
# A line of a template counts once, whichever instruction set ran it: no machine has all of them.
gcovr --merge-lines --root . --object-directory "$build" --filter 'cpp/' --filter 'cuda/' --filter 'python/bindings/' --exclude 'cpp/tools/' \
  --gcov-ignore-parse-errors=negative_hits.warn_once_per_file --gcov-suspicious-hits-threshold 0 \
  --html-details "$build/html/cpp.html" --print-summary
