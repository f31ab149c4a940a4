"""Commands that write pages about a graded class for students and instructors."""

from typing import Annotated

import typer

from autograder.commands.bars import Bars
from autograder.commands.console import command_line, exit_on, print_json, say
from autograder.commands.options import (
    COURSE,
    AllOption,
    AssignmentArgument,
    AssignmentsArgument,
    CourseOption,
    JsonOption,
    ShowOption,
)
from autograder.commands.selection import (
    class_with_points,
    course_in,
    find_assignments,
    graded_class,
    select_assignments,
    stop_if_not_graded,
)


def feedback(
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = COURSE,
    show_hidden: ShowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a feedback page for each student with a score: COURSE/feedback/STUDENT/ASSIGNMENT/."""
    from autograder.report.feedback import write_feedback

    graded = [class_with_points(name, course) for name in select_assignments(assignments, everything, course)]
    written = {}
    for in_course, assignment, results in graded:
        with Bars() as bars:
            written[assignment.name] = write_feedback(in_course, assignment, results, bars, show_hidden)
        if not as_json:
            pages = len(written[assignment.name])
            say(f"{pages} pages of feedback on {assignment.name}: {in_course.root / 'feedback'}")
    if as_json:
        print_json(written)
    stop_if_not_graded(result for *_, results in graded for result in results)


def report(
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = COURSE,
    as_json: JsonOption = False,
) -> None:
    """Write a report on each assignment, and the page of the course, which shows every student in all assignments.

    Next to each page are tables for spreadsheets. The page of the course always shows all graded assignments.
    """
    from autograder.report.course_page import course_table, write_course_page
    from autograder.report.report import write_report

    graded = {name: graded_class(name, course) for name in select_assignments(assignments, everything, course)}
    pages = {name: write_report(*each) for name, each in graded.items()}
    names = [name for name in find_assignments() if name in graded or course_in(course).load_results(name)]
    everybody = [(graded.get(name) or graded_class(name, course))[1:] for name in names]
    with exit_on(ValueError):
        page = write_course_page(course_in(course), everybody)
    if as_json:
        print_json({"course": page, "reports": pages, "students": course_table(course_in(course), everybody)})
    else:
        for name, path in pages.items():
            say(f"Report on {name}: {path}")
        say(f"Page of the course: {page}")
    stop_if_not_graded(result for *_, results in graded.values() for result in results)


def similarity(
    assignments: AssignmentsArgument = None,
    everything: AllOption = False,
    course: CourseOption = COURSE,
    as_json: JsonOption = False,
) -> None:
    """List submissions that are more similar than usual in the class. This is a reason to look. It is not a proof.

    The similarity report, COURSE/report/ASSIGNMENT/similarity.html, shows the code of two submissions next to each other.
    The table similarity.csv is in the same folder.
    """
    from autograder.report.similarity import write_similarity

    output = {}
    for name in select_assignments(assignments, everything, course):
        graded = graded_class(name, course)
        with Bars() as bars:
            page, pairs, files = write_similarity(*graded, bars)
        output[name] = {"page": page, "pairs": [[p.first, p.second, p.share, p.reasons] for p in pairs], "files": files}
        if not as_json:
            for pair in pairs:
                say(f"{pair.first}, {pair.second}: {'; '.join(pair.reasons)}")
            for file, groups in files.items():
                for together in groups:
                    say(f"{together}: the same {file}")
            count = len(pairs) + sum(map(len, files.values()))
            say(f"{name}: {count} to look at. This is not a proof. {page}")
    if as_json:
        print_json(output)


def answer(
    student: Annotated[str, typer.Argument(help="The id of the student who made the request.")],
    assignment: AssignmentArgument,
    part: Annotated[str, typer.Argument(help="The part that the request is about, such as attention.")],
    text: Annotated[str, typer.Argument(help="The answer that the student reads.")],
    course: CourseOption = COURSE,
) -> None:
    """Answer a regrade request: write the answer into COURSE/regrade-requests.csv. The feedback shows it.

    To change points, use formgrader.
    """
    from autograder.course.regrade_requests import answer_request

    with exit_on(ValueError):
        answer_request(course.resolve(), student, assignment, part, text, course_in(course).students())
    say(f'Answered. Run "{command_line(course, "feedback", assignment)}" to write the page again.')
