# make demo | test | lint | bench | develop | wheel | clean; `make help` explains.
# Every target does its own set-up: system packages through apt, a virtual
# environment, the native build.  Stamps make the second call fast.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build
JOBS := $(shell nproc)
TEST_DEPENDENCIES := $(VENV)/.test-dependencies

# How long each fuzz target runs in `make test-sanitized`, and in `make fuzz`, in seconds.
FUZZ_SMOKE_SECONDS ?= 5
FUZZ_SECONDS ?= 600

# Benchmarks wait more than they compute: for a core to measure on, for programs to end.
WORKERS := $(shell expr $(JOBS) + 2)

# Tests wait, too.  Neighbouring ones stay on one worker, which makes what they share once.
SPREAD = -n $(shell expr $(JOBS) + 1) --dist worksteal

# Programs, not the modules they share or start.
BENCHMARKS = $(filter-out benchmarks/accounting.py,$(shell grep -l __main__ benchmarks/*.py))
# The others make what ships: profiles, recorded campaigns.
MEASURING = $(shell grep -l '^BENCHMARK: ' benchmarks/*.py)

# Warnings are errors in CI alone: the next compiler has new ones.
CMAKE := cmake -G Ninja -DCMAKE_COMPILE_WARNING_AS_ERROR=$(if $(CI),ON,OFF)
CLANG := -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++

# What is run here sees its own settings of allocators, not the caller's.
unexport EXGEN_CONF GLIBC_TUNABLES LD_PRELOAD
unexport $(filter-out MALLOC_TUNER_%,$(filter MALLOC_% MIMALLOC_% TCMALLOC_%,$(.VARIABLES)))
# Hundreds of tests start a command, which would compile all modules each time.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo demo-time check test test-native test-allocator test-benchmarks test-python \
        test-sanitized test-allocator-sanitized test-native-sanitized test-fuzz lint mutants bench figures fuzz develop native wheel clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- set-up ------------------------------------------------------------------

$(BUILD)/.packages-%: packages.txt scripts/packages
	@mkdir -p $(BUILD)
	scripts/packages $*
	@touch $@

$(VENV)/.dependencies: pyproject.toml scripts/develop.py $(BUILD)/.packages-build
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "make: Python 3.11 or newer is needed; name it: make PYTHON=python3.13")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python scripts/develop.py
	@touch $@

$(TEST_DEPENDENCIES): $(VENV)/.dependencies
	$(BIN)/python scripts/develop.py test lint cluster
	@touch $@

# The demo alone does without the tests.
NATIVE_TESTS := $(if $(filter-out demo,$(MAKECMDGOALS)),ON,OFF)
native: $(BUILD)/.packages-build ## build the native parts and install them into tuner/native
	@echo "building the native parts"
	@{ $(CMAKE) -S . -B $(BUILD)/develop -DMALLOC_TUNER_TESTS=$(NATIVE_TESTS) \
	    && cmake --build $(BUILD)/develop && cmake --install $(BUILD)/develop --prefix .; } \
	    > $(BUILD)/develop.log 2>&1 || { cat $(BUILD)/develop.log; exit 1; }

develop: $(TEST_DEPENDENCIES) native ## make the checkout usable in place, as .venv/bin/malloc-tuner

# --- use ---------------------------------------------------------------------

demo: demo-time $(VENV)/.dependencies $(BUILD)/.packages-run $(BUILD)/.packages-demo native ## tune a real program; see runs/demo
	scripts/demo $(BIN)/malloc-tuner configs runs/demo

demo-time:
	@echo "make demo: 6 to 10 minutes on a machine with two cores; the first time a few more, for packages and the build"

wheel: $(TEST_DEPENDENCIES) ## build the wheel into dist/
	$(BIN)/python -m pip wheel -q --no-deps -w dist .

# --- tests: CI runs test and test-sanitized ------------------------------------

# Run the tests of these names; the last lines say how long each took.
define run_tests
@set -e; for part in $(1); do \
    begin=$$(date +%s); $(MAKE) --no-print-directory "test-$$part"; \
    times="$$times$$(printf '%6d s  test-%s' $$(($$(date +%s) - begin)) "$$part")\n"; \
done; printf "$$times"
endef

test: ## all tests, in C and Python
	$(call run_tests,native allocator benchmarks python)

test-sanitized: ## the C tests again under sanitizers, and each fuzz target for a few seconds
	$(call run_tests,allocator-sanitized native-sanitized fuzz)

# A folder, further options: its tests, then the five that took longest.
define run_ctest
ctest --test-dir $(1) --output-on-failure --no-tests=error --parallel $(JOBS) $(2) || exit 1; \
    awk '/^---/ { exit } { printf "%8.2f s  %s\n", $$3, $$1 }' $(1)/Testing/Temporary/CTestCostData.txt | sort -rn | head -5
endef

test-native: native ## C tests, built by gcc
	$(call run_ctest,$(BUILD)/develop)

test-allocator: $(BUILD)/.packages-build ## tests of exgen, built alone
	@$(CMAKE) -S allocator -B $(BUILD)/allocator > $(BUILD)/allocator.log \
	    || { cat $(BUILD)/allocator.log; exit 1; }
	cmake --build $(BUILD)/allocator
	$(call run_ctest,$(BUILD)/allocator)

# Of the random tests every tenth group of settings.
test-allocator-sanitized: $(BUILD)/.packages-build $(BUILD)/.packages-test ## tests of exgen, built by clang with ASan and UBSan, and with TSan
	@set -e; for sanitizers in address,undefined thread; do \
	    build=$(BUILD)/allocator-$${sanitizers%,*}; \
	    $(CMAKE) -S allocator -B $$build $(CLANG) \
	        -DEXGEN_SANITIZE=$$sanitizers > $$build.log || { cat $$build.log; exit 1; }; \
	    cmake --build $$build; \
	    $(call run_ctest,$$build,-E 'random-[0-9]|random-checked-[0-9]*[1-9]$$'); done

test-native-sanitized: $(BUILD)/.packages-build $(BUILD)/.packages-test ## C tests, built by clang with ASan and UBSan
	@$(CMAKE) -S . -B $(BUILD)/sanitized $(CLANG) \
	    -DMALLOC_TUNER_TESTS=ON -DMALLOC_TUNER_SANITIZE=ON > $(BUILD)/sanitized.log \
	    || { cat $(BUILD)/sanitized.log; exit 1; }
	cmake --build $(BUILD)/sanitized
	$(call run_ctest,$(BUILD)/sanitized,-LE unsanitized)

$(BUILD)/fuzz/.built: develop $(BUILD)/.packages-test FORCE
	@$(CMAKE) -S . -B $(BUILD)/fuzz $(CLANG) \
	    -DMALLOC_TUNER_FUZZ=ON -DMALLOC_TUNER_SANITIZE=ON > $(BUILD)/fuzz.log \
	    || { cat $(BUILD)/fuzz.log; exit 1; }
	cmake --build $(BUILD)/fuzz --target fuzz_targets
	$(BIN)/python tests/fuzz/make_seeds.py $(BUILD)/fuzz/corpus
	@touch $@
FORCE:

# Exit status 1 of --print means that a target is missed, which is no failure here.
figures: $(TEST_DEPENDENCIES) native ## write the full tables of the last results to build/figures; list stale ones
	@mkdir -p $(BUILD)/figures
	@set -e; for results in benchmarks/results/*.json.zst; do \
	    name=$$(basename "$${results%.json.zst}"); \
	    $(BIN)/python "benchmarks/$$name.py" --print > "$(BUILD)/figures/$$name.txt" || test $$? -eq 1; \
	done
	$(BIN)/python benchmarks/status.py
	$(BIN)/python benchmarks/status.py --check

test-fuzz: $(BUILD)/fuzz/.built ## each fuzz target for a few seconds
	scripts/fuzz $(BUILD)/fuzz $(FUZZ_SMOKE_SECONDS)

test-benchmarks: develop $(BUILD)/.packages-run $(BUILD)/.packages-demo ## each benchmark once, on a toy input
	printf '%s\n' $(BENCHMARKS) | xargs -P $(WORKERS) -I BENCHMARK sh -c 'begin=$$(date +%s); \
	    $(BIN)/python "$$1" --smoke > /dev/null || { echo "$$1 --smoke failed" >&2; exit 1; }; \
	    echo "$$(($$(date +%s) - begin)) s  $$1"' sh BENCHMARK

test-python: develop $(BUILD)/.packages-run $(BUILD)/.packages-demo ## Python unit and end-to-end tests
	$(BIN)/python -m pytest $(SPREAD) --durations 10

# --- more --------------------------------------------------------------------

# Without git's list, such as in a folder that git does not trust, nothing would be checked.
C_SOURCES = $(or $(shell git ls-files 'rand_malloc/*.[ch]' 'allocator/*.[ch]' 'tests/*.[ch]' 'rand_malloc/*.cc' 'tests/*.cc' 'allocator/*.cpp'), \
    $(error git lists no C sources here))
# Programs that tests run on misbehave on purpose; they are not for clang-tidy.
TIDY_SOURCES = $(filter rand_malloc/%.c allocator/src/%.c tests/native/test_%.c tests/fuzz/%.c,$(C_SOURCES))
# Since the branch left origin's main or, where there is no such thing, since the last commit; new files too.
CHANGED = $(shell git diff --name-only --diff-filter=d "$$(git merge-base HEAD origin/main 2> /dev/null || echo HEAD)"; \
    git ls-files --others --exclude-standard)

LINT_CONFIGURE = @$(CMAKE) -S . -B $(BUILD)/lint $(CLANG) \
	    -DMALLOC_TUNER_TESTS=ON -DMALLOC_TUNER_FUZZ=ON > $(BUILD)/lint.log \
	    || { cat $(BUILD)/lint.log; exit 1; }

lint: develop $(BUILD)/.packages-lint $(BUILD)/.packages-test ## ruff, mypy, clang-format, clang-tidy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	clang-format --dry-run -Werror $(C_SOURCES)
	$(LINT_CONFIGURE)
	$(BIN)/mypy & mypy=$$!; $(BIN)/python scripts/tidy.py $(BUILD)/lint $(TIDY_SOURCES); tidy=$$?; \
	    wait $$mypy && exit $$tidy

# Tests that changed, and those of each file of tuner/ that changed, found by its name; the layers always.
CHANGED_TESTS = $(sort tests/unit/test_layers.py $(filter tests/unit/%.py,$(CHANGED)) \
    $(foreach file,$(patsubst tuner/%,%,$(filter tuner/%.py,$(CHANGED))),$(wildcard tests/unit/$(dir $(file))test_$(notdir $(file)))))

# A command without a comma, and how long it took.
define timed
@begin=$$(date +%s); $(1) || exit 1; echo "$$(($$(date +%s) - begin)) s  $(wordlist 1,2,$(1))"
endef

# Before a commit: what a change breaks most often; all unit tests take minutes.
check: BEGUN := $(shell date +%s)
check: develop $(BUILD)/.packages-lint $(BUILD)/.packages-test ## lint and the quick unit tests of what changed
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(call timed,$(BIN)/mypy)
	$(if $(filter $(C_SOURCES),$(CHANGED)),clang-format --dry-run -Werror $(filter $(C_SOURCES),$(CHANGED)))
	$(if $(filter $(TIDY_SOURCES),$(CHANGED)),$(LINT_CONFIGURE))
	$(if $(filter $(TIDY_SOURCES),$(CHANGED)),$(call timed,$(BIN)/python scripts/tidy.py $(BUILD)/lint $(filter $(TIDY_SOURCES),$(CHANGED))))
	$(BIN)/python -m pytest $(SPREAD) -q -m 'not slow' --hypothesis-profile quick --durations 10 $(CHANGED_TESTS)
	@echo "make check: $$(($$(date +%s) - $(BEGUN))) s"

$(VENV)/.mutants-dependencies: $(VENV)/.dependencies
	$(BIN)/python scripts/develop.py test mutants
	@touch $@

mutants: develop $(VENV)/.mutants-dependencies ## break the code in small ways: do the tests notice? (hours)
	$(BIN)/python scripts/mutants.py

# Exit status 1 means that a target is missed: the others are measured all the same.
bench: develop $(BUILD)/.packages-run $(BUILD)/.packages-demo $(BUILD)/.packages-bench ## run every benchmark in full
	@set -e; for benchmark in $(MEASURING); do \
	    echo; echo "== $$benchmark"; $(BIN)/python "$$benchmark" || test $$? -eq 1; done

fuzz: $(BUILD)/fuzz/.built ## each fuzz target for ten minutes (FUZZ_SECONDS)
	scripts/fuzz $(BUILD)/fuzz $(FUZZ_SECONDS)

clean: ## remove everything that was built, but not runs/
	rm -rf $(BUILD) $(VENV) dist tuner/native
