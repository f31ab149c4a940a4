# Thin: the logic lives in autograder/. "make" alone lists the targets.
# the newest that is installed and that we support; a command may be there that runs nothing
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
  $$python -c "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))" 2> /dev/null && echo $$python && break; done)
COURSE ?= course
# Recipes read the folder from the environment, so that no letter of it means anything to make or to the shell.
override COURSE := $(value COURSE)
export COURSE
FOUND_PYTHON = $(or $(PYTHON),$(error Python 3.11, 3.12 or 3.13 is needed, and none is installed))
BIN := .venv/bin
# A path may hold any letter, whatever the locale says of letters.
export PYTHONUTF8 = 1
# Where it is set, as in many containers, each of our processes would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo "make demo        everything once: install, build, grade a sample class, show the scores"
	@echo "make test        every module once; test-book, test-all and test-debian13 test more"
	@echo "make test-book   build the book, and open every page in a browser"
	@echo "make test-all    the whole test suite: all attacks on both kinds of kernels, more seeds, kills and settings"
	@echo "make test-debian13  make demo and make test on Debian 13, as root by debootstrap in a namespace of its own"
	@echo "make setup       install into .venv"
	@echo "make lock        lock the versions of all packages in requirements.txt, after a change in pyproject.toml or colab.txt"
	@echo "make exercises   generate exercises/ and the chapters' notebooks from their sources"
	@echo "make book        build the book"
	@echo "make pdf         print the book: _build/html/attention-book.pdf; SOLUTIONS=--solutions adds the answers"
	@echo "make epub        the book for a reader's device: _build/html/attention-book.epub"
	@echo "make grade       grade course/submitted/ and write feedback and report"
	@echo "make train       train the Vision Transformer on MNIST: book/records/ again"
	@echo "make bench-training  the plain recipe and ours side by side, and change by change, one epoch"
	@echo "make formgrader  open nbgrader's formgrader on course/, to grade the written answers"

.NOTPARALLEL:
setup: .venv/.installed
.venv/.installed: requirements.txt pyproject.toml autograder/setup_environment.py
	$(FOUND_PYTHON) autograder/setup_environment.py
	@touch $@

# Not after the other: all that is missing here is said at once.
.venv/.browser: requirements.txt pyproject.toml autograder/setup_environment.py
	$(FOUND_PYTHON) autograder/setup_environment.py --browser
	@touch .venv/.installed $@

demo: setup
	$(BIN)/autograder demo

# No plugin but the one that is named: to find the others, pytest reads and rewrites all of them.
# One process more than there are processors, because a test often waits for a sandbox or a browser.
PYTEST := $(BIN)/python -m pytest --disable-plugin-autoload -p xdist -n $$(($$(nproc) + 1)) --maxprocesses 5 \
  --dist loadfile --no-loadscope-reorder

CODESPELL := $(BIN)/codespell -D - -D tests/plain_english.txt

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(CODESPELL) $$(git ls-files '*.py' '*.md' '*.j2' '*.yml' '*.toml' 'book/_static/widget*.js' '*.css' Makefile)

test: .venv/.browser lint
	$(PYTEST) -m "not deep"

test-book: .venv/.browser
	$(PYTEST) tests/publish/test_book.py

test-all: .venv/.browser lint
	KERNELS=forked $(PYTEST)
	KERNELS=fresh $(PYTEST) tests/sandbox/test_attacks.py

test-debian13:
	tests/debian13.sh

lock: setup
	sed '/^# Only for the test/,$$d' colab.txt | $(BIN)/uv pip compile pyproject.toml -c - -o requirements.txt -q \
	  --all-extras --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"

exercises: setup
	$(BIN)/autograder build

book: setup
	$(BIN)/autograder book

pdf: .venv/.browser
	$(BIN)/autograder book --pdf $(SOLUTIONS)

epub: setup
	$(BIN)/autograder book --epub $(SOLUTIONS)

grade: setup
	for step in grade feedback report; do $(BIN)/autograder $$step --all --course "$$COURSE" || exit 1; done

train: setup
	$(BIN)/python -m solutions.training.experiments long --threads 2

bench-training: setup
	for name in comparison ablation; do $(BIN)/python -m solutions.training.experiments $$name --threads 2 || exit 1; done

formgrader: setup
	PATH="$$PWD/$(BIN):$$PATH" && cd -- "$$COURSE" && jupyter lab --LabApp.default_url=/formgrader \
	  --HTMLExporter.preprocessors=autograder.report.rubric.ShowRubrics $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help setup demo lint test test-book test-all test-debian13 lock exercises book pdf epub grade train bench-training formgrader
