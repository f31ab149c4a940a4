"""Are the settings of a course read as a person writes them, and refused with what was expected?"""

from pathlib import Path

import pytest

from autograder.settings import Settings, read_settings


def settings_of(folder: Path, text: str) -> Settings:
    """Return the settings of a course with this course.toml."""
    (folder / "course.toml").write_text(text, encoding="utf-8")
    return read_settings(folder)


@pytest.mark.parametrize(
    "given",
    [
        "https://github.com/YOU/my.course",
        "https://github.com/YOU/my.course.git",
        "https://github.com/YOU/my.course/",
        "https://github.com/YOU/my.course.git//",
        "http://www.github.com/YOU/my.course",
        "https://GitHub.com/YOU/my.course",
        "https://me:ghp_secret@github.com/YOU/my.course.git",
        "git@github.com:YOU/my.course.git",
        "git@github.com:YOU/my.course",
        "ssh://git@github.com/YOU/my.course.git",
        "ssh://git@ssh.github.com:443/YOU/my.course.git",
        " https://github.com/YOU/my.course ",
    ],
)
def test_address_of_a_repository_may_be_the_one_for_git_clone(given: str, tmp_path: Path) -> None:
    """Do all forms that GitHub shows mean the same page, and the same address of the book?"""
    settings = settings_of(tmp_path, f'repository = "{given}"')
    assert settings.repository == "https://github.com/YOU/my.course"
    assert settings.address_of_book == "https://you.github.io/my.course/"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_settings_in_another_encoding_are_refused_with_a_remedy(encoding: str, tmp_path: Path) -> None:
    """Are the file and the encoding to save it in named?"""
    (tmp_path / "course.toml").write_text('# Übung\nlicense = "© Universität"\n', encoding=encoding)
    with pytest.raises(ValueError, match=r"course\.toml, line 1: the file is not UTF-8. Save it .*\"UTF-8\""):
        read_settings(tmp_path)


@pytest.mark.parametrize(
    ("given", "page", "book"),
    [
        ("git@gitlab.com:group/part/course.git", "https://gitlab.com/group/part/course", ""),
        ("ssh://git@git.uni.example:2222/group/course.git", "https://git.uni.example/group/course", ""),
        ("https://git.uni.example:8443/group/course/", "https://git.uni.example:8443/group/course", ""),
        ("git@github.com:YOU/YOU.github.io.git", "https://github.com/YOU/YOU.github.io", "https://you.github.io/"),
    ],
)
def test_address_of_the_book_is_that_of_the_host(given: str, page: str, book: str, tmp_path: Path) -> None:
    """Is a page on another host found too, without a book there, and is YOU.github.io published at its own name?"""
    settings = settings_of(tmp_path, f'repository = "{given}"')
    assert (settings.repository, settings.address_of_book) == (page, book)


@pytest.mark.parametrize(
    "given",
    [
        "https://github.com/YOU",
        "https://github.com/YOU/course/tree/main",
        "https://github.com/YOU/course?tab=readme",
        "github.com/YOU/course",
        "gh repo clone YOU/course",
        "../course",
        "javascript:alert(1)",
    ],
)
def test_other_text_is_no_address_of_a_repository(given: str, tmp_path: Path) -> None:
    """Does the error show what is there, and what was expected?"""
    with pytest.raises(ValueError, match="must be the address of a repository, https://github") as error:
        settings_of(tmp_path, f'repository = "{given}"')
    assert given in str(error.value) and "course.toml" in str(error.value)
