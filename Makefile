# The commands of this project; each does its own set-up from a fresh clone.
#
#   make demo    a real two-process training whose checkpoints are decided by a log
#   make test    checks and tests (CI runs this)
#   make check   ruff, mypy and the import arrows alone
#   make bench   the budgets, each as a ratio against an opponent in the same run
#   make soak    the same tests with a bigger budget, and the long ones

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SETUP  := $(VENV)/.made

.PHONY: demo test check bench soak clean
.DEFAULT_GOAL := test

# torch first: packages that need it then find it installed and fetch no second build.
$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# One importable tree for the type checker.  Folder links: new files are seen at once.
.link/jumar: $(SETUP)
	mkdir -p .link/jumar
	for d in engine adapters reducers tools; do ln -sfn ../../$$d .link/jumar/$$d; done
	for f in __init__.py py.typed; do ln -sfn ../../engine/_facade/$$f .link/jumar/$$f; done

demo: $(SETUP)
	$(BIN)/jumar demo

check: $(SETUP) .link/jumar
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests

test: check
	$(BIN)/pytest -q -n 2 --dist loadgroup -m "not soak"

bench: $(SETUP)
	$(BIN)/python -m jumar.tools.bench

soak: $(SETUP)
	JUMAR_SOAK=1 $(BIN)/pytest -q -n 2 --dist loadgroup --timeout 3600

clean:
	rm -rf $(VENV) .link build dist *.egg-info
