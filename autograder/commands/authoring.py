"""Commands for authors: notebooks, book and student version from their sources, and the proof of the checks."""

import contextlib
import io
import secrets
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.bars import Bars
from autograder.commands.console import err, print_json, say, show, stopped, stopping_at
from autograder.commands.options import COURSE, CourseOption
from autograder.commands.selection import all_assignments


def build(
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a generated file is stale.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Make those again too whose sources did not change.")
    ] = False,
) -> None:
    """Make exercises/, the chapters' notebooks for Colab and the page of mistakes from their sources."""
    from autograder.files import write_atomically
    from autograder.imports import ROOT
    from autograder.publish.build import build_all, stale_files
    from autograder.publish.generated import write_manifest

    with stopping_at(ValueError):
        stale = stale_files()
    if check and stale:
        for path in stale:
            said = f'{path} is stale: its source changed, or it was edited by hand. Run "make exercises".'
            err.print(said, soft_wrap=True)
        raise typer.Exit(1)
    if not check and (stale or everything):
        with stopping_at(ValueError), Bars() as bars:
            files = build_all(everything=everything, progress=bars)
        for path, text in files.items():
            if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text:
                write_atomically(ROOT / path, text)
                say(f"written  {path}")
        write_manifest()
    say("Every generated file is up to date.")


def student_version(
    students: Annotated[
        Path, typer.Option("--students", help="The folder to write; empty, or a student version that is written again.")
    ],
    course: CourseOption = COURSE,
    only: Annotated[
        str | None, typer.Option(help="Its assignments, with commas: 1_attention,2_multihead. All by default.")
    ] = None,
) -> None:
    """Write the student version: a repository with book and exercises, your addresses, and no answer.

    COURSE/course.toml says where it will be: repository = "https://github.com/YOU/COURSE".
    """
    from autograder.publish.student_version import write_student_version
    from autograder.settings import read_settings

    with stopping_at(ValueError):
        settings = read_settings(course)
        settings.check_names(course, all_assignments())
        names = write_student_version(students, settings, [each.strip() for each in only.split(",")] if only else None)
    say(f"Student version of {', '.join(names)}: {students.resolve()}")
    say("Look at it, make the repository on GitHub, and push:")
    push = f"git add -A && git commit -m Version && git push {settings.repository} {settings.branch}"
    say(f"  cd {students} && {push}")


def book(
    pdf: Annotated[bool, typer.Option("--pdf", help="Print it as a PDF too, with Chromium.")] = False,
    epub: Annotated[bool, typer.Option("--epub", help="Write it as an EPUB too.")] = False,
    solutions: Annotated[
        bool, typer.Option("--solutions", help="With the answers in them, in files with another name.")
    ] = False,
) -> None:
    """Build the book into _build/html, with warnings as errors. An unchanged book is not built again.

    A PDF and an EPUB are written next to its pages. They lack the pages for instructors.
    """
    from autograder.publish.book import BookError, build_book, find_browser

    if solutions and not (pdf or epub):
        raise stopped("the book's pages have the answers: --solutions goes with --pdf or --epub")
    with stopping_at(BookError), Bars() as bars:
        if pdf:
            find_browser()  # checked before the pages, which take minutes
        page = build_book(progress=bars)
    say(f"Book: {page}")
    if epub:
        from autograder.publish.epub import write_epub

        with Bars() as bars:
            path = write_epub(solutions=solutions, progress=bars)
        say(f"EPUB: {path}")
    if pdf:
        from autograder.publish.pdf import print_book

        with stopping_at(BookError), Bars() as bars:
            path = print_book(solutions=solutions, progress=bars)
        say(f"PDF: {path}")


def record(
    chapters: Annotated[list[str], typer.Argument(help="Names of chapters, such as encoder.")],
) -> None:
    """Run the long cells of chapters, which the book leaves out, and write their results to book/records/."""
    from autograder.publish.book import BookError, record_chapter

    for chapter in chapters:
        with stopping_at(BookError, OSError), Bars() as bars:
            path = record_chapter(chapter, progress=bars)
        say(f"written  {path}")


def mutants(
    assignment: Annotated[str | None, typer.Argument(help="An assignment; all of them by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the matrix as JSON.")] = False,
    seed: Annotated[int | None, typer.Option(help="The seed of the checks' inputs; a new one by default.")] = None,
) -> None:
    """Prove the checks: every known mistake must be caught and named, every correct answer must pass.

    Exits with 1 otherwise.
    """
    from autograder.judge.kill_matrix import kill_matrix
    from autograder.report.tables import matrix_in_words, matrix_table

    stems = all_assignments()
    names = [name for name in stems if assignment in (None, name)]
    if not names:
        raise stopped(f"there is no assignment {assignment!r}; there is: {', '.join(stems)}")
    seed = secrets.randbits(31) if seed is None else seed
    with stopping_at(ValueError), Bars() as bars, contextlib.redirect_stdout(io.StringIO()):
        matrices = [kill_matrix(name, stems[name], seed, bars) for name in names]
    if as_json:
        print_json([matrix.to_dict() for matrix in matrices])
    else:
        for matrix in matrices:
            show(matrix_table(matrix), *matrix_in_words(matrix))
    if not all(matrix.whole for matrix in matrices):
        raise typer.Exit(1)
