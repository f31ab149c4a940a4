"""Fixtures and helpers that several test files share: assignment, answers, graded sample class, browser, kernels."""

import contextlib
import fcntl
import io
import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import autograder.lighter_imports  # noqa: F401 - first: it makes the import of nbformat faster
from autograder.imports import ROOT

# Libraries read these variables when they are imported: one thread for each process, as in the sandbox, and no window.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault(
    "AUTOGRADER_CANARY", f"canary-{secrets.token_hex(16)}"
)  # no student may see it; the same for all processes
os.environ["MNIST_ROOT"] = os.devnull  # tests neither download nor use this machine's MNIST: they use the stand-in

import downloads
import nbformat
import numpy as np
import pytest
import sample_class
from attention_tests.watch import CRASHES
from axe_playwright_python.sync_playwright import Axe
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from playwright.sync_api import Browser, Page, sync_playwright

from autograder.cli import home_to_write_in
from autograder.course.course import Assignment, Course, Result
from autograder.grade.grade import grade, load_assignment
from autograder.grade.repair import Repaired, repair_notebook
from autograder.grade.workers import Workers
from autograder.publish.book import find_browser
from autograder.publish.generated import sources
from autograder.sandbox.host.bubblewrap import warm_parent
from autograder.sandbox.host.kernel import Kernel
from autograder.sandbox.host.limits import Limits

if TYPE_CHECKING:  # imports PyTorch, which the process that distributes the tests does not need
    from autograder.judge.exercise import Case, Exercise
    from autograder.publish.wrong_lines import Riddle

NAME = "1_attention"
ALL = {source.parent.name: source.stem for source in sources()}  # every assignment and its file
# Together they have the 15 automatic points of 1_attention.
EXERCISES = ("softmax", "attention", "self_attention", "attention_backward")
SOON = False  # does this run leave the deep tests out, as `make test` does?
FOLLOWED = pytest.mark.skipif(CRASHES, reason="this Python would crash, so that no closure is followed")
SEED = 11  # seed of the hidden checks' inputs in every graded class
LIMITS = Limits(cell_seconds=3.0, call_seconds=1.0)  # less than by default: a cell of the sample class never ends


def soon(values: Iterable[Any], *named: Any) -> list[Any]:
    """Return the values of a parameter. `make test` takes the named ones, `make test-all` all; `few` takes the first."""
    return [pytest.param(value, marks=() if value in named else pytest.mark.deep) for value in values]


def pytest_configure(config: pytest.Config) -> None:
    """Run the tests and their processes as commands run, also if this user's home is read-only."""
    global SOON
    SOON = config.getoption("markexpr") == "not deep"
    until_it_ends = contextlib.ExitStack()
    until_it_ends.enter_context(home_to_write_in())
    config.add_cleanup(until_it_ends.close)


# Files that take 10 s or more run first, so that the processes of `make test` end at the same time.
LONG = (
    "attacks",
    "book",
    "contributing",
    "grade",
    "golden",
    "build",
    "student_version",
    "confined",
    "instructors",
    "recording",
)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves the deep tests out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave parameters to `make test-all`, as `few` says. Put the slow files first: a process takes file after file."""
    numbers = Counter[str]()
    for item in items:
        few, test = item.get_closest_marker("few"), item.nodeid.partition("[")[0]
        if few and not item.get_closest_marker("deep"):
            numbers[test] += 1
            if numbers[test] > few.args[0]:
                item.add_marker(pytest.mark.deep)
    items.sort(key=lambda item: item.path.stem.removeprefix("test_") not in LONG)


@dataclass
class GradedClass:
    """The sample class after `autograder grade`."""

    course: Course
    assignment: Assignment
    results: dict[str, Result]
    progress: list[tuple[str, int, int]] = field(default_factory=list)


def cases_of(each: "Exercise", seed: int) -> list[tuple[str, "Case"]]:
    """Return all cases of an exercise, each with the name of its stage."""
    stages = {**each.stages, "visible": each.visible}
    return [(stage, case) for stage, make in stages.items() for case in make(np.random.default_rng(seed))]


def lost(each: "Exercise", function: Callable, seed: int = 0, *own: Callable) -> dict[str, str | None]:
    """Return the stages in which an answer loses its point, with the named mistake."""
    return {stage: error.mistake for stage, error in each.failures(function, seed, *own).items()}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The machine's Chromium, shared by all tests of a process."""
    path = find_browser()
    arguments = ["--disable-gpu", "--disable-background-networking"]
    arguments += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses its sandbox to root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


def find_violations(page: Page, part: str | None = None, **options: Any) -> list[str]:
    """Return axe's findings on a page, or in a part of it, with their places."""
    # With "preload" axe asks for style sheets at the wrong address.
    options |= {"resultTypes": ["violations"], "preload": False}
    found = Axe().run(page, context=part, options=options).response["violations"]
    return [f"{each['id']}: {node['target']} {node['html'][:120]}" for each in found for node in each["nodes"]]


@cache
def assignment_of(name: str) -> Assignment:
    """Return an assignment, built from its sources once."""
    return load_assignment(name)


@pytest.fixture(scope="session")
def assignment() -> Assignment:
    """The first assignment."""
    return assignment_of(NAME)


@pytest.fixture(scope="session", params=ALL)
def any_assignment(request: pytest.FixtureRequest) -> Assignment:
    """Each assignment in turn."""
    return assignment_of(request.param)


def repaired(work: NotebookNode | bytes, assignment: Assignment, **more: Any) -> Repaired:
    """Return what the grader makes of a submitted notebook or file; `more` goes to `repair_notebook`."""
    data = work if isinstance(work, bytes) else json.dumps(work).encode()
    return repair_notebook(data, assignment.instructor, assignment.release, **more)


@cache
def setup_of(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the names that a student notebook's set-up cell defines, and the source of every cell."""
    cells = {cell.id: cell.source for cell in assignment_of(name).release.cells}
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(python_of(cells["setup"]), namespace)
    return namespace, cells


def python_of(source: str) -> str:
    """Return a cell as Python: its lines for IPython become calls."""
    return TransformerManager().transform_cell(source)


@pytest.fixture
def blank(assignment: Assignment) -> bytes:
    """The notebook as students got it."""
    return nbformat.writes(assignment.release).encode()


@pytest.fixture
def perfect(assignment: Assignment) -> NotebookNode:
    """A submission with every answer right; a fresh copy for each test."""
    return sample_class.fill_in(assignment.release, assignment.instructor)


def deep_is_asked(request: pytest.FixtureRequest) -> bool:
    """Whether a deep test of the requesting file will run."""
    return any(item.path == request.path and item.get_closest_marker("deep") for item in request.session.items)


@pytest.fixture(scope="session")
def graded_class(tmp_path_factory: pytest.TempPathFactory, assignment: Assignment, two_workers: Workers) -> GradedClass:
    """A copy of the graded sample class; one process graded it for all."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    graded, told = shared / "graded class", shared / "graded class.json"
    with (shared / "class.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            sample_class.write_class(graded)
            calls = []
            options = dict(seed=SEED, workers=two_workers, limits=LIMITS, progress=lambda *call: calls.append(call))
            results = grade(Course(graded), assignment, **options)
            told.write_text(json.dumps([[asdict(result) for result in results], calls]), encoding="utf-8")
    results, calls = json.loads(told.read_text(encoding="utf-8"))
    course = Course(shutil.copytree(graded, tmp_path_factory.mktemp("class") / "course"))
    by_student = {fields["student"]: Result(**fields) for fields in results}
    return GradedClass(course, assignment, by_student, [tuple(call) for call in calls])


@pytest.fixture(scope="session")
def two_workers() -> Iterator[Workers]:
    """Worker processes for all runs of the grader. They take seconds to start, and their kernels share one parent."""
    with Workers(2, [ALL[NAME]], Limits()) as workers:
        workers.parent = warm_parent(Limits())
        yield workers


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course with only a roster."""
    course = Course(tmp_path / "course")
    downloads.write_roster(course)
    return course


@pytest.fixture(
    scope="module", params=[pytest.param(True, id="forked"), pytest.param(False, id="fresh", marks=pytest.mark.deep)]
)
def forked(request: pytest.FixtureRequest) -> bool:
    """Whether kernels are forked from a warm parent or started fresh; both have to behave the same."""
    return request.param


@pytest.fixture(scope="module")
def kernel(forked: bool) -> Iterator[Kernel]:
    """A kernel in the sandbox, shared by tests that leave it alive."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AUTOGRADER_SEED", "314159")
        kernel = Kernel(Limits(forked=forked))
        yield kernel
        kernel.close()


@pytest.fixture
def start(forked: bool) -> Iterator[Callable[..., Kernel]]:
    """Return a function that starts a kernel with its own limits; the fixture closes all of them."""
    kernels = []

    def start_kernel(**limits: Any) -> Kernel:
        kernels.append(Kernel(Limits(forked=forked, **limits)))
        return kernels[-1]

    yield start_kernel
    for kernel in kernels:
        kernel.close()


WIDGET_PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}">
<head><meta charset="utf-8"><title>{name}</title><style>:root {{ --pst-color-background: #fff }}</style>{head}</head>
<body style="margin: 0; background: var(--pst-color-background); color: var(--pst-color-text-base)">
<main><h1>A page</h1><article class="bd-article" style="max-width: 730px; margin: 1rem">
<div class="widget" id="widget-{name}"><p>What is here without a script.</p></div>{data}
</article></main></body></html>"""


@pytest.fixture(scope="session")
def page_of_widgets(browser: Browser) -> tuple[Page, list[str]]:
    """A page for all widget tests of a process, and its complaints. Opening a page takes longer than a test."""
    page, complaints = browser.new_page(has_touch=True), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("request", lambda sent: sent.url.startswith(("file:", "data:", "about:")) or complaints.append(sent.url))
    return page, complaints


@cache
def riddles() -> "list[Riddle]":
    """Return the riddles of the page "Find the wrong line"; in `make test` the cheap ones, those of Parts 1 and 2."""
    from autograder.publish import wrong_lines

    return wrong_lines.riddles((1, 2) if SOON else wrong_lines.PARTS)


@pytest.fixture
def open_widget(page_of_widgets: tuple[Page, list[str]], tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page with one widget, and fail if the page complains."""
    page, complaints = page_of_widgets

    def open_page(name: str, width: int = 1280, theme: str = "light") -> Page:
        scripts = "".join(
            f'<script defer src="{(ROOT / "book" / "_static" / f"{each}.js").as_uri()}"></script>'
            for each in ("widgets", "sketch", "quiz", "einsum", f"widget_{name}")
        )
        sheets = "".join(
            f'<link rel="stylesheet" href="{(ROOT / "book" / "_static" / each).as_uri()}">'
            for each in ("book.css", "widgets.css")
        )
        data = ""
        if name == "wrong_lines":
            from autograder.publish.wrong_lines import as_element

            data = as_element(riddles())
        path = tmp_path / f"{name}.html"
        fields = {"name": name, "theme": theme, "head": sheets + scripts, "data": data}
        path.write_text(WIDGET_PAGE.format(**fields), encoding="utf-8")
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media="screen", color_scheme=theme)
        page.goto(path.as_uri())
        return page

    yield open_page
    page.goto("about:blank")
    said = complaints.copy()
    complaints.clear()
    assert said == []
