# Two commands on a fresh machine (Python 3.10+, a C++20 compiler, make):
#   make demo    installs into .venv and runs the main job
#   make test    installs into .venv-test and runs every test
# Everything else here is for working on hushvec.
PYTHON ?= python3
# Bytecode of what is used is made when it is used: compiling all packages at once takes minutes.
PIP = -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.PHONY: demo test native arm ranks bench lint clean

demo: .venv/installed
	.venv/bin/hushvec demo

# --upgrade-strategy keeps what is there: only this package is built anew when its sources change.
SOURCES = pyproject.toml constraints.txt CMakeLists.txt $(shell find cpp cuda python studies/pyproject.toml -type f -not -name '*.so' -not -path '*/__pycache__/*')

.venv/installed: $(SOURCES)
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) '.[text,cli]'
	touch $@

.venv-test/installed: $(SOURCES)
	$(PYTHON) -m venv .venv-test
	.venv-test/bin/python $(PIP) '.[torch,text,cli,test,dev]' --editable './studies[test]' cmake
	touch $@

# mypy and the last of the emulated tests use one processor: the builds go on beside them. The tests that run alone are named by file, as
# collecting the whole suite a second time, with every library that it imports, takes 44 s of processor time instead of 7.
test: .venv-test/installed
	$(MAKE) --jobs=2 lint native arm
	.venv-test/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile -m "not alone"
	.venv-test/bin/python -m pytest -m alone $(shell grep -rl --include='test_*.py' 'mark\.alone' tests studies/tests)
	$(MAKE) ranks

lint: .venv-test/installed
	.venv-test/bin/ruff check python studies tests examples
	.venv-test/bin/mypy

native: .venv-test/installed
	PATH="$(CURDIR)/.venv-test/bin:$$PATH" scripts/check_native.sh

# The C++ tests for 64-bit ARM, cross-compiled and under emulation; skipped, with a reason, without the packages for it.
arm: .venv-test/installed
	PATH="$(CURDIR)/.venv-test/bin:$$PATH" scripts/check_arm.sh

# Tests that rank, with the other kernels of numpy's BLAS.
ranks: .venv-test/installed
	.venv-test/bin/python scripts/check_ranks.py

bench: .venv-test/installed
	.venv-test/bin/python $(PIP) '.[bench]'
	.venv-test/bin/python bench/python/run.py

clean:
	rm -rf .venv .venv-test build
