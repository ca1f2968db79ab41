# SPDX-License-Identifier: MIT
# Shortcuts: each target installs what is missing, builds what it needs and runs it.

.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.PHONY: build verify test bench check-format lint help

JOBS := $(shell getconf _NPROCESSORS_ONLN)
FOLDERS := engine verify properties fixtures reports
COMPILE := cmake --build build --parallel $(JOBS)

build: build/build.ninja ## build everything into build/ (Release)
	$(COMPILE)

verify: build/build.ninja ## check the bundled models: build/kvcheck verify
	$(COMPILE) --target kvcheck
	build/kvcheck verify

test: build build/setup-test.stamp ## run the whole test suite
	ctest --test-dir build --output-on-failure --no-label-summary --parallel $(JOBS)

bench: build/build.ninja ## run the benchmarks
	$(COMPILE) --target kvcheck_bench
	build/kvcheck_bench

check-format: build/setup-lint.stamp ## compare the sources with .clang-format
	find $(FOLDERS) -name '*.h' -o -name '*.cpp' | xargs clang-format --dry-run -Werror

lint: check-format build/setup-build.stamp ## check-format, then clang-tidy
	@# Libraries without precompiled headers: a missing #include shows here.
	cmake --preset release -B build/lint -DKVCHECK_PCH=OFF >/dev/null
	run-clang-tidy -quiet -j $(JOBS) -p build/lint

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

# CMake repeats the configuration by itself; only a change of the presets needs a new start.
build/build.ninja: CMakePresets.json | build/setup-build.stamp
	cmake --preset release
	@touch $@

# One stamp for each group of packages: set up again only after the list has changed.
build/setup-%.stamp: .ci/packages .ci/setup
	.ci/setup $*
	@mkdir -p $(@D) && touch $@
