# `make demo` and `make test` install their dependencies; a fresh machine needs only Python 3.11 and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -q
# Where this is set, every command compiles all its modules again, which takes three seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo dist size test test-slow test-data test-browser test-ray test-wheel test-lowest audit docs fuzz attack soak reports lint types clean

demo: $(VENV)/.user  ## install stepcut for users, then run the demo on rendered videos
	$(BIN)/stepcut demo -o demo

test: $(VENV)/.ready  ## the default suite, under three minutes on two cores
	OMP_NUM_THREADS=1 $(PYTEST) -n 2

test-slow: $(VENV)/.slow  ## slow tests
	$(PYTEST) -m slow

test-data: $(VENV)/.ready  ## tests on real data; skipped with a message if it is absent
	$(PYTEST) -m data

test-browser: $(VENV)/.browser  ## the viewer and the report in a headless Chromium
	$(PYTEST) -m browser

test-ray: $(VENV)/.ray  ## the cluster engine, on a local Ray cluster
	$(PYTEST) -m ray

test-wheel:  ## the wheel, outside the checkout, on the oldest and the newest installed Python
	bash tests/wheel.sh

test-lowest:  ## some tests with the lowest versions that pyproject.toml allows, in a clean environment
	bash tests/lowest.sh

audit: $(VENV)/.ready  ## known vulnerabilities of the packages in .venv, if the database can be reached
	bash tests/audit.sh

docs: $(VENV)/.docs  ## build the site into site/, offline, with the reference from docstrings
	DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet --strict

SECONDS ?= 60
fuzz: $(VENV)/.ready  ## fuzz every reader with mutated files, playlists, links and journals: make fuzz SECONDS=3600
	PYTHONPATH=tests/kit $(BIN)/python tests/kit/fuzz_kit.py $(SECONDS)

ROUNDS ?= 1
attack: $(VENV)/.ready  ## run attacks on the command line and print a table: make attack ROUNDS=5
	PYTHONPATH=tests/kit $(BIN)/python tests/kit/attacks.py $(ROUNDS)

soak: $(VENV)/.ready  ## guide, three people, kills, guide against segment, 10,000 videos: make soak SECONDS=3600
	$(BIN)/python benchmarks/soak.py $(SECONDS)

reports: $(VENV)/.ready  ## make all reports that are not of this version, for hours: make reports ONLY="demo graph"
	$(BIN)/python benchmarks/reports.py $(ONLY)

size: $(VENV)/.user  ## characters, files and lines by folder, beside those of 0.3.0
	$(BIN)/python benchmarks/size.py

dist: $(VENV)/.user  ## build wheel and source into dist/; TAG=v1.2.3 must match the version
	@test -z "$(TAG)" || test "$(TAG)" = "v$$($(BIN)/python -c 'import stepcut; print(stepcut.__version__)')" || \
	  { echo "$(TAG) is not the version in src/stepcut/version.py" >&2; exit 1; }
	$(PIP) 'build>=1.2,<2'
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

# Only the user's dependencies. Byte-compiling them takes longer than the demo.
$(VENV)/.user: pyproject.toml
	@echo "Installing stepcut and its dependencies into $(VENV): 0.9 GB, once."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile -e .
	@touch $@

# torch first, with an exact version: otherwise pip installs the newest build, with gigabytes of CUDA.
$(VENV)/.ready: $(VENV)/.user
	$(PIP) torch==2.13.0
	$(PIP) -e '.[dev]'
	touch $@

# Playwright uses the system's Chromium and does not download a browser.
$(VENV)/.browser: $(VENV)/.ready
	$(PIP) -e '.[browser]'
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
	  echo "Chromium could not be installed: the browser tests are skipped" >&2
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(PIP) -e '.[docs]'
	touch $@

# The export recipes of docs/features.md need transformers.
$(VENV)/.slow: $(VENV)/.docs
	$(PIP) -e '.[dev-hubs]' || echo "transformers could not be installed: the export recipes are skipped" >&2
	touch $@

$(VENV)/.ray: $(VENV)/.ready
	$(PIP) -e '.[ray,s3,dev-scale]'
	touch $@

clean:
	rm -rf $(VENV) demo dist .pytest_cache .mypy_cache .ruff_cache site
