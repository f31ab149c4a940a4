"""Measure what it costs to record, read and report a class of stubs: submissions that no kernel runs.

python tests/course/bench_recording.py 100 1000 10000            CPU milliseconds a submission, by stage and size of the class
python tests/course/bench_recording.py 1000 --pages 20           and of a page of feedback
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sample_class

from autograder.cells import points_of
from autograder.course.course import Assignment, Course, Result
from autograder.files import write_atomically
from autograder.grade.grade import load_assignment
from autograder.grade.repair import repair_notebook
from autograder.lms.export import prepare_export
from autograder.report.feedback import write_feedback
from autograder.report.report import scores_table, write_report

KINDS = 8  # kinds of submissions; they differ in their mistakes


def stubs(assignment: Assignment) -> list[tuple[str, Result]]:
    """Return executed notebooks as texts, with their results, as grading gives them to the recording."""
    answers = nbformat.writes(sample_class.fill_in(assignment.release, assignment.instructor)).encode()
    choices, kinds = random.Random(0), []
    for kind in range(KINDS):
        notebook = repair_notebook(answers, assignment.instructor, assignment.release).notebook
        checks = []
        for cell in notebook.cells:
            info = cell.metadata.get("nbgrader", {})
            if info.get("solution") and info.get("grade") and choices.random() < 0.3:
                cell.source = next(c.source for c in assignment.release.cells if c.id == cell.id)  # no response
            if not (info.get("grade") and cell.cell_type == "code" and not info.get("solution")):
                continue
            passed = choices.random() < 0.8 or kind == 0
            message = "" if passed else "AssertionError: The rows of the weights sum to 3.2, not 1."
            error = dict(ename="AssertionError", evalue=message, traceback=[message])
            cell.outputs = [] if passed else [nbformat.v4.new_output("error", **error)]
            points, mistake = points_of(cell), None if passed else "M6"
            checks.append(dict(name=info["grade_id"], points=points, passed=passed, mistake=mistake, message=message))
        text = nbformat.writes(notebook) + "\n"
        kinds.append((text, Result("", assignment.name, "graded", checks=checks, seed=0, key="stub")))
    return kinds


def submit(course: Course, assignment: Assignment, students: list[str], roster: bool = True) -> None:
    """Write submissions, and the roster."""
    answers = nbformat.writes(assignment.release)
    for student in students:
        sample_class.submit(course.root, student, answers, assignment.name)
    if roster:
        lines = [f"{student},First {student},Last,{student}@example.org" for student in students]
        write_atomically(course.root / "roster.csv", "\n".join(["id,first_name,last_name,email", *lines]) + "\n")


def record_all(course: Course, assignment: Assignment, students: list[str], kinds: list[tuple[str, Result]]) -> None:
    """Do the steps of `grade` for each submission after its kernel has ended."""
    with course.gradebook():
        for number, student in enumerate(students):
            text, result = kinds[number % KINDS]
            result = replace(result, student=student)
            write_atomically(course.autograded_path(student, assignment), text)
            course.save_result(result)
            course.record(result, assignment)


def read_all(course: Course, assignment: Assignment) -> None:
    """Read the submissions and the stored results, as a second run of `grade` does."""
    for student in course.students():
        course.read_submission(student, assignment)
        course.read_files(student, assignment)
        course.load_result(student, assignment.name)


def measure(size: int, pages: int = 0, name: str = "2_multihead", root: Path | None = None) -> dict[str, Any]:
    """Run every stage on a class of stubs.

    Args:
        size: The number of submissions.
        pages: The number of feedback pages; 0 for none.
        name: The assignment.
        root: The folder in which the course is made; a temporary folder by default.

    Returns:
        By stage, the CPU seconds of this process and its children together, and the elapsed seconds; peak memory in MiB.
    """
    assignment = load_assignment(name)
    students = [f"student{number:05d}" for number in range(size)]
    kinds = stubs(assignment)
    with tempfile.TemporaryDirectory() as folder:
        course = Course(root or Path(folder) / "course")
        submit(course, assignment, students)
        stages: dict[str, Callable[[], Any]] = {
            "prepare": lambda: course.prepare(assignment),
            "students": lambda: (course.students(), course.unfit_names()),
            "record": lambda: record_all(course, assignment, students, kinds),
            "read": lambda: read_all(course, assignment),
            "prepare again": lambda: course.prepare(assignment),
            "scores": lambda: course.scores(assignment),
            "load_results": lambda: course.load_results(name),
            "scores_table": lambda: scores_table(course, assignment, course.load_results(name)),
            "report": lambda: write_report(course, assignment, course.load_results(name)),
            "export": lambda: prepare_export(
                course, assignment, course.load_results(name), "csv", allow_waiting=True
            ).write(),
        }
        if pages:
            stages["feedback"] = lambda: write_feedback(
                course, assignment, course.load_results(name)[:pages], workers=1
            )
            stages["feedback again"] = lambda: write_feedback(
                course, assignment, course.load_results(name)[:pages], workers=1
            )
        found: dict[str, Any] = {}
        for stage, run in stages.items():
            began, passed = cpu_seconds(), time.perf_counter()
            run()
            found[stage] = (cpu_seconds() - began, time.perf_counter() - passed)
    return found | {"peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    use = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in use)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="+", help="of the class")
    parser.add_argument("--pages", type=int, default=0, help="of feedback")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    options = parser.parse_args()
    found = {size: measure(size, min(options.pages, size)) for size in options.sizes}
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'CPU ms a submission':20}" + "".join(f"{size:>10,}" for size in found))
    for stage in next(iter(found.values())):
        if stage != "peak MiB":
            counts = {size: min(options.pages, size) if "feedback" in stage else size for size in found}
            cells = [1000 * found[size][stage][0] / counts[size] for size in found]
            print(f"{stage:20}" + "".join(f"{cell:10.2f}" for cell in cells))
    print(f"{'peak memory (MiB)':20}" + "".join(f"{found[size]['peak MiB']:10.0f}" for size in found))


if __name__ == "__main__":
    main()
