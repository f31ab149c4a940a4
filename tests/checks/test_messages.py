"""Is every message that a test gives to a student short enough to be read, and silent about hidden numbers?"""

import re

from golden.differences import FOLDER

from autograder.judge import catalogue

MOST_WORDS, MOST_SENTENCES = 60, 3
A_MESSAGE = re.compile(r" \| (?:visible|\w+ [01]) \| (.*)")
# What a hidden stage says of a known mistake, after the case and before a line, whose right value belongs to other inputs
OF_HIDDEN = re.compile(
    r"^(?!test_attention)\S+ \| M[\d/]+ \| \w+ [01] \| (?:\{M\d+\} ⏎ )?[^:]*: (.*?)(?: ⏎ Line .*)?$", re.M
)
MAY_BE_SAID = re.compile(r"off by up to [^ ;]+[;.]|(rows|columns) sum to \S+( … \S+)?| times \S+\.(?!\d)|`[^`]*`")
# Code, what Python and libraries say of an error, and the headings of a table of numbers
NOT_COUNTED = re.compile(
    r"`[^`]*`|(?<=Error:)\s.*?(?=\n(?:Line \d|right: |and \d)|\Z)|^(?:The part of .*? on:|Expected|got)$", re.M | re.S
)


def words_of(text: str) -> int:
    """Count the words of a message, without those that are not counted and without numbers."""
    return sum(any(map(str.isalpha, word)) for word in NOT_COUNTED.sub("", text).split())


def test_hidden_messages_hold_no_expected_numbers() -> None:
    """Do hidden stages say shapes, counts, the largest difference, extreme sums and factors, and no other number?"""
    found = [text for path in FOLDER.glob("verdicts_*.txt") for text in OF_HIDDEN.findall(path.read_text("utf-8"))]
    assert len(found) > 2000
    told = {text: MAY_BE_SAID.sub("", text) for text in found}
    assert {text for text, rest in told.items() if re.search(r"\d\.|\.\d|\de|array\(|Expected ⏎|⏎ got", rest)} == set()


def test_recorded_messages_are_short() -> None:
    """Does no recorded message, about a mistake or a mutation, have more than 60 words from its question on?"""
    lines = [line for path in FOLDER.glob("verdicts_*.txt") for line in path.read_text("utf-8").splitlines()]
    texts = {
        re.sub(r"^.*?\{(M\d+)\}", lambda m: catalogue.QUESTIONS[m[1]], found[1])
        for found in map(A_MESSAGE.search, lines)
        if found
    }
    words = {text: words_of(re.sub(" ?⏎ ?", "\n", text)) for text in texts}
    assert {text: number for text, number in words.items() if number > MOST_WORDS} == {}
    assert max(words.values()) > 40 and len(words) > 1000


def test_questions_have_three_sentences_at_most() -> None:
    """Does each mistake have a question, in at most three sentences?"""
    said = {name: re.split(r"(?<=[.?!]) +", question) for name, question in catalogue.QUESTIONS.items()}
    assert {name for name, each in said.items() if len(each) > MOST_SENTENCES} == set()
    assert {name for name, each in said.items() if not any(sentence.endswith("?") for sentence in each)} == set()
