"""The command `autograder`."""

import contextlib
import glob
import json
import os
import secrets
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.files import shown
from autograder.installed import enter_repository
from autograder.progress import Bars, err

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Build the exercise notebooks of this book, grade what was handed in, and say which mistake it is.",
)
out = Console()

CourseOption = Annotated[
    Path, typer.Option("--course", help="The folder of the course: submitted/, gradebook.db, feedback/ …")
]
AssignmentArgument = Annotated[str, typer.Argument(help="The name of an assignment, such as 1_attention.")]
AssignmentsArgument = Annotated[
    list[str] | None, typer.Argument(help="Names of assignments, such as 1_attention.", show_default=False)
]
AllOption = Annotated[bool, typer.Option("--all", help="Every assignment that somebody has handed in.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
ShowOption = Annotated[
    bool, typer.Option("--show-hidden-tests", help="Let students see the source of the hidden tests.")
]
WorksheetOption = Annotated[
    Path | None, typer.Option(help="Moodle's grading worksheet or Canvas's gradebook export, as it was downloaded.")
]


def _course(folder: Path):
    """Return the course in a folder, whose own files can be read. Its module takes a second to import."""
    from autograder.course.course import Course
    from autograder.course.requests import read_requests

    course = Course(folder)
    try:
        _ = course.settings, read_requests(course.root)
    except ValueError as error:
        raise _stop(error) from None
    return course


def _stop(error: object) -> typer.Exit:
    err.print(f"[bold red]autograder:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(1)


def _chosen(names: list[str] | None, everything: bool, folder: Path) -> list[str]:
    """Return the assignments that a command is about: those that are named, or all that somebody has handed in."""
    from autograder.authoring.generated import sources

    if everything == bool(names):
        raise typer.BadParameter("give the names of assignments, or --all")
    known, in_course = [source.parent.name for source in sources()], _course(folder)
    of_course = in_course.settings.assignments or known
    for place, given in (("", names or ()), (f"{folder / 'course.toml'}: ", of_course)):
        if unknown := next((name for name in given if name not in known), None):
            raise _stop(f"{place}there is no assignment {unknown!r}; there is: {', '.join(known)}")
    chosen = list(dict.fromkeys(names or filter(in_course.has_work_of, of_course)))
    if not chosen:
        raise _stop(f"nobody has handed in anything: {folder / 'submitted'} holds no STUDENT/ASSIGNMENT/")
    return chosen


def _print_json(data: object) -> None:
    sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False, default=str) + "\n")


@app.command()
def build(
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a generated file is stale.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Make those anew too whose sources did not change.")
    ] = False,
) -> None:
    """Make exercises/, the chapters' notebooks for Colab and the page of mistakes from their sources."""
    from autograder.authoring.build import build_all, stale_files
    from autograder.authoring.generated import ROOT, write_manifest
    from autograder.files import write_atomically

    stale = stale_files()
    if check:
        for path in stale:
            err.print(
                f'{path} is stale: its source changed, or it was edited by hand. Run "make exercises".', soft_wrap=True
            )
        if stale:
            raise typer.Exit(1)
        out.print("Every generated file is up to date.")
        return
    try:
        with Bars() as bars:
            files = build_all(everything=everything, progress=bars) if stale or everything else {}
    except ValueError as error:
        raise _stop(error) from None
    for path, text in files.items():
        if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text:
            write_atomically(ROOT / path, text)
            out.print(f"written  {path}", highlight=False)
    if files:
        write_manifest()
    out.print("Every generated file is up to date.")


@app.command()
def edition(
    students: Annotated[
        Path, typer.Option("--students", help="The folder to write; empty, or an edition that is written anew.")
    ],
    course: CourseOption = Path("course"),
    only: Annotated[
        str | None, typer.Option(help="Its assignments, with commas: 1_attention,2_multihead. All by default.")
    ] = None,
) -> None:
    """Write the students' edition: a repository with book and exercises, your addresses, and no answer.

    COURSE/course.toml says where it will be: repository = "https://github.com/YOU/COURSE".
    """
    from autograder.authoring.edition import write_edition
    from autograder.settings import read_settings

    try:
        settings = read_settings(course)
        names = write_edition(students, settings, [each.strip() for each in only.split(",")] if only else None)
    except ValueError as error:
        raise _stop(error) from None
    out.print(f"Students' edition of {', '.join(names)}: {students.resolve()}", soft_wrap=True, highlight=False)
    out.print("Look at it, make the repository on GitHub, and push:", highlight=False)
    push = f"git add -A && git commit -m Edition && git push {settings.repository} {settings.branch}"
    out.print(f"  cd {students} && {push}", soft_wrap=True, highlight=False)


@app.command()
def book() -> None:
    """Build the book into _build/html, with warnings as errors. Does nothing when nothing changed."""
    from autograder.authoring.book import BookError, build_book

    try:
        with Bars() as bars:
            page = build_book(progress=bars)
        out.print(f"Book: {page}", soft_wrap=True)
    except BookError as error:
        raise _stop(error) from None


@app.command()
def record(
    chapters: Annotated[list[str], typer.Argument(help="Names of chapters, such as encoder.")],
) -> None:
    """Run the long cells of chapters, which the book leaves out, and write what they found to book/records/."""
    from autograder.authoring.book import BookError, record_chapter

    for chapter in chapters:
        try:
            with Bars() as bars:
                path = record_chapter(chapter, progress=bars)
        except (BookError, OSError) as error:
            raise _stop(error) from None
        out.print(f"written  {path}", soft_wrap=True, highlight=False)


@app.command()
def demo(course: CourseOption = Path("course-demo")) -> None:
    """Do everything once: grade sample classes of all assignments, write feedback and reports, build the book."""
    import runpy
    from unittest import mock

    from autograder.boundary.sandbox import Limits
    from autograder.imports import ROOT
    from autograder.reporting.course_page import write_course_page
    from autograder.reporting.feedback import write_feedback
    from autograder.reporting.report import write_report

    sample = runpy.run_path(str(ROOT / "tests" / "sample_class.py"))
    out.print(
        f"1  grades {len(sample['CLASSES'])} sample classes, the first of 18 students\n2  writes their feedback and reports\n"
        "3  builds the book, for which every chapter runs: longer than all the rest\n"
        "Minutes the first time, seconds when nothing changed.",
        highlight=False,
    )
    build()
    graded = []
    for name in sample["CLASSES"]:
        sample["write_class"](course, name, most=3)
        with mock.patch.dict(os.environ, MNIST_ROOT=os.devnull):  # the samples' weights were trained on the stand-in
            graded.append(_grade(name, course, limits=Limits(call_seconds=6.0)))  # one of them waits for ever
        _show_marks(_course(course), *graded[-1])
    for loaded, results in graded:
        with Bars() as bars:
            write_feedback(_course(course), loaded, results, bars)
        write_report(_course(course), loaded, results)
    write_course_page(_course(course), graded)
    book()
    for title, folder in (("Feedback", "feedback"), ("Reports", "report/index.html")):
        out.print(f"{title}: {(course / folder).resolve()}", soft_wrap=True, highlight=False)


@app.command()
def grade(
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = Path("course"),
    regrade: Annotated[
        bool, typer.Option("--regrade", help="Grade again what was graded, on new inputs; marks by hand stay.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="The seed of the hidden checks' inputs; by default a new one for a new run.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many at once on this machine; by default one for each processor, as memory allows."
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="The address of a Dask scheduler, tcp://HOST:8786, whose workers grade.")
    ] = None,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Run students' code without protection. At your own risk.")
    ] = False,
    fresh_kernels: Annotated[
        bool,
        typer.Option("--fresh-kernels", help="Start each kernel afresh, not forked from one with PyTorch: slower."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Grade what lies in COURSE/submitted/STUDENT/ASSIGNMENT/, and show a table of marks for each assignment.

    Only what is new or changed is graded. Marks go to nbgrader's gradebook, COURSE/gradebook.db. Ctrl-C stops at once;
    the next run goes on where this one was.
    """
    from autograder.boundary.sandbox import Limits
    from autograder.reporting.report import marks_of

    options = dict(seed=seed, regrade=regrade, workers=jobs, cluster=cluster, sandboxed=not no_sandbox)
    graded, failed = [], False
    for name in _chosen(assignments, everything, course):
        try:
            graded.append(_grade(name, course, limits=Limits(forked=not fresh_kernels), **options))
        except typer.Exit as stopped:  # what was wrong is said, and the others can be graded all the same
            if stopped.exit_code != 1:
                raise
            failed = True
            continue
        if not as_json:
            _show_marks(_course(course), *graded[-1])
    if as_json:
        _print_json([marks_of(_course(course), *each) for each in graded])
    _stop_if_not_graded([result for _, results in graded for result in results])
    if failed:
        raise typer.Exit(1)


def _grade(name: str, folder: Path, limits=None, workers: int | None = None, cluster: str | None = None, **options):
    """Grade an assignment with progress bars; return it and the results."""
    bars = Bars()
    try:
        with bars, contextlib.ExitStack() as stack:
            from autograder.authoring.generated import sources

            if name in (source.parent.name for source in sources()):  # else the only line is what is wrong
                bars.say(f"{name}: looking for what is new in {folder}")
            from autograder.boundary.sandbox import Limits, SandboxError
            from autograder.grading.workers import InstallationError, Workers

            limits = limits or Limits()
            here = Workers(workers, name.partition("_")[2], limits if options.get("sandboxed", True) else None)
            stack.enter_context(here)
            if not cluster and _something_is_new(name, folder):
                here.begin()  # while this process builds the assignment
            from autograder.grading.grade import grade, load_assignment

            try:
                loaded = load_assignment(name)
                options |= {"limits": limits, "cluster": cluster, "progress": bars}
                return loaded, grade(_course(folder), loaded, workers=here, **options)
            except (SandboxError, InstallationError, ValueError) as error:
                raise _stop(error) from None
    except KeyboardInterrupt:
        text = f"stopped; this run graded {bars.states.total()}. The same command goes on with the others."
        err.print(f"[bold]autograder:[/] {text}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None


def _something_is_new(name: str, folder: Path) -> bool:
    """Whether somebody handed in who has no result yet: a quick look, before anything is read."""
    handed_in = {path.parent.name for path in folder.glob(f"submitted/*/{glob.escape(name)}")}
    return bool(handed_in - {path.stem for path in folder.glob(f"results/{glob.escape(name)}/*.json")})


def _show_marks(course, assignment, results) -> None:
    """Show one line for each student, narrow enough for a terminal of 80 columns."""
    from autograder.reporting.report import marks_table, questions_of

    points = {question.name: question.of for question in questions_of(assignment)}
    table = Table(
        title=assignment.name, caption="waits: written answers that wait for a person. No marks is not 0.", min_width=66
    )
    table.add_column("student", overflow="fold", min_width=7)
    table.add_column("state", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("waits", justify="right", no_wrap=True)
    table.add_column("where points were lost", overflow="fold", min_width=22)
    for row in marks_table(course, assignment, results):
        lost = [f"{part} {row[part]:g}/{of:g}" for part, of in points.items() if row[part] not in ("", "waits", of)]
        words = "everywhere" if row["total"] == 0 and not row["waiting"] else ", ".join(lost)
        words += f" ({row['mistakes']})" if row["mistakes"] else ""
        total = "" if row["total"] == "" else f"{row['total']} of {row['of']}"
        cells = row["student"], row["state"], total, row["waiting"] or "", words
        table.add_row(*(escape(shown(str(cell))) for cell in cells))
    out.print(table)


@app.command()
def feedback(
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = Path("course"),
    show_hidden: ShowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a page of feedback for each student: COURSE/feedback/STUDENT/ASSIGNMENT/."""
    from autograder.reporting.feedback import write_feedback

    graded = [_graded(name, course) for name in _chosen(assignments, everything, course)]
    written = {}
    for loaded_course, loaded, results in graded:
        with Bars() as bars:
            written[loaded.name] = write_feedback(loaded_course, loaded, results, bars, show_hidden)
        if not as_json:
            said = f"{len(written[loaded.name])} pages of feedback on {loaded.name}: {loaded_course.root / 'feedback'}"
            out.print(said, soft_wrap=True, highlight=False)
    if as_json:
        _print_json(written)
    _stop_if_not_graded([result for *_, results in graded for result in results])


@app.command()
def report(
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = Path("course"),
    as_json: JsonOption = False,
) -> None:
    """Write the report on each assignment, and the page of the course, which shows every student across assignments.

    Beside each page lie tables for spreadsheets. The page of the course holds all that was graded, whatever is named.
    """
    from autograder.reporting.course_page import course_table, write_course_page
    from autograder.reporting.report import write_report

    graded = [_graded(name, course) for name in _chosen(assignments, everything, course)]
    pages = {loaded.name: write_report(in_course, loaded, results) for in_course, loaded, results in graded}
    everybody = [(loaded, results) for _, loaded, results in _all_graded(course)]
    page = write_course_page(_course(course), everybody)
    if as_json:
        _print_json({"course": page, "reports": pages, "students": course_table(_course(course), everybody)})
    else:
        for name, path in pages.items():
            out.print(f"Report on {name}: {path}", soft_wrap=True, highlight=False)
        out.print(f"Page of the course: {page}", soft_wrap=True, highlight=False)
    _stop_if_not_graded([result for *_, results in graded for result in results])


@app.command()
def alike(
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = Path("course"),
    as_json: JsonOption = False,
) -> None:
    """List submissions that are more alike than the class: a reason to look, and no proof.

    Writes COURSE/report/ASSIGNMENT/alike.html, in which they stand side by side, and alike.csv.
    """
    from autograder.reporting.alike import write_alike

    said = {}
    for name in _chosen(assignments, everything, course):
        graded = _graded(name, course)
        with Bars() as bars:
            page, pairs, files = write_alike(*graded, bars)
        said[name] = {"page": page, "pairs": [[p.first, p.second, p.share, p.reasons] for p in pairs], "files": files}
        if not as_json:
            for pair in pairs:
                out.print(escape(shown(f"{pair.first}, {pair.second}: {'; '.join(pair.reasons)}")), soft_wrap=True)
            for file, groups in files.items():
                for together in groups:
                    out.print(escape(shown(f"{together}: the same {file}")), soft_wrap=True)
            count = len(pairs) + sum(map(len, files.values()))
            out.print(f"{name}: {count} to look at, which is no proof: {page}", soft_wrap=True, highlight=False)
    if as_json:
        _print_json(said)


@app.command()
def answer(
    student: Annotated[str, typer.Argument(help="The id of the student who asked.")],
    assignment: AssignmentArgument,
    part: Annotated[str, typer.Argument(help="The part that was asked about, such as attention.")],
    text: Annotated[str, typer.Argument(help="What the student is to read.")],
    course: CourseOption = Path("course"),
) -> None:
    """Answer a student who asked again: write it into COURSE/regrade-requests.csv, from where feedback takes it.

    Points are changed in formgrader.
    """
    from autograder.course.requests import answer_request

    try:
        answer_request(course.resolve(), student, assignment, part, text)
    except ValueError as error:
        raise _stop(error) from None
    out.print(f'Answered. Run "autograder feedback {assignment}" to write the page again.', highlight=False)


@app.command("forget")
def forget_student(
    student: Annotated[str, typer.Argument(help="The id of the student.")],
    course: CourseOption = Path("course"),
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask. It cannot be undone.")] = False,
) -> None:
    """Delete all that a course holds of a student: submissions, results, marks, feedback, reports."""
    from autograder.course.forget import forget

    if not yes:
        typer.confirm(f"Delete everything of {student} in {course}? It cannot be undone", abort=True)
    try:
        done = forget(_course(course), student)
    except ValueError as error:
        raise _stop(error) from None
    for what in done:
        out.print(f"deleted  {escape(shown(what))}", soft_wrap=True, highlight=False)
    out.print('Reports and exports name everybody: make them again with "autograder report --all".', highlight=False)


def _all_graded(folder: Path) -> list:
    """Return what `_graded` does, of every assignment of which something is graded."""
    from autograder.authoring.generated import sources

    names = [source.parent.name for source in sources()]
    return [_graded(name, folder) for name in names if _course(folder).load_results(name)]


def _stop_if_not_graded(results) -> None:
    """Let a command fail where somebody has no mark for a reason of ours."""
    failed = [result for result in results if result.state == "not graded"]
    if failed:
        said = "; ".join(f"{result.student}: {result.why}" for result in failed[:3])
        raise _stop(f"{len(failed)} not graded, because the grader failed; they have no mark, not 0. {said}")


def _graded(name: str, folder: Path):
    """Return course, assignment and results of a class that was graded."""
    from autograder.grading.grade import load_assignment

    course = _course(folder)
    try:
        assignment = load_assignment(name)
    except ValueError as error:
        raise _stop(error) from None
    results = course.load_results(name)
    if not results:
        raise _stop(
            f'nothing of {name} is graded in {course.root}; run "autograder grade {name} --course {folder}" first'
        )
    return course, assignment, results


@app.command()
def collect(
    assignment: AssignmentArgument,
    paths: Annotated[list[Path], typer.Argument(help="Zip downloads of Moodle or Canvas, folders, or notebooks.")],
    course: CourseOption = Path("course"),
    worksheet: WorksheetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put what was handed in into COURSE/submitted/STUDENT/ASSIGNMENT/, and list what could not be.

    Who is who comes from COURSE/roster.csv (columns id, first_name, last_name, email; moodle_id and canvas_id if known),
    and from the worksheet. Files that are nobody's are kept in COURSE/unmatched/ASSIGNMENT/.
    """
    from autograder.course.roster import read_worksheet
    from autograder.exchange.collect import collect
    from autograder.grading.grade import load_assignment

    try:
        loaded, sheet = load_assignment(assignment), read_worksheet(worksheet) if worksheet else None
        with Bars() as bars:
            lines = collect(_course(course), loaded, paths, sheet, bars)
    except (ValueError, OSError) as error:
        raise _stop(error) from None
    if as_json:
        _print_json([asdict(line) for line in lines])
    else:
        for line in sorted(lines, key=lambda line: (line.outcome, line.student, line.file)):
            if line.outcome != "unchanged":
                words = [f"{line.outcome:12}", *filter(None, (line.student, line.file))]
                out.print(escape(shown("  ".join(words))), soft_wrap=True, highlight=False)
                if line.why:
                    out.print(escape(shown(f"{'':12}  {line.why}")), soft_wrap=True, highlight=False)
        counts = Counter(line.outcome for line in lines)
        said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        out.print(said or "nothing was found", highlight=False)
    if any(line.outcome == "refused" and not line.student for line in lines):
        raise _stop("something was not collected at all; see the table")


@app.command()
def export(
    system: Annotated[str, typer.Option("--format", help="moodle, canvas or csv.")],
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = Path("course"),
    worksheet: WorksheetOption = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where to write; COURSE/export/ASSIGNMENT by default.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The title of Canvas's column, if it is not clear which it is.")
    ] = None,
    allow_waiting: Annotated[
        bool, typer.Option("--allow-waiting", help="Send marks although written answers wait for a person.")
    ] = False,
    show_hidden: ShowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the marks and the feedback in the form that Moodle or Canvas imports, and marks.csv with every state.

    A worksheet of Moodle's is that of one assignment; Canvas's holds the columns of all.
    """
    from autograder.course.roster import read_worksheet
    from autograder.exchange.export import export
    from autograder.reporting.feedback import write_feedback

    if system not in ("moodle", "canvas", "csv"):
        raise _stop(f"there is no format {system!r}; there is: moodle, canvas, csv")
    names = _chosen(assignments, everything, course)
    for option, given in (("--worksheet", worksheet and system == "moodle"), ("--out", folder), ("--column", column)):
        if given and len(names) > 1:
            raise _stop(f"{option} is for one assignment, and there are {len(names)}: {', '.join(names)}")
    graded = [_graded(name, course) for name in names]
    options = {"folder": folder, "column": column, "allow_waiting": allow_waiting}
    done = {}
    try:
        sheet = read_worksheet(worksheet) if worksheet else None
        for loaded_course, loaded, results in graded:
            if system != "csv":
                with Bars() as bars:
                    write_feedback(loaded_course, loaded, results, bars, show_hidden)
            done[loaded.name] = export(loaded_course, loaded, results, system, worksheet=sheet, **options)
    except (ValueError, OSError) as error:
        raise _stop(error) from None
    if as_json:
        _print_json({name: asdict(each) for name, each in done.items()})
    else:
        for path in (path for each in done.values() for path in each.files):
            out.print(f"written  {path}", soft_wrap=True, highlight=False)
        for warning in (warning for each in done.values() for warning in each.warnings):
            err.print(f"[yellow]look at[/]  {escape(shown(warning))}", soft_wrap=True, highlight=False)
    _stop_if_not_graded([result for *_, results in graded for result in results])


@app.command("submit-check")
def submit_check(
    file: Annotated[
        Path, typer.Argument(help="The notebook that you are about to hand in.", exists=True, dir_okay=False)
    ],
    sandbox: Annotated[bool, typer.Option("--sandbox", help="Run it in the grader's sandbox.")] = False,
) -> None:
    """Say what the grader would mend in a notebook, and what the visible tests say of it. Gives no marks."""
    from autograder.boundary.sandbox import SandboxError
    from autograder.files import Unreadable
    from autograder.grading.submit_check import submit_check
    from autograder.imports import ROOT

    try:
        assignment, receipt, said = submit_check(file, ROOT / "exercises", sandbox)
    except (Unreadable, SandboxError, ValueError) as error:
        raise _stop(f"{file}: {error}") from None
    out.print(f"[bold]{escape(file.name)}[/] is read as {assignment}.", highlight=False)
    out.print("Nothing needs mending." if not receipt else "The grader would mend, without a loss of points:")
    for entry in receipt:
        out.print(f"  - {escape(entry)}", highlight=False)
    for name, text in said:
        well = "is there, and can be used" if "." in name else "passes the visible tests"
        out.print(
            f"[{'red' if text else 'green'}]{escape(name)}[/]: {escape(text) or well}",
            highlight=False,
        )
    if any(text for _, text in said):
        raise typer.Exit(1)


@app.command()
def mutants(
    assignment: Annotated[str | None, typer.Argument(help="An assignment; all of them by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the matrix as JSON.")] = False,
    seed: Annotated[int | None, typer.Option(help="The seed of the checks' inputs; a new one by default.")] = None,
) -> None:
    """Prove the checks: every known mistake must be caught and named, every correct answer must pass.

    Exits with 1 if one is not.
    """
    import io

    from autograder.authoring.generated import sources
    from autograder.judging.kill_matrix import kill_matrix

    chosen = [source for source in sources() if assignment in (None, source.parent.name)]
    if not chosen:
        raise _stop(f"there is no assignment {assignment!r}; there is: {', '.join(s.parent.name for s in sources())}")
    seed = secrets.randbits(31) if seed is None else seed
    with Bars() as bars, contextlib.redirect_stdout(io.StringIO()):
        matrices = [kill_matrix(source.parent.name, source.stem, seed, bars) for source in chosen]
    if as_json:
        sys.stdout.write(json.dumps([matrix.to_dict() for matrix in matrices], indent=1, ensure_ascii=False) + "\n")
    else:
        for matrix in matrices:
            _show_matrix(matrix)
    if not all(matrix.whole for matrix in matrices):
        raise typer.Exit(1)


def _show_matrix(matrix) -> None:
    from autograder.judging.catalogue import TITLES

    table = Table(title=f"{matrix.assignment}: what each check makes of each known mistake (seed {matrix.seed})")
    for column in ("exercise", "mutant", "mistake", "failed by", "named", "visible test names"):
        table.add_column(column)
    for verdict in matrix.mutants:
        title = TITLES[verdict.name.split("/")[0]]
        named = "yes" if verdict.named else "NO"
        failed = ", ".join(verdict.failed) or "NOT CAUGHT"
        visible = {"": "passes", None: "fails, unnamed"}.get(verdict.visible, verdict.visible)
        table.add_row(verdict.exercise, verdict.name, title, failed, named, visible)
    out.print(table)
    wrong = [
        f"{v.exercise}: {v.name} fails {', '.join(v.failed) or 'the visible test'}"
        for v in matrix.correct
        if v.killed or v.visible != ""  # None: it fails and names nothing
    ]
    caught, named = sum(v.killed for v in matrix.mutants), sum(v.named for v in matrix.mutants)
    out.print(f"{caught} of {len(matrix.mutants)} mutants caught, {named} named.")
    out.print(
        f"{len(matrix.correct) - len(wrong)} of {len(matrix.correct)} correct answers pass all checks.",
        *wrong,
        sep="\n",
    )


def main() -> None:
    """Run the command."""
    enter_repository()
    with contextlib.ExitStack() as until_it_ends:
        if not os.access(Path.home(), os.W_OK):  # where Jupyter and Matplotlib keep what they need to run
            home = tempfile.TemporaryDirectory(prefix="autograder-home-", ignore_cleanup_errors=True)
            os.environ["HOME"] = until_it_ends.enter_context(home)
        try:
            app()
        except RuntimeError as error:
            from autograder.course.gradebook import GradebookError  # with nbgrader, as in _course

            if isinstance(error, GradebookError):
                raise SystemExit(_stop(error).exit_code) from None
            raise
