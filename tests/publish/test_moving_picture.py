"""Is the README's moving picture what the notebook says?"""

from autograder.publish.moving_picture import ANSWER, RIGHT, TARGET, WRONG, as_gif, said_by_the_notebook


def test_moving_picture_shows_what_the_notebook_says() -> None:
    """Does the notebook name M6 and pass the mended line, and is the committed picture made of that, below 300 kB?"""
    wrong = said_by_the_notebook(ANSWER)
    right = said_by_the_notebook(ANSWER.replace(WRONG, RIGHT))
    assert wrong.startswith("AssertionError: M6 (the softmax runs over the wrong axis)")
    assert right.startswith("attention passes the visible tests.")
    assert TARGET.stat().st_size < 300_000
    assert TARGET.read_bytes() == as_gif(), "the picture is stale: run python -m autograder.publish.moving_picture"
