# The course's commands: `make help` lists them. They need make and Python 3.10 or newer, on Linux or macOS;
# docs/setup.md has the same for Windows.

PYTHON   ?= python3
VENV     ?= .venv
BOOKVENV ?= .venv-book
UV       ?= uv
CORES    ?= 2
LAB_ARGS ?=
LESSONS  ?= 01
TO       ?= nbgrader-course
# Set WEEKLY=1 to run also what is run once a week (CONTRIBUTING.md says what, and why).
WEEKLY       ?=
# Name some of the ways of make test-arithmetic: WAYS="noise avx2".
WAYS         ?=
# Set CONSTRAINTS=1 to install just the versions with which all tests passed (constraints.txt), not the newest ones.
CONSTRAINTS  ?=
# Set SKIP_INSTALL=1 to use the environment in VENV as it is.
SKIP_INSTALL ?=

BIN   := $(VENV)/bin
READY := $(if $(SKIP_INSTALL),,$(VENV)/.installed)
# An environment taken as it is may not have the course installed, so its kernels are told where it lies.
ifneq ($(SKIP_INSTALL),)
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
endif

# Both editions of the lessons, the later and longer ones first: what is compared in them, conftest.py says.
NOTEBOOKS    = $(shell ls notebooks/*.ipynb solutions/*.ipynb | sort -t/ -k2 -r)
NBVAL        = --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg --nbval-cell-timeout=300

say = @printf '\n==> %s\n' '$(1)'

.PHONY: help lab test lessons lesson assignment slides book format constraints clean check-style check-spelling check-code \
        check-notebooks test-arithmetic
.NOTPARALLEL:

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

lab: $(READY)  ## open the course in JupyterLab (the first time: set up the environment)
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $(LAB_ARGS)

test: check-style check-spelling check-code check-notebooks  ## run every check
	$(call say,all checks passed)

test-arithmetic: $(READY)  ## run the tests and notebooks as other processors and libraries would compute (an hour)
	$(BIN)/python tests/arithmetic/ways.py $(WAYS)

lessons: $(READY)  ## write notebooks/, solutions/ and docs/ from lessons/, and run the solutions that changed
	$(BIN)/python -m authoring.notebooks.build --execute

lesson: $(READY)  ## write the folder of a new lesson: make lesson NN=18 SLUG=video
	@$(BIN)/python -m authoring.notebooks.new_lesson "$(NN)" "$(SLUG)"

assignment: $(READY)  ## write an nbgrader course of lessons: make assignment LESSONS="01 02" TO=nbgrader-course
	@$(BIN)/python -m authoring.teaching.assignment $(LESSONS) --to "$(TO)"

slides: $(READY)  ## write slides of all lessons into build/slides/ (needs npm, and the network the first time)
	$(BIN)/python -m authoring.teaching.slides

format: $(READY)  ## put the code into the course's layout
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Nothing newer than in this environment; where another Python or system has no such version, the newest before it.
constraints: $(READY)  ## write constraints.txt: the versions of this environment, in which make test has passed (needs uv)
	@mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable | grep == | sed 's/==/<=/' > build/tested.txt
	$(UV) pip compile requirements.txt --constraints build/tested.txt --universal --python-version 3.10 --upgrade \
		--quiet --no-annotate --custom-compile-command "make constraints" --output-file constraints.txt

book: $(if $(SKIP_INSTALL),,$(BOOKVENV)/.installed)  ## make the web book, build/book/index.html (needs Python 3.11, and npm once)
	PYTHONPATH="$(CURDIR)" $(BOOKVENV)/bin/python -m authoring.site.book

clean:  ## remove caches and build products (never data, answers or the environment)
	rm -rf build *.egg-info
	find . \( -path ./.git -o -path './$(VENV)' -o -path './$(BOOKVENV)' -o -path ./data \) -prune \
		-o -type d \( -name __pycache__ -o -name '.*_cache' -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# All checks run on the CPU, on small generated data, one thread a process, and write no student's answers.
check-%: export CUDA_VISIBLE_DEVICES := -1
check-%: export OMP_NUM_THREADS := 1
check-%: export VIT_COURSE_PROFILE := smoke
check-%: export VIT_COURSE_DATA := shapes10
check-%: export VIT_COURSE_PRECISION := float32
check-%: export VIT_COURSE_WIDGETS := 0
check-%: export VIT_COURSE_ANSWERS := $(CURDIR)/build/answers

check-style: $(READY)
	$(call say,style of the code)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-spelling: $(READY)
	$(call say,spelling)
	$(BIN)/codespell

check-code: $(READY)
	$(call say,tests of the code; notebooks and docs/ are what lessons/ and the packages say)
	$(BIN)/python -m pytest -p tests.quick_start tests -n $(CORES) --dist worksteal -p no:nbval $(if $(WEEKLY),-m "")

check-notebooks: $(READY)
	$(call say,notebooks run both unsolved and solved; they show what they showed before)
	@rm -rf build/answers
	$(BIN)/python -m pytest -p tests.quick_start -n $(CORES) --dist loadfile -p no:cacheprovider $(NBVAL) $(NOTEBOOKS)

# The environment: made again only when what it holds has changed.
$(VENV)/.installed: requirements.txt pyproject.toml setup.py $(wildcard authoring/jupyterlab/*) $(if $(CONSTRAINTS),constraints.txt)
	@command -v $(PYTHON) >/dev/null || { \
		echo "$(PYTHON) was not found. Install Python 3.10 or newer, or name yours: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "$$($(PYTHON) --version) is too old: the course needs 3.10 or newer. Name another: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) cannot make environments. On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }
	$(call say,making the environment in $(VENV): some minutes and up to 6 GB the first time)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -r requirements.txt $(if $(CONSTRAINTS),-c constraints.txt)
	$(BIN)/python -m pip install --no-deps -e .
# JupyterLab asks nothing before the first cell, wraps long lines, and holds whole notebooks, so that links find their
# place. These are defaults: the menu Settings changes them. What it saves without an edit is what was there.
	@mkdir -p $(VENV)/share/jupyter/lab/settings
	@cp authoring/jupyterlab/overrides.json $(VENV)/share/jupyter/lab/settings/
	@mkdir -p $(VENV)/etc/jupyter/custom
	@cp authoring/jupyterlab/jupyter_server_config.py $(VENV)/etc/jupyter/
	@cp authoring/jupyterlab/custom.css $(VENV)/etc/jupyter/custom/
	@touch $@

# The book's environment, apart from the course's: it needs a newer Python, and no PyTorch.
$(BOOKVENV)/.installed: requirements-book.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "The book needs Python 3.11 or newer. Name yours: make book PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(BOOKVENV)
	$(BOOKVENV)/bin/python -m pip install -r requirements-book.txt
	@touch $@
