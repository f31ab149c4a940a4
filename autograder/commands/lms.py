"""Commands that collect submissions, export scores, and delete a student."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from autograder.commands.bars import Bars
from autograder.commands.console import command_line, err, error_exit, exit_on, print_json, say
from autograder.commands.options import (
    COURSE,
    AllOption,
    AssignmentArgument,
    AssignmentsArgument,
    CourseOption,
    JsonOption,
    ShowOption,
    WorksheetOption,
)
from autograder.commands.selection import class_with_points, course_in, select_assignments, stop_if_not_graded
from autograder.files import printable

SYSTEMS = ("moodle", "canvas", "csv")


def collect(
    assignment: AssignmentArgument,
    paths: Annotated[
        list[Path], typer.Argument(exists=True, help="Downloads from Moodle or Canvas (zip), folders, or notebooks.")
    ],
    course: CourseOption = COURSE,
    worksheet: WorksheetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy submissions into COURSE/submitted/STUDENT/ASSIGNMENT/, and list the files that were not collected.

    The owner of a file is found with the worksheet and with COURSE/roster.csv: its column id is needed, and first_name,
    last_name, email, moodle_id, canvas_id and github are optional. Files without a known owner go to
    COURSE/unmatched/ASSIGNMENT/.
    """
    from autograder.course.roster import read_worksheet
    from autograder.grade.grade import load_assignment
    from autograder.lms.collect import collect

    with exit_on(ValueError, OSError):
        loaded, sheet = load_assignment(assignment), read_worksheet(worksheet) if worksheet else None
        in_course, has_times = course_in(course), sheet is not None and sheet.system == "moodle"
        zone = in_course.settings.zone_of_times(assignment) if has_times else ""
        with Bars() as bars:
            lines = collect(in_course, loaded, paths, sheet, bars)
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        for line in sorted(lines, key=lambda line: (line.outcome, line.student, line.file)):
            if line.outcome != "unchanged":
                say("  ".join([f"{line.outcome:12}", *filter(None, (line.student, line.file))]))
                if line.why:
                    say(f"{'':12}  {line.why}")
        if zone:
            say(f"Moodle's times are read in {zone}.")
        counts = Counter(line.outcome for line in lines)
        summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        say(summary)
    if any(line.outcome == "refused" and not line.student for line in lines):
        raise error_exit("something was not collected at all; see the list above")


def export(
    system: Annotated[str, typer.Option("--format", help="moodle, canvas or csv.")],
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = COURSE,
    worksheet: WorksheetOption = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; by default COURSE/export/ASSIGNMENT.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The title of the assignment's column in Canvas, if the command cannot find it.")
    ] = None,
    allow_waiting: Annotated[
        bool,
        typer.Option(
            "--allow-waiting", help="Write scores even if answers wait for manual grading or submissions need a look."
        ),
    ] = False,
    show_hidden: ShowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write scores and feedback as files that Moodle or Canvas imports, and scores.csv with the state of every student.

    Moodle and Canvas need --worksheet: Moodle's is for one assignment; Canvas's has the columns of all assignments.
    """
    from autograder.course.roster import read_worksheet
    from autograder.lms.export_scores import Export
    from autograder.report.feedback import write_feedback

    if system not in SYSTEMS:
        raise error_exit(f"there is no format {system!r}. The formats are: {', '.join(SYSTEMS)}")
    names = select_assignments(assignments, everything, course)
    for option, given in (("--worksheet", worksheet and system == "moodle"), ("--out", folder), ("--column", column)):
        if given and len(names) > 1:
            raise error_exit(f"{option} is for one assignment, and there are {len(names)}: {', '.join(names)}")
    graded = [class_with_points(name, course) for name in names]
    options = {"folder": folder, "column": column, "allow_waiting": allow_waiting}
    done = {}
    with exit_on(ValueError, OSError):
        sheet = read_worksheet(worksheet) if worksheet else None
        # all exports have to be complete before anything is written
        ready = [Export(*each, system, worksheet=sheet, **options) for each in graded]
        for (in_course, loaded, results), each in zip(graded, ready):
            if system != "csv":
                with Bars() as bars:
                    write_feedback(in_course, loaded, results, bars, show_hidden)
            done[loaded.name] = {"files": each.write(), "warnings": each.warnings}
    if as_json:
        print_json(done)
    else:
        for path in (path for each in done.values() for path in each["files"]):
            say(f"written  {path}")
        for warning in (warning for each in done.values() for warning in each["warnings"]):
            err.print(f"[yellow]look at[/]  {escape(printable(warning))}", soft_wrap=True, highlight=False)
    stop_if_not_graded(result for *_, results in graded for result in results)


def extend(
    student: Annotated[str, typer.Argument(help="The id of the student, who need not have submitted anything.")],
    assignment: AssignmentArgument,
    until: Annotated[str, typer.Argument(help='Until when the student may submit: "2026-12-04 18:00".')],
    course: CourseOption = COURSE,
) -> None:
    """Give a student more time: write it into COURSE/extensions.csv. The next grading computes lateness and penalties."""
    from autograder.course.extensions import until_when, write_extension

    where = course_in(course)
    with exit_on(ValueError):
        when = until_when(until, where.settings)
        if student not in where.students():
            raise ValueError(f"nobody in the course has the id {student!r}; add the student to roster.csv first")
        due = where.settings.due.get(assignment)
        if due and when < due:
            raise ValueError(f"{until} is before the due date, {due}")
        write_extension(where.root, student, assignment, until)
    say(f"{student} may submit {assignment} until {when.astimezone(due and due.tzinfo):%Y-%m-%d %H:%M %Z}.")
    say(f'Run "{command_line(course, "grade", assignment)}" to compute lateness and penalties again.')


def forget(
    student: Annotated[str, typer.Argument(help="The id of the student.")],
    course: CourseOption = COURSE,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without a question. You cannot undo this.")] = False,
) -> None:
    """Delete all data of a student in a course: submissions, results, points, feedback, reports."""
    from autograder.course.forget import forget

    if not yes:
        typer.confirm(f"Delete all data of {printable(student)} in {course}? You cannot undo this", abort=True)
    with exit_on(ValueError):
        done = forget(course_in(course), student)
    for what in done:
        say(f"deleted  {what}")
    again = command_line(course, "report", "--all")
    say(f'Reports and exports were deleted too: write them with "{again}" and "autograder export".')
