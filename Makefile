# make demo | test | lint | bench | develop - each does its own set-up.
PYTHON ?= python3
VENV := .venv
BUILD := build/develop

.PHONY: develop
develop: $(VENV)/.developed ## build the native parts into the checkout and use it in place
	cmake -S . -B $(BUILD) -G Ninja -DMALLOC_TUNER_TESTS=ON > /dev/null
	cmake --build $(BUILD)
	cmake --install $(BUILD) --prefix . > /dev/null
