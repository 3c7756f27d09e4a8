# Two commands on a fresh machine (Python 3.10+, a C++20 compiler, make):
#   make demo    installs into .venv and runs the main job
#   make test    installs into .venv-test and runs what CI runs first
# Everything else is for working on hushvec: CONTRIBUTING.md says when to use which target.
PYTHON ?= python3
BIN = .venv-test/bin
# Python compiles bytecode when it needs it: compiling all packages at once takes minutes. It has to be kept, whatever the caller's
# environment says: otherwise each of the tests' processes would compile all that it imports, and torch takes seconds.
unexport PYTHONDONTWRITEBYTECODE
PIP = -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
PIP_WHEEL = -m pip wheel --quiet --disable-pip-version-check --no-deps
# The file that takes longest begins first (tests/groups.py).
PYTEST = $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: demo dev quick test groups hosts site device-code slow full newest lint native native-quick native-rest device-core bytecode sanitizers portable arm web try mutants ranks wheel release tidy coverage format bench figures docs lock clean FORCE

demo: .venv/installed
	@.venv/bin/hushvec demo

# ---- installation

CPP_SOURCES = CMakeLists.txt $(shell find cmake cpp cuda python/bindings tests/native/cpp tests/native/cuda -type f -not -path '*/__pycache__/*')
FORMATTED = $(filter %.cpp %.hpp %.cu %.cuh, $(CPP_SOURCES)) $(wildcard examples/cpp/*.cpp js/native/*.cpp)
STUDIES = $(wildcard studies/pyproject.toml)
LINTED = python tests examples scripts js $(if $(STUDIES),studies)
TESTS = tests $(if $(STUDIES),studies/tests)
ALONE = $(shell grep -rl --include='test_*.py' 'mark\.alone' $(TESTS))

# Without CUDA: the demo runs on the CPU, and nvcc takes longer than everything else together. Without torch and a model too: the vectors
# that the demo shows are shipped.
.venv/installed: pyproject.toml $(CPP_SOURCES) build/modules
	@echo "[1/2] making .venv"
	@$(PYTHON) -m venv .venv
	@echo "[2/2] fetching numpy and compiling hushvec for the CPU, which takes a minute or two; next comes: .venv/bin/hushvec demo"
	@.venv/bin/python $(PIP) --config-settings=cmake.define.HUSHVEC_CUDA=OFF --force-reinstall .
	@touch $@

# The list of Python modules, rewritten when one comes or goes: an editable installation finds those that it was made with.
build/modules: FORCE
	@mkdir -p build
	@find python/hushvec -name '*.py' | sort > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Device code is compiled where nvcc and a driver are found; `make device-code` and `make full` need nvcc alone. For the devices of this
# machine, without one for sm_90, whose machine code the tests read, and for all architectures in `make full`.
CUDA ?= AUTO
CUDA_HERE = ON
build/architectures: FORCE
	@mkdir -p build
	@echo "CUDA=$(CUDA) CUDA_HERE=$(CUDA_HERE)" | cmp -s - $@ || echo "CUDA=$(CUDA) CUDA_HERE=$(CUDA_HERE)" > $@

# Build tools stay installed, so that the build folder stays valid.
.venv-test/tools: constraints.txt
	$(PYTHON) -m venv .venv-test
	$(BIN)/python $(PIP) cmake editables hatchling ninja pybind11 scikit-build-core
	touch $@

# uv installs packages in a third of pip's time, where it is there.
UV ?= $(shell command -v uv)
INSTALL = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt,$(BIN)/python $(PIP))

# What hushvec and most of its tests need, and no hushvec.
.venv-test/packages: .venv-test/tools pyproject.toml constraints.txt $(STUDIES)
	$(BIN)/python scripts/requirements.py test lint > .venv-test/requirements.txt
	$(INSTALL) --requirement .venv-test/requirements.txt
	touch $@

# What the tests of a group need beyond that.
.venv-test/hosts .venv-test/site .venv-test/device-code: .venv-test/%: .venv-test/packages
	$(BIN)/python scripts/requirements.py test-$* > .venv-test/requirements-$*.txt
	$(INSTALL) --requirement .venv-test/requirements-$*.txt
	touch $@
.venv-test/slow: .venv-test/packages
	touch $@
.venv-test/dev: .venv-test/packages
	$(BIN)/python scripts/requirements.py dev > .venv-test/requirements-dev.txt
	$(INSTALL) --requirement .venv-test/requirements-dev.txt
	touch $@

# An editable installation: changes of Python need no build, and ninja compiles the C++ files that changed in build/dev, where the C++
# tests are built too (`make native`), from the same objects.
EDITABLE = --no-deps --no-build-isolation --config-settings=build-dir=build/dev \
  --config-settings=cmake.define.HUSHVEC_BUILD_TESTS=ON --config-settings=build.targets=python_modules \
  --config-settings=cmake.define.HUSHVEC_CUDA=$(CUDA) --config-settings=cmake.define.HUSHVEC_CUDA_HERE=$(CUDA_HERE)
.venv-test/core: .venv-test/tools pyproject.toml build/modules build/architectures $(CPP_SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python $(PIP) $(EDITABLE) --editable . $(if $(STUDIES),--editable ./studies)
	touch $@

.venv-test/installed: .venv-test/packages .venv-test/core
	touch $@

dev: .venv-test/installed .venv-test/dev

# ---- while working

# Lint, types, and the tests of what differs from main.
quick: .venv-test/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/quick.py

# The tests of one folder: make test-budget.
test-%: .venv-test/installed
	$(PYTEST) tests/$*

format: .venv-test/installed
	$(BIN)/ruff check --fix $(LINTED)
	$(BIN)/clang-format -i $(FORMATTED)

lint: .venv-test/packages
	$(BIN)/ruff check $(LINTED)
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED)
	$(BIN)/mypy

# ---- what CI runs

# The compiler works while pip downloads, and lint, which needs no hushvec, beside what is left to build. Test files are named: collecting
# all of them imports every library that hushvec works with.
QUICK = -m "not alone and not hosts and not site and not device_code and not slow" $$($(BIN)/python tests/groups.py quick)
test:
	$(MAKE) --jobs=3 .venv-test/installed native-quick lint wheel bytecode
	$(PYTEST) $(QUICK)

# What tests import is compiled once, while one processor checks types, and not by each of pytest's workers at the same time.
bytecode: .venv-test/installed
	@$(BIN)/python -m pytest --collect-only -q $(QUICK) >/dev/null || true

# The tests that `make test` leaves out, by group: `hosts` are libraries that hushvec plugs into and stores, `site` the site and the
# service's page in a browser, `device-code` what nvcc makes, run on the CPU, `slow` takes a third of a second or more. Several at once:
# make groups GROUPS="hosts slow"
GROUPS = hosts site device-code slow
CUDA_FOUND = $(if $(or $(CUDACXX),$(shell command -v nvcc)),ON,AUTO)
empty =
ANY_GROUP = $(subst $(empty) $(empty), or ,$(subst -,_,$(strip $(GROUPS))))

hosts site device-code slow:
	$(MAKE) groups GROUPS=$@

# The core with device code where nvcc is: it takes as long to compile as the packages of the groups take to install.
device-core:
	$(MAKE) CUDA=$(CUDA_FOUND) .venv-test/core

groups:
	$(MAKE) --jobs=2 $(if $(filter device-code,$(GROUPS)),CUDA=$(CUDA_FOUND)) $(GROUPS:%=.venv-test/%) .venv-test/installed \
	  $(if $(filter device-code slow,$(GROUPS)),native-rest)
	$(PYTEST) -m "not alone and ($(ANY_GROUP))" $$($(BIN)/python tests/groups.py $(GROUPS))
	$(if $(filter slow,$(GROUPS)),$(BIN)/python -m pytest -m alone $(ALONE))

# What runs every night: more samples, sanitizers, other systems, other BLAS kernels.
full: $(GROUPS:%=.venv-test/%)
	$(MAKE) --jobs=2 CUDA=$(CUDA_FOUND) CUDA_HERE=OFF dev native lint wheel sanitizers portable
	HUSHVEC_TEST_SCALE=full $(PYTEST) --timeout 7200 -m "not alone" $(TESTS)
	HUSHVEC_TEST_SCALE=full $(BIN)/python -m pytest --timeout 7200 -m alone $(ALONE)
	$(MAKE) CUDA=$(CUDA_FOUND) CUDA_HERE=OFF ranks

# Each extra as `pip install` gives it today, without constraints.txt: it does its main job, or what is newer is printed. EXTRAS="serve torch"
# for some of them.
newest: .venv-test/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/try_extras.py $(EXTRAS)

# The C++ tests as released, and the example of the installed library; `native-quick` leaves out those that take long to compile or to run,
# and `native-rest` is they alone.
native-quick: .venv-test/core
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check_native.sh dev-quick
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check_installed.sh build/dev

native-rest: .venv-test/core
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check_native.sh dev-rest

native: .venv-test/core
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check_native.sh dev
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check_installed.sh build/dev

sanitizers: .venv-test/tools
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check_native.sh asan tsan

# The core, its tests and the Python module for other systems, run where an emulator runs them: 64-bit ARM, musl, Windows, macOS. What a
# package is missing for is skipped, with a reason. `make arm` is ARM alone.
.venv-test/portable: .venv-test/tools
	-$(BIN)/python $(PIP) ziglang
	touch $@

portable: .venv-test/portable
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/check_portable.py $(SYSTEMS)

arm: .venv-test/tools
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/check_portable.py aarch64-linux

# The npm package: the core for WebAssembly, and its tests by Node's own runner.
.venv-test/web: .venv-test/tools pyproject.toml
	$(BIN)/python scripts/requirements.py --no-studies web | grep ziglang > .venv-test/requirements-web.txt
	$(INSTALL) --requirement .venv-test/requirements-web.txt
	touch $@

web: .venv-test/web
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check_web.sh

# The page "Try it", on this machine: make try PORT=8000
PORT = 8000
try: .venv-test/web
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check_web.sh build
	$(BIN)/python scripts/site/try_page.py build/try
	@echo "open http://localhost:$(PORT)/ (Ctrl-C ends it)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory build/try 2>/dev/null

# Random mutants of the core, by today's date, against the quick tests of their rooms (MUTANTS="--count 30 --rooms budget").
mutants: dev
	$(BIN)/python scripts/mutants.py $(MUTANTS)

# Tests that rank, with the other kernels of numpy's BLAS.
ranks: .venv-test/installed
	$(BIN)/python scripts/check_ranks.py

# What users install, from the objects in build/dev: the files in it, and a release by the installed package.
wheel: .venv-test/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/check_wheel.py

# Both build in build/dev: one after the other.
ifneq ($(filter native%,$(MAKECMDGOALS)),)
wheel: | $(filter native%,$(MAKECMDGOALS))
endif

# The packages of a release into dist/VERSION, checked; nothing is uploaded: make release VERSION=0.2.0
release:
	$(if $(VERSION),,$(error VERSION must name the release, as in VERSION=0.2.0))
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python scripts/requirements.py --no-studies release > .venv-release/requirements.txt
	.venv-release/bin/python $(PIP) --requirement .venv-release/requirements.txt
	.venv-release/bin/python scripts/release.py $(VERSION)

# clang-tidy on what build/dev compiles.
tidy: .venv-test/core
	$(BIN)/python $(PIP) 'clang-tidy>=19,<20'
	sed -n 's/^  "file": "\(.*\)",\{0,1\}$$/\1/p' build/dev/compile_commands.json | grep -v '/tests/' | sort -u | \
	  xargs --max-args=1 --max-procs=$$(nproc) $(BIN)/clang-tidy -p build/dev --quiet

coverage: .venv-test/dev $(GROUPS:%=.venv-test/%)
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/coverage.sh

# The site, into build/site: its first page is build/site/index.html. It is made from the sources and needs no hushvec.
.venv-docs/installed: pyproject.toml constraints.txt scripts/requirements.py
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python scripts/requirements.py --no-studies docs > .venv-docs/requirements.txt
	.venv-docs/bin/python $(PIP) --requirement .venv-docs/requirements.txt
	touch $@

docs: .venv-docs/installed
	PATH="$(CURDIR)/.venv-docs/bin:$$PATH" NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

# pylock.toml: the versions of constraints.txt for hushvec and `make test`, with the hash of every file, for every system (PEP 751).
lock: .venv-test/tools
	$(BIN)/python $(PIP) uv
	$(BIN)/python scripts/requirements.py --no-studies test > .venv-test/lock.txt
	$(BIN)/uv pip compile --quiet --universal --no-header --python-version 3.11 --constraint constraints.txt --format pylock.toml \
	  --default-index https://pypi.org/simple --output-file pylock.toml .venv-test/lock.txt

# What hushvec is compared with.
.venv-test/peers: .venv-test/installed
	$(BIN)/python scripts/requirements.py bench > .venv-test/requirements-bench.txt
	$(BIN)/python $(PIP) --requirement .venv-test/requirements-bench.txt
	touch $@

# Which of the claims about speed hold on this machine.
bench: .venv-test/peers
	$(BIN)/python bench/python/run.py

# The same into bench/results, and from there into README.md and docs: make figures MACHINE=amd-epyc-2-cores
figures: .venv-test/peers
	$(if $(MACHINE),,$(error MACHINE must name the files in bench/results, as in MACHINE=amd-epyc-2-cores))
	$(BIN)/python bench/python/run.py --out bench/results/$(MACHINE).json
	$(BIN)/python bench/python/threads.py --out bench/results/threads-$(MACHINE).json
	$(BIN)/python bench/python/figures.py
	$(BIN)/python scripts/draw_pictures.py

clean:
	rm -rf .venv .venv-docs .venv-release .venv-test build dist
