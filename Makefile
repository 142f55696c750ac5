# The front door. `make help` says what there is.

# Debian's Python, not one that a version manager put first on PATH.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
SANITIZE ?=
FAST ?=
QUICK ?=

VENV_PYTHON := .venv/bin/python

# SANITIZE=1 builds and runs the C++ tests under the address and undefined-behaviour sanitizers,
# SANITIZE=thread under the thread sanitizer. Neither builds the Python binding.
PRESET := release
ifneq ($(SANITIZE),)
PRESET := $(if $(filter thread,$(SANITIZE)),sanitize-thread,sanitize)
endif

# FAST=1 leaves out what is named slow.
CTEST_FLAGS := $(if $(FAST),-LE slow)
# What the tests print: tools/count.py counts from it.
CTEST_REPORT := --output-junit ctest.xml --test-output-size-passed 1000000
PYTEST_FLAGS := $(if $(FAST),--ignore-glob='*_slow.py')
# Files of tests are shared out over processes where pytest-xdist is.
PYTEST_SHARES = $(shell $(VENV_PYTHON) -c 'import xdist' 2>/dev/null && printf -- '-n %s --dist loadfile' $(JOBS))

.PHONY: help bootstrap build demo test test-page certificates faults bench wheel docs counts lint format tidy clean

help:
	@echo "make demo             build the library and its binding, train on real data, show the result"
	@echo "make test             build, then run every C++ and Python test"
	@echo "make test FAST=1      the same without the slow ones"
	@echo "make test SANITIZE=1  the C++ tests under the address and undefined-behaviour sanitizers"
	@echo "make test-page        opens the pages of paddle.view in headless Chromium (which it installs)"
	@echo "make certificates     certifies every example (two minutes)"
	@echo "make faults           200 jobs that lose a process at a random moment (half an hour)"
	@echo "make bench            run the benchmark programs (two hours with all peers)"
	@echo "make bench QUICK=1    their main tables, one process a side (some 10 minutes)"
	@echo "make wheel            a wheel in dist/ that brings along the libraries it links"
	@echo "make docs             write docs/ops.md, docs/flags.md and docs/rooms.svg from the code"
	@echo "make counts           count what works, for README.md and docs/names.md"
	@echo "make lint             check format, names, the order of the rooms, first lines, long functions"
	@echo "make format           let clang-format lay out the C++ files"
	@echo "make tidy             run clang-tidy (slow)"
	@echo "make build            library, binding and tests, in build/release"
	@echo "make clean            remove build/ and .venv/"

# Installs what is missing and makes .venv; does nothing when all is there.
bootstrap:
	@PYTHON='$(PYTHON)' tools/bootstrap.sh

CONFIGURE = cmake --preset $(PRESET) -DPython_EXECUTABLE='$(PYTHON)' $(CMAKE_FLAGS)
BUILD = cmake --build --preset $(PRESET) --parallel $(JOBS)

build: bootstrap
	$(CONFIGURE)
	$(BUILD)

# Builds only what it runs. Compiling that from nothing takes one core some 7 minutes.
demo:
	@echo "make demo: installs the Debian packages that are missing, compiles the library and its Python"
	@echo "binding (about $$(( (420 / $(JOBS) + 59) / 60 )) minutes on $(JOBS) cores the first time, seconds later), then trains a net on real"
	@echo "handwritten digits (some 10 seconds) and draws the loss into demo_output/loss.png."
	@PYTHON='$(PYTHON)' tools/bootstrap.sh
	$(CONFIGURE)
	$(BUILD) --target _trireme $(if $(wildcard /dev/nvidiactl),device_libraries)
	$(VENV_PYTHON) examples/demo.py

test: build
	ctest --preset $(PRESET) --parallel $(JOBS) $(CTEST_FLAGS) $(CTEST_REPORT)
ifeq ($(SANITIZE),)
	@if [ -d tests/python ]; then \
	  echo "$(VENV_PYTHON) -m pytest tests/python"; \
	  $(VENV_PYTHON) -m pytest -q $(PYTEST_SHARES) $(PYTEST_FLAGS) tests/python; \
	else echo "no Python tests yet"; fi
endif

# PAGE_SHOTS=FOLDER leaves pictures of every tab there, light and dark.
test-page:
	@PYTHON='$(PYTHON)' tools/bootstrap.sh --page
	$(CONFIGURE)
	$(BUILD) --target _trireme hostgpu
	$(VENV_PYTHON) -m pytest -q tests/page

certificates: build
	$(VENV_PYTHON) tests/python/certify_examples.py

# Half an hour: 200 small jobs, a process of each ended at a random moment. `make test` has 20 of them.
faults: build
	OMP_NUM_THREADS=1 CPU_NUM=1 $(VENV_PYTHON) tests/python/fault_jobs.py 200

bench: build
	cmake --build --preset $(PRESET) --parallel $(JOBS) --target bench
	@set -e; for program in $(if $(QUICK),bench/compare.py bench/inference.py,$(filter-out bench/before.py,$(wildcard bench/*.py))); do \
	  echo "== $$program"; $(VENV_PYTHON) "$$program" $(if $(QUICK),--quick); \
	done

# For the Python that the binding is built with: make wheel PYTHON=/usr/bin/python3
wheel:
	@PYTHON='$(PYTHON)' tools/bootstrap.sh --wheel
	$(CONFIGURE)
	$(BUILD) --target _trireme
	$(VENV_PYTHON) tools/wheel.py

docs: build
	mkdir -p docs
	build/$(PRESET)/tools/op_docs > docs/ops.md
	$(VENV_PYTHON) tools/flag_docs.py > docs/flags.md
	$(VENV_PYTHON) tools/draw_rooms.py > docs/rooms.svg

counts: build
	$(VENV_PYTHON) tools/count.py --write

lint:
	@PYTHON='$(PYTHON)' tools/bootstrap.sh --lint
	@PYTHON='$(PYTHON)' tools/lint.sh

format:
	git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' | \
	  xargs -0 -r clang-format -i

# What is compiled in groups is read in groups: their headers are parsed once.
TIDY_ROOMS := bench|comm|compile|core|cpu|cuda|io|ir|layers|ops|ps|runtime|tools|transpiler
tidy:
	@PYTHON='$(PYTHON)' tools/bootstrap.sh --tidy
	cmake --preset clang -DTRIREME_PYTHON=OFF -DTRIREME_TESTS=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	cmake --build --preset clang --parallel $(JOBS) --target trireme_wire trireme_servers
	run-clang-tidy -p build/clang -quiet -j $(JOBS) '^$(CURDIR)/($(TIDY_ROOMS))/(?!peers)' '^$(CURDIR)/build/.*/Unity/'

clean:
	rm -rf build .venv .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
