# Every target does its own set-up in .venv; a machine with Python 3.11+ and make is enough.
PYTHON ?= python3
unexport PYTHONDONTWRITEBYTECODE # without bytecode every process that the tests start compiles the package anew
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo docs test test-slow test-wheel test-pythons test-lowest test-declearn test-nvflare dist bench bench-required bench-training lint types imports examples tests browser clean

demo: $(VENV)/.cli
	$(BIN)/logofair demo

test: lint types imports examples tests

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.studio

# Other libraries' own calls for a requirement beside ours.
bench-required: $(VENV)/.bench
	$(BIN)/python -m benchmarks.required

# Rounds of training beside Flower's own simulation.
bench-training: $(VENV)/.bench
	$(BIN)/python -m reproduction.bench.training

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/vocabulary.py

types: $(VENV)/.test
	$(BIN)/mypy --num-workers auto

imports: $(VENV)/.test
	$(BIN)/lint-imports

# The examples of the pages and of every docstring; NVIDIA FLARE's are in an environment of their own.
examples: $(VENV)/.test
	$(BIN)/pytest --numprocesses auto --dist worksteal --doctest-modules --doctest-glob='*.md' --ignore=src/logofair/engines/nvflare \
		src reproduction/src README.md docs/METHOD.md docs/COMPARE.md docs/REQUIREMENTS.md docs/start docs/howto

# The documentation site, docs/_build/html: its examples are run, warnings are errors, and every link is followed.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build --jobs 2 --fail-on-warning --keep-going --quiet docs docs/_build/html
	$(BIN)/python tools/check_site.py docs/_build/html

tests: $(VENV)/.test browser
	$(BIN)/pytest --numprocesses auto --dist worksteal -m "not slow"

# The report's tests open it in Chromium; where it cannot be installed they skip and say so.
browser:
	@command -v chromium >/dev/null || { \
		echo "Chromium is not here: apt-get installs it, outside $(VENV), for the tests that look at the report."; \
		{ apt-get update && apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 \
			|| echo "It cannot be installed: the browser tests will skip."; }

# Everything with new random examples; deployments of real processes one after another, since they share the machine's ports and time.
test-slow: $(VENV)/.test
	LOGOFAIR_ALL_EXAMPLES=1 $(BIN)/pytest --numprocesses auto --dist worksteal --ignore tests/engines
	LOGOFAIR_ALL_EXAMPLES=1 $(BIN)/pytest tests/engines

# What users get: the built wheel, which holds nothing of the reproduction, in an environment of its own passes the demo with no
# more than the command line's extra, and a short selection of the tests, away from the sources ...
SELECTION := tests/test_public_names.py tests/solvers/test_decomposition.py tests/policy/test_policy.py \
	tests/auditing tests/cli/test_fit.py tests/federation/test_replay.py

test-wheel: .venv-wheel/.ready
	.venv-wheel/bin/pytest -m "not slow" $(SELECTION)

.venv-wheel/.ready: pyproject.toml constraints.txt $(shell find src -name '*.py')
	rm -rf .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir .venv-wheel/dist .
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--force-reinstall "$$(ls .venv-wheel/dist/*.whl)[cli]"
	! .venv-wheel/bin/python -m zipfile --list .venv-wheel/dist/*.whl | grep -E 'reproduction|/(training|experiments|bounds)/|enem|celeba'
	cd .venv-wheel && bin/logofair demo --force
	cd .venv-wheel && bin/logofair train 2>&1 | grep 'pip install ./reproduction'
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		"$$(ls .venv-wheel/dist/*.whl)[cli,data]" hypothesis pandas pytest
	touch $@

# ... the same with every Python that pyproject.toml names, each of which must be here: what is stated was tried ...
PYTHONS := $(shell sed -n 's/.*Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml)

test-pythons: $(PYTHONS:%=test-python-%)

test-python-%:
	python$* -m venv --clear .venv-python-$*
	.venv-python-$*/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir .venv-python-$*/dist .
	.venv-python-$*/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		"$$(ls .venv-python-$*/dist/*.whl)[cli,data]" hypothesis pandas pytest
	cd .venv-python-$* && bin/logofair demo --force
	.venv-python-$*/bin/pytest -m "not slow" $(SELECTION)

# ... and on the lowest versions that pyproject.toml allows.
test-lowest: .venv-lowest/.ready
	.venv-lowest/bin/pytest -m "not slow" $(SELECTION)

.venv-lowest/.ready: pyproject.toml lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint lowest.txt \
		--editable '.[cli,data]' hypothesis pandas pytest
	touch $@

# What a release uploads: the sources, and the wheel built from them.
dist: $(VENV)/pyvenv.cfg
	rm -rf dist
	$(PIP) build
	$(BIN)/python -m build --outdir dist .

# declearn needs another pandas than this project is tested with, so it has an environment of its own.
test-declearn: .venv-declearn/.ready
	.venv-declearn/bin/pytest reproduction/tests/training/test_declearn.py

.venv-declearn/.ready: pyproject.toml reproduction/pyproject.toml
	$(PYTHON) -m venv .venv-declearn
	.venv-declearn/bin/python -m pip install --quiet --disable-pip-version-check declearn==2.9.1 hypothesis pytest \
		--editable . --editable ./reproduction
	touch $@

# NVIDIA FLARE needs another protobuf than Flower, so it has an environment of its own too.
test-nvflare: .venv-nvflare/.ready
	.venv-nvflare/bin/pytest tests/engines/test_nvflare.py

.venv-nvflare/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-nvflare
	.venv-nvflare/bin/python -m pip install --quiet --disable-pip-version-check hypothesis pytest --editable '.[nvflare]'
	touch $@

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cli: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	$(PIP) --editable '.[cli]'
	touch $@

# Bytecode is compiled on all cores; some packages hold templates with the name of a module, which cannot be.
$(VENV)/.test: $(VENV)/pyvenv.cfg pyproject.toml reproduction/pyproject.toml constraints.txt
	$(PIP) --no-compile --editable '.[test]' --editable './reproduction[train]'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@ $(VENV)/.cli

# error-parity pins an older numpy and cvxpy than it needs, so it comes without what it asks for.
$(VENV)/.bench: $(VENV)/pyvenv.cfg pyproject.toml reproduction/pyproject.toml constraints.txt
	$(PIP) --editable '.[bench]' --editable './reproduction[train]'
	$(PIP) --no-deps error-parity ecos
	touch $@ $(VENV)/.cli

$(VENV)/.docs: $(VENV)/pyvenv.cfg pyproject.toml reproduction/pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]' --editable ./reproduction
	touch $@ $(VENV)/.cli

clean:
	rm -rf docs/_build docs/gallery docs/api/generated $(VENV) .venv-wheel .venv-lowest .venv-declearn .venv-nvflare .venv-python-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
