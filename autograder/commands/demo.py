"""The demonstration on sample classes."""

import os
from pathlib import Path

from autograder.commands.authoring import book, build
from autograder.commands.bars import Bars
from autograder.commands.console import say
from autograder.commands.grading import grade_class, show_scores, workers_for
from autograder.commands.options import CourseOption
from autograder.commands.selection import course_in

STEPS = """1  grades {classes} sample classes; the first class has 18 students; meanwhile, it runs the book's chapters
2  writes their feedback and reports
3  builds the book
The first time this takes minutes; if nothing has changed, it takes seconds."""


def demo(course: CourseOption = Path("course-demo")) -> None:
    """Do everything once: grade sample classes of all assignments, write feedback and reports, build the book."""
    import runpy

    from autograder.imports import ROOT
    from autograder.publish.book import preparing_book
    from autograder.report.course_page import write_course_page
    from autograder.report.feedback import write_feedback
    from autograder.report.report import write_report
    from autograder.sandbox.host.limits import Limits

    sample = runpy.run_path(str(ROOT / "tests" / "sample_class.py"))
    for step in STEPS.format(classes=len(sample["CLASSES"])).splitlines():
        say(step)
    build()
    graded = []
    limits = Limits(cell_seconds=5.0, call_seconds=2.0)  # one of the students' cells never ends
    with preparing_book(), workers_for(sample["CLASSES"], limits) as workers:
        for name in sample["CLASSES"]:
            sample["write_class"](course, name)
            # MNIST, even if it is on this machine, is not used: the samples' weights were trained on a stand-in
            graded.append(grade_class(name, course, limits, workers, data=Path(os.devnull)))
            show_scores(course, *graded[-1])
    for assignment, results in graded:
        with Bars() as bars:
            write_feedback(course_in(course), assignment, results, bars)
        write_report(course_in(course), assignment, results)
    write_course_page(course_in(course), graded)
    book()
    for title, folder in (("Feedback", "feedback"), ("Reports", "report/index.html")):
        say(f"{title}: {(course / folder).resolve()}")
