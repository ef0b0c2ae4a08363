# Everything sets itself up: `make demo` and `make test` need Python >= 3.11, pip and make, nothing else.
PYTHON ?= python3
MODELS ?= demo/model
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed
DOCUMENTED := $(VENV)/.documented
# Without --no-compile pip would spend a quarter of the time on modules that are never imported.
PIP := $(BIN)/pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: demo test slow coverage gpu-test lint types docs check bottleneck mechanisms screenshots bench gpu-bench clean

demo: $(RUNTIME)  ## train a small translator on the embedded corpus and look at its attention
	@$(BIN)/regard demo

test: $(INSTALLED)  ## the test suite, on all cores
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

slow: $(INSTALLED)  ## the trainings that take minutes
	OMP_NUM_THREADS=$$(getconf _NPROCESSORS_ONLN) $(BIN)/pytest -m slow

coverage: $(INSTALLED)  ## which lines the tests run: a table, and build/coverage/html/index.html
	$(BIN)/pytest -n auto --cov --cov-report=term --cov-report=html

gpu-test:  ## what needs an NVIDIA GPU, with the Python that knows it: make gpu-test PYTHON=...
	@$(PYTHON) -c 'import torch, triton, pytest, hypothesis, jaxtyping, beartype' || { echo 'make gpu-test needs a Python with torch, triton, pytest, hypothesis, jaxtyping and beartype.'; exit 1; }
	PYTHONPATH=src $(PYTHON) -m pytest -m gpu $$(grep -rl --include='*.py' 'mark\.gpu' tests)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

docs: $(DOCUMENTED)  ## the site, in build/site; a dead link or a request to the network fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open build/site/index.html"

check: lint types docs test  ## what CI runs

bottleneck: $(RUNTIME)  ## docs/bottleneck.md: the same model with and without attention, by sentence length
	$(BIN)/python bench/bottleneck.py

mechanisms: $(RUNTIME)  ## docs/mechanisms/: a page for each, with a picture from a model trained with it
	$(BIN)/python bench/mechanisms.py train
	$(BIN)/python bench/mechanisms.py pages
	$(BIN)/python bench/vision_mechanisms.py train
	$(BIN)/python bench/vision_mechanisms.py draw
	$(BIN)/python bench/vision_mechanisms.py pages

screenshots:  ## docs/images/microscope-*.png: make screenshots MODELS='demo/model transformer', after pip install -e '.[browser,serve]'
	$(BIN)/python bench/screenshots.py $(MODELS)

bench: $(RUNTIME)  ## regard beside other toolkits on the CPU; the first run makes their environments and models
	$(BIN)/python bench/cpu_train.py
	$(BIN)/python bench/cpu_decode.py

gpu-bench:  ## what a GPU takes, with the Python that knows it: make gpu-bench PYTHON=... (bench/README.md has the others)
	PYTHONPATH=src $(PYTHON) bench/additive.py
	PYTHONPATH=src $(PYTHON) bench/additive.py --long
	PYTHONPATH=src $(PYTHON) bench/gpu_step.py
	PYTHONPATH=src $(PYTHON) bench/gpu_step.py --loss
	PYTHONPATH=src $(PYTHON) bench/long_sources.py --keep --budget 3600
	PYTHONPATH=src $(PYTHON) bench/growth.py --device cuda --keep
	PYTHONPATH=src $(PYTHON) bench/growth.py --device cuda --memory --keep

$(RUNTIME): pyproject.toml constraints.txt
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@echo "Installing regard and what it needs into $(VENV) (once) ..."
	@$(PIP) '.[plot]'
	@touch $@

$(INSTALLED): $(RUNTIME)
	@echo "Installing what the tests need into $(VENV) (once) ..."
	@$(PIP) '.[plot,serve,export,tensorboard,dev]'
	@touch $@

$(DOCUMENTED): $(RUNTIME)
	@echo "Installing what the site needs into $(VENV) (once) ..."
	@$(PIP) '.[plot,serve,docs]'
	@touch $@

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache
