"""Commands for grading submissions."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.commands.bars import Bars
from autograder.commands.console import command_line, err, error_exit, exit_on, print_json, say, show
from autograder.commands.options import (
    COURSE,
    AllOption,
    AssignmentArgument,
    AssignmentsArgument,
    CourseOption,
    JsonOption,
)
from autograder.commands.selection import course_in, find_assignments, select_assignments, stop_if_not_graded

if TYPE_CHECKING:
    from autograder.course.course import Assignment, Result
    from autograder.grade.workers import Workers
    from autograder.sandbox.host.limits import Limits


def grade(
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = COURSE,
    regrade: Annotated[
        bool,
        typer.Option("--regrade", help="Grade all submissions again, on new inputs; your manual points are kept."),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            help="The seed of the hidden tests' inputs. By default, the first run and --regrade draw one; other runs reuse it."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many submissions to grade at the same time; by default one for each processor, if memory allows.",
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Grade on the workers of the Dask scheduler with this address, tcp://HOST:8786.")
    ] = None,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Run students' code without protection. At your own risk.")
    ] = False,
    fresh_kernels: Annotated[
        bool,
        typer.Option(
            "--fresh-kernels", help="Start each kernel without a parent that has imported PyTorch; this is slower."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Grade the submissions in COURSE/submitted/STUDENT/ASSIGNMENT/, and show a table of scores for each assignment.

    Only new and changed submissions are graded. Points go to nbgrader's gradebook, COURSE/gradebook.db. Ctrl-C stops at once:
    finished results are kept, and the next run grades the rest.
    """
    from autograder.report.report import scores_of
    from autograder.sandbox.host.limits import Limits

    options = dict(seed=seed, regrade=regrade, cluster=cluster, sandboxed=not no_sandbox)
    graded, failed, limits = [], False, Limits(forked=not fresh_kernels)
    names = select_assignments(assignments, everything, course)
    with workers_for(names, limits, jobs, not no_sandbox) as workers:
        for name in names:
            try:
                graded.append(grade_class(name, course, limits, workers, **options))
            except typer.Exit as ended:  # the error is printed, and the other assignments can still be graded
                if ended.exit_code != 1:
                    raise
                failed = True
                continue
            if not as_json:
                show_scores(course, *graded[-1])
    if as_json:
        print_json([scores_of(course_in(course), *each) for each in graded])
    stop_if_not_graded(result for _, results in graded for result in results)
    if failed:
        raise typer.Exit(1)


def workers_for(names: Iterable[str], limits: "Limits", jobs: int | None = None, sandboxed: bool = True) -> "Workers":
    """Return processes that grade these assignments one after another. Starting them takes seconds."""
    from autograder.grade.workers import Workers

    stems = find_assignments()
    return Workers(jobs, [stems[name] for name in names], limits if sandboxed else None)


def grade_class(
    name: str, folder: Path, limits: "Limits", workers: "Workers", **options: Any
) -> tuple["Assignment", list["Result"]]:
    """Grade an assignment with progress bars; return it and the results.

    Args:
        name: The name of the assignment.
        folder: The folder of the course.
        limits: What a submission may use.
        workers: The processes that grade; they start if there is a new submission.
        options: Options of `autograder.grade.grade.grade`.
    """
    bars = Bars()
    try:
        with bars:
            from autograder.grade.result_keys import versions

            bars.say(f"{name}: looking for what is new in {folder}, to grade it with {versions()}")
            from autograder.grade.workers import InstallationError
            from autograder.sandbox.host.bubblewrap import SandboxError

            if not options.get("cluster") and course_in(folder).has_new_work_of(name):
                workers.begin()  # the workers start while this process builds the assignment
            from autograder.grade.grade import grade, load_assignment

            options |= {"limits": limits, "workers": workers, "progress": bars}
            with exit_on(SandboxError, InstallationError, ValueError):
                assignment = load_assignment(name)
                return assignment, grade(course_in(folder), assignment, **options)
    except KeyboardInterrupt:
        text = "stopped; what was graded is kept. Run the same command to grade the others."
        err.print(f"[bold]autograder:[/] {text}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None


def show_scores(folder: Path, assignment: "Assignment", results: list["Result"]) -> None:
    """Show one line for each student, and the questions that a person has to decide."""
    from autograder.course.course import NEEDS_A_LOOK
    from autograder.report.tables import scores_table_of

    show(scores_table_of(course_in(folder), assignment, results))
    undecided = [result for result in results if result.state == NEEDS_A_LOOK]
    for result in undecided:
        for question in result.questions:
            say(f"{result.student} needs a look: {question}")
    if undecided:
        command = command_line(folder, "settle", "STUDENT", assignment.name)
        say(f'To decide: "{command}" shows the questions, and how to answer them.')


def settle(
    student: Annotated[str, typer.Argument(help="The id of the student.")],
    assignment: AssignmentArgument,
    course: CourseOption = COURSE,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the points as they are.")] = False,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="NAME", help="Name the file that counts, if there are several; the next run grades it."
        ),
    ] = None,
) -> None:
    """Decide about a submission that needs a look. Without an option, show the questions and the content of the files.

    A decision is valid until the files or the questions change.
    """
    from autograder.course.decisions import Decision, read_decisions, write_decision
    from autograder.grade.grade import load_assignment

    in_course = course_in(course)
    with exit_on(ValueError, OSError):
        loaded = load_assignment(assignment)
        result, before = in_course.load_result(student, assignment), read_decisions(in_course.root, assignment)
        sorted_files = in_course.find_files(student, loaded)
        decision = before.get(student) or Decision([], "")
        if file:
            new = loaded.wanted.decide(sorted_files, file)
            files = {name: of for name, of in decision.files.items() if of not in new.values()} | new
            write_decision(in_course.root, assignment, student, replace(decision, files=files))
            say(f"Settled: {file} counts.")
            say(f'Run "{command_line(course, "grade", assignment)}" to grade it.')
            return
        several = loaded.wanted.describe(sorted_files)
        if not several and (result is None or not result.questions):
            raise error_exit(f"{student} has no questions to settle in {assignment}")
        for line in [*(result.questions if result else ()), *several]:
            say(line)
        if not keep or result is None:
            say(f"The state is {result.state if result else 'not graded'!r}.")
            which = "--file NAME: this file counts. " if several else ""
            say(f"{which}--keep: the points stay as they are. To change points, use formgrader.")
            return
        decision = replace(decision, questions=result.questions, content=result.content)
        write_decision(in_course.root, assignment, student, decision)
        result.ask(decision)
        in_course.save_result(result)
    say(f"Settled: {student} is {result.state!r}.")
