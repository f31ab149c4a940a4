"""Commands for authors: make notebooks, book and student version from their sources, and test the hidden tests."""

import contextlib
import io
import secrets
import shlex
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.bars import Bars
from autograder.commands.console import err, error_exit, exit_on, say, show
from autograder.commands.options import COURSE, CourseOption
from autograder.commands.selection import find_assignments


def build(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a generated file is older than its source.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Make all files again, even if their sources did not change.")
    ] = False,
) -> None:
    """Make the notebooks of the exercises, the chapters' notebooks for Colab and the list of known mistakes."""
    from autograder.files import write_atomically
    from autograder.imports import ROOT
    from autograder.publish.build import build_all, build_results, stale_files
    from autograder.publish.generated import source_digests, write_manifest

    with exit_on(ValueError):
        stale = stale_files()
    if check and stale:
        for path in stale:
            message = f'{path} is stale: its source changed, or it was edited by hand. Run "make exercises".'
            err.print(message, soft_wrap=True)
        raise typer.Exit(1)
    if not check and (stale or everything):
        for make in (build_results, build_all):
            digests = source_digests()
            with exit_on(ValueError), Bars() as bars:
                files = make(everything=everything, progress=bars)
            for path, text in files.items():
                if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text:
                    write_atomically(ROOT / path, text)
                    say(f"written  {path}")
            write_manifest({path: digest for path, digest in digests.items() if path in files})
    say("Every generated file is up to date.")


def student_version(
    students: Annotated[
        Path, typer.Option("--students", help="The folder to write: an empty folder, or an earlier student version.")
    ],
    course: CourseOption = COURSE,
) -> None:
    """Write the student version: a repository with the book and the exercises, with your addresses and without answers.

    COURSE/course.toml must name its address: repository = "https://github.com/YOU/COURSE". Its entry `assignments` names
    the exercises; without it, all are there.
    """
    from autograder.publish.student_version import write_student_version
    from autograder.settings import read_settings

    with exit_on(ValueError):
        settings = read_settings(course)
        settings.check_names(course, find_assignments())
        names = write_student_version(students, settings)
    say(f"Student version of {', '.join(names)}: {students.resolve()}")
    say("Look at it, make the repository on GitHub, and push:")
    cd = shlex.join(["cd", str(students)])
    push = shlex.join(["git", "push", settings.repository, settings.branch])
    say(f"  {cd} && git add -A && git commit -m Version && {push}")


def book(
    pdf: Annotated[bool, typer.Option("--pdf", help="Also print the book as a PDF, with Chromium.")] = False,
    epub: Annotated[bool, typer.Option("--epub", help="Also write the book as an EPUB.")] = False,
    solutions: Annotated[
        bool,
        typer.Option("--solutions", help="Put the answers into the PDF and the EPUB; these files get other names."),
    ] = False,
) -> None:
    """Build the book into _build/html, with warnings as errors. An unchanged book is not built again.

    A PDF and an EPUB are written next to the pages. They do not contain the pages for instructors.
    """
    from autograder.publish.book import BookError, build_book, find_browser

    if solutions and not (pdf or epub):
        raise error_exit("the book's pages always have the answers: use --solutions only with --pdf or --epub")
    with exit_on(BookError), Bars() as bars:
        if pdf:
            find_browser()  # checked first, because building the pages takes minutes
        page = build_book(progress=bars)
    say(f"Book: {page}")
    if epub:
        from autograder.publish.epub import write_epub

        with Bars() as bars:
            path = write_epub(solutions=solutions, progress=bars)
        say(f"EPUB: {path}")
    if pdf:
        from autograder.publish.pdf import print_book

        with exit_on(BookError), Bars() as bars:
            path = print_book(solutions=solutions, progress=bars)
        say(f"PDF: {path}")


def record(
    chapters: Annotated[list[str], typer.Argument(help="Names of chapters, such as encoder.")],
) -> None:
    """Run the long cells of chapters, which the book leaves out, and write their results to book/records/."""
    from autograder.publish.book import BookError, record_chapter

    for chapter in chapters:
        with exit_on(BookError, OSError), Bars() as bars:
            path = record_chapter(chapter, progress=bars)
        say(f"written  {path}")


def mutants(
    assignment: Annotated[str | None, typer.Argument(help="An assignment; all of them by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of the tests' inputs; by default a new seed.")] = None,
) -> None:
    """Test the hidden tests: they must catch and name every known mistake, and every correct answer must pass.

    If one of these fails, the exit code is 1.
    """
    from autograder.judge.kill_matrix import kill_matrix
    from autograder.report.tables import matrix_in_words, matrix_table

    stems = find_assignments(assignment)
    seed = secrets.randbits(31) if seed is None else seed
    with exit_on(ValueError), Bars() as bars, contextlib.redirect_stdout(io.StringIO()):
        matrices = [kill_matrix(name, stem, seed, bars) for name, stem in stems.items()]
    for matrix in matrices:
        show(matrix_table(matrix), *matrix_in_words(matrix))
    if not all(matrix.is_complete for matrix in matrices):
        raise typer.Exit(1)
