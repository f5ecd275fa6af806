# `make demo` and `make test` install what they need; a fresh machine needs Python 3.11 and make, nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -q

.PHONY: demo dist test test-slow test-data test-browser test-ray test-wheel test-lowest audit docs fuzz attack soak lint types clean

demo: $(VENV)/.user  ## install what a user installs, then tell the whole story on made-up videos
	$(BIN)/stepcut demo -o demo

test: $(VENV)/.ready  ## the default suite, under three minutes on two cores
	OMP_NUM_THREADS=1 $(PYTEST) -n 2

test-slow: $(VENV)/.slow  ## what takes longer
	$(PYTEST) -m slow

test-data: $(VENV)/.ready  ## what reads the real data in ../shared/data; skipped, saying so, where it is absent
	$(PYTEST) -m data

test-browser: $(VENV)/.browser  ## the viewer and the report in a headless Chromium
	$(PYTEST) -m browser

test-ray: $(VENV)/.ray  ## the cluster engine, on a local Ray cluster
	$(PYTEST) -m ray

test-wheel:  ## the wheel alone, outside the checkout, on the oldest and the newest Python that is here
	bash tests/wheel.sh

test-lowest:  ## the lowest versions that pyproject.toml allows, in a clean environment, by a part of the tests
	bash tests/lowest.sh

audit: $(VENV)/.ready  ## known vulnerabilities of what .venv holds; says so where the database cannot be reached
	bash tests/audit.sh

docs: $(VENV)/.docs  ## the site, into site/: offline, with the reference made of docstrings
	DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet --strict

SECONDS ?= 60
fuzz: $(VENV)/.ready  ## mutated files, playlists, links and journals for every reader: make fuzz SECONDS=3600
	PYTHONPATH=tests/kit $(BIN)/python tests/kit/fuzz_kit.py $(SECONDS)

ROUNDS ?= 1
attack: $(VENV)/.ready  ## attacks through the command line, as a table: make attack ROUNDS=5
	PYTHONPATH=tests/kit $(BIN)/python tests/kit/attacks.py $(ROUNDS)

soak: $(VENV)/.ready  ## guide, broken films, readers and kills, a quarter of the time each: make soak SECONDS=3600
	$(BIN)/python benchmarks/soak.py $(SECONDS)

dist: $(VENV)/.user  ## wheel and source, into dist/; with TAG=v1.2.3 only if that is the version
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

# Only what a user installs. Byte-compiling all of it would take longer than the demo.
$(VENV)/.user: pyproject.toml
	@echo "Installing stepcut and what it needs into $(VENV): 0.9 GB, once."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile -e .
	@touch $@

# torch first and exactly: a looser request would take the newest build, with gigabytes of CUDA.
$(VENV)/.ready: $(VENV)/.user
	$(PIP) torch==2.13.0
	$(PIP) -e '.[dev]'
	touch $@

# Playwright drives the system's Chromium; its own download of a browser is not needed.
$(VENV)/.browser: $(VENV)/.ready
	$(PIP) -e '.[browser]'
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
	  echo "no Chromium could be installed: the browser tests will be skipped" >&2
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(PIP) -e '.[docs]'
	touch $@

# The export recipes of docs/features.md are run with transformers.
$(VENV)/.slow: $(VENV)/.docs
	$(PIP) -e '.[dev-hubs]' || echo "no transformers could be installed: the export recipes will be skipped" >&2
	touch $@

$(VENV)/.ray: $(VENV)/.ready
	$(PIP) -e '.[ray,s3,dev-scale]'
	touch $@

clean:
	rm -rf $(VENV) demo dist .pytest_cache .mypy_cache .ruff_cache site
