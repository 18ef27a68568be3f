# SPDX-License-Identifier: BSD-3-Clause
# The two commands are `make demo` and `make test`. Everything that they need beyond a C++
# compiler, make and python3 with venv is put into .venv, .venv-tests and .deps by tools/setup.sh.
SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build demo test test-core test-sanitizers test-python test-dropin test-docs test-gpu docs \
        bench-smoke wheel format lint tidy clean distclean help

export PATH := $(CURDIR)/.venv/bin:$(PATH)
JOBS ?= $(shell nproc)
PACKAGE := python/fleetblas

help:
	@sed -n 's/^#: //p' Makefile

#: make             builds the libraries and puts them into the Python package
build:
	@tools/setup.sh
	@tools/build.sh release libraries
	@cmake --install build/release --component python --prefix $(PACKAGE) >/dev/null

#: make demo        an unmodified NumPy script over four virtual devices, and its timeline page
demo: build
	@tools/demo.sh

#: make test        all tests; ends with one line per part
test:
	@tools/test.sh core sanitizers python dropin docs

#: make test-core   unit, property, layer and install tests of the release build
#: make test-sanitizers, test-python, test-dropin, test-docs: the other parts of make test
test-core test-sanitizers test-python test-dropin test-docs:
	@tools/test.sh $(@:test-%=%)

#: make test-gpu    the tests that need GPUs, on all GPUs of this machine
test-gpu: build
	@tools/setup.sh dev
	@tools/build.sh release libraries gpu_tests gpu_panel_tests
	@cmake --install build/release --component python --prefix $(PACKAGE) >/dev/null
	@tests/gpu/run.sh

#: make bench-smoke DGEMM on two virtual devices beside the CPU BLAS
bench-smoke: build
	@fleetblas bench gemm --type d --size 4K --backend host --devices 2 --repeat 5 --vs hostblas

#: make docs        the documents as a site, out/site/index.html; a broken link is an error
docs: build
	@tools/setup.sh dev
	@NO_MKDOCS_2_WARNING=1 python -m mkdocs build --quiet
	@printf 'Open %s in a browser.\n' "$(CURDIR)/out/site/index.html"

#: make wheel       one wheel for every Python, into dist/, tried in an empty environment
wheel: build
	@tools/setup.sh dev
	@tools/wheel.sh build/release dist
	@tests/house/wheel.sh . dist/fleetblas-*.whl cmake

#: make format      clang-format and ruff, in place
format:
	@tools/setup.sh dev
	@git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format -i
	@ruff format --quiet . && ruff check --quiet --fix .

#: make lint        checks the formatting, ruff's rules, and the layers
lint:
	@tools/setup.sh dev
	@git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format --dry-run -Werror
	@ruff format --check . && ruff check .
	@python tools/check_layers.py

#: make tidy        clang-tidy over src (slow; needs clang-tidy)
tidy: build
	@git ls-files 'src/*.cpp' | xargs -P $(JOBS) -n 1 clang-tidy --quiet -p build/release

#: make clean       removes build results; make distclean also .venv, .venv-tests and .deps
clean:
	rm -rf build out dist python/fleetblas.egg-info $(addprefix $(PACKAGE)/,lib include machines cmake)
distclean: clean
	rm -rf .venv .venv-tests .deps
