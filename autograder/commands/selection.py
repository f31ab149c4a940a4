"""Select the course and the assignments of a command."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autograder.commands.console import command_line, error_exit, exit_on

if TYPE_CHECKING:
    from autograder.course.course import Assignment, Course, Result


def find_assignments(*names: str | None) -> dict[str, str]:
    """Return the names of assignments, each with the stem of its notebook: of all if none is named.

    An unknown name ends the command.
    """
    from autograder.publish.generated import sources_of

    with exit_on(ValueError):
        return {name: source.stem for name, source in sources_of(*filter(None, names)).items()}


def course_in(folder: Path) -> "Course":
    """Return the course in a folder, after checking that its settings are readable and name only existing assignments.

    The course's module takes a second to import.
    """
    from autograder.course.course import Course
    from autograder.course.regrade_requests import read_requests

    course = Course(folder)
    with exit_on(ValueError):
        course.settings.check_names(course.root, find_assignments())
        read_requests(course.root)
    return course


def select_assignments(names: list[str] | None, everything: bool, folder: Path) -> list[str]:
    """Return the assignments of a command: the named ones, or all that somebody has submitted."""
    if everything == bool(names):
        raise typer.BadParameter("give the names of assignments, or --all")
    course, named = course_in(folder), find_assignments(*names or ())
    selected = list(named if names else filter(course.has_work_of, course.settings.assignments or named))
    if not selected:
        raise error_exit(f"nobody has submitted anything: {folder / 'submitted'} has no folder STUDENT/ASSIGNMENT/")
    return selected


def graded_class(name: str, folder: Path) -> tuple["Course", "Assignment", list["Result"]]:
    """Return course, assignment and results of a graded class."""
    from autograder.grade.grade import load_assignment

    course = course_in(folder)
    with exit_on(ValueError):
        assignment = load_assignment(name)
    results = course.load_results(name)
    if not results:
        advice = f'run "{command_line(folder, "grade", name)}" first'
        raise error_exit(f"no submission of {name} is graded in {course.root}; {advice}")
    return course, assignment, results


def class_with_points(name: str, folder: Path) -> tuple["Course", "Assignment", list["Result"]]:
    """Return course, assignment and results of a graded class. Stop if the gradebook has lost their points."""
    course, assignment, results = graded_class(name, folder)
    recorded = course.scores(assignment)
    if lost := [result.student for result in results if result.has_score and result.student not in recorded]:
        advice = f'run "{command_line(folder, "grade", name)}" to write them again'
        raise error_exit(f"the gradebook of {course.root} lacks the points of {len(lost)}, such as {lost[0]}; {advice}")
    return course, assignment, results


def stop_if_not_graded(results: Iterable["Result"]) -> None:
    """Let a command fail if an error of the grader left a student without a score."""
    failed = [result for result in results if result.state == "not graded"]
    if failed:
        reasons = "; ".join(f"{result.student}: {result.why}" for result in failed[:3])
        raise error_exit(f"{len(failed)} not graded, because the grader failed; they have no score. {reasons}")
