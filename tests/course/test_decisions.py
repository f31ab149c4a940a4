"""Does a submission that needs a look wait for a person, and is a decision valid only for its own questions?"""

import pytest
from conftest import NAME
from typer.testing import CliRunner

from autograder.cli import app
from autograder.course.course import NEEDS_A_LOOK, Course, Result
from autograder.course.decisions import Decision, read_decisions

QUESTION = "Text was found below the question: is it the answer?"


def asked(state: str = "graded") -> Result:
    """A result with a question, before a decision."""
    result = Result("ada", NAME, state, content="digest", questions=[QUESTION])
    result.ask(None)
    return result


@pytest.mark.parametrize(
    ("before", "decision", "state"),
    [
        ("graded", None, NEEDS_A_LOOK),
        ("graded", Decision([QUESTION], "digest"), "graded"),
        ("graded", Decision([QUESTION], "another submission"), NEEDS_A_LOOK),
        ("graded", Decision(["Another question?"], "digest"), NEEDS_A_LOOK),
        ("not graded", None, "not graded"),  # the next run grades it again
    ],
)
def test_ask_heeds_a_decision_about_this_submission_and_these_questions(
    before: str, decision: Decision | None, state: str
) -> None:
    """Does a decision settle exactly what it answered, also after a first question?"""
    result = asked(before)
    result.ask(decision)
    assert result.state == state


def test_settle_shows_the_questions_and_keeps_the_decision(course: Course) -> None:
    """Does the command show the questions, change nothing without an answer, and settle them with one?"""
    course.save_result(asked())
    command = ["settle", "ada", NAME, "--course", str(course.root)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0
    assert QUESTION in shown.output
    assert course.load_result("ada", NAME).state == NEEDS_A_LOOK
    assert CliRunner().invoke(app, [*command, "--keep"]).exit_code == 0
    assert course.load_result("ada", NAME).state == "graded"
    assert read_decisions(course.root, NAME) == {"ada": Decision([QUESTION], "digest")}
    nobody = CliRunner().invoke(app, ["settle", "bea", NAME, "--course", str(course.root)])
    assert nobody.exit_code == 1
    assert "no questions to settle" in nobody.output
