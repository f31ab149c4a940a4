"""Is every message that a test gives to a student short enough to be read?"""

import re

import pytest
from conftest import ALL
from typer.testing import CliRunner

from autograder.checks.messages import Message, messages_of
from autograder.cli import app
from autograder.judge import catalogue

MOST_WORDS = 60
MOST_SENTENCES = 3


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return re.split(r"(?<=[.?!]) +", text)


def too_long(messages: list[Message]) -> dict[str, int]:
    """Return the messages with too many words."""
    return {message.text: message.words for message in messages if message.words > MOST_WORDS}


def test_questions_have_three_sentences_at_most() -> None:
    """Does each mistake have a question, in at most three sentences?"""
    said = {name: sentences(question) for name, question in catalogue.QUESTIONS.items()}
    assert {name for name, each in said.items() if len(each) > MOST_SENTENCES} == set()
    assert {name for name, each in said.items() if not any(sentence.endswith("?") for sentence in each)} == set()


def test_words_counts_no_numbers() -> None:
    """Are numbers, tables and addresses left out of the count of words?"""
    assert Message("", "", "weights: 3 of 9 numbers\n 1.5  -inf*  2\nhttps://book/mistakes.html#m3").words == 4


def test_command_prints_messages_of_real_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the command print the messages of known mistakes and of mutations, each once, and none too long?"""
    from autograder.checks.attention.exercises import EXERCISES

    monkeypatch.setattr("autograder.checks.messages.exercises_of", lambda stem: {"softmax": EXERCISES["softmax"]})
    shown = CliRunner().invoke(app, ["messages", "1_attention", "--seed", "0", "--mutations", "4"]).stdout
    texts = [part.split("\n", 1)[1] for part in shown.split("\n## ")[1:]]
    assert len(texts) > 10 and too_long([Message("softmax", "", text) for text in texts]) == {}
    assert sum(text.startswith("M6 (") for text in texts) == 1
    assert "softmax: not written yet." in shown and re.search(r"^Line \d+ of softmax", shown, re.M)


@pytest.mark.deep
@pytest.mark.parametrize("stem", ALL.values())
def test_messages_are_short(stem: str) -> None:
    """Does no message about any wrong answer have more than 60 words?"""
    found = messages_of(stem, 0, 15)
    assert too_long(found) == {}
    assert len(found) > 30
