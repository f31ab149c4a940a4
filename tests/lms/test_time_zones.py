"""Are times without a zone read in the course's zone, on a machine in any zone?"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from downloads import NAME, moodle_worksheet, notebook, write_zip
from test_cli import run
from test_settings import settings_of

from autograder.course.course import Course

MACHINES = ["UTC", "Europe/Berlin", "Asia/Kathmandu"]
LATE = datetime(2026, 10, 12, 18, 30, tzinfo=UTC)  # half past eight in Berlin


@pytest.fixture
def machine_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that moves this machine to another time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("machine", ["UTC", "Asia/Kathmandu"])
def test_due_date_without_an_offset_is_in_the_zone_of_the_course(
    machine: str, machine_in: Callable[[str], None], tmp_path: Path
) -> None:
    """Is a local time read in summer and in winter, also by a machine in another zone?"""
    machine_in(machine)
    due = """1_attention = 2026-10-12 20:00:00
2_multihead = 2026-11-02
3_encoder = 2026-11-02 20:00:00Z
"""
    settings = settings_of(tmp_path, f'timezone = "Europe/Berlin"\n[due]\n{due}')
    assert settings.due["1_attention"] == datetime(2026, 10, 12, 18, tzinfo=UTC)
    assert settings.due["2_multihead"] == datetime(2026, 11, 2, 22, 59, 59, tzinfo=UTC)
    assert settings.due["3_encoder"] == datetime(2026, 11, 2, 20, tzinfo=UTC)
    assert f"{settings.due['1_attention']:%H:%M %Z}" == "20:00 CEST"
    machine_in("Europe/Berlin")
    assert settings_of(tmp_path, f"[due]\n{due}").due == settings.due


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Berlin", "(did you mean Europe/Berlin?)"),
        ("MESZ", 'such as "Europe/Berlin"'),
        ("+02:00", 'such as "Europe/Berlin"'),
        ("../../etc/passwd", 'such as "Europe/Berlin"'),
        ("Europe", 'such as "Europe/Berlin"'),
    ],
)
def test_unknown_zone_is_refused(zone: str, said: str, tmp_path: Path) -> None:
    """Does the error show the text, the file, and a name that is right?"""
    with pytest.raises(ValueError, match="must be the name of a zone") as error:
        settings_of(tmp_path, f'timezone = "{zone}"')
    assert repr(zone) in str(error.value) and said in str(error.value) and "course.toml" in str(error.value)


def collected(folder: Path, text: str = "") -> tuple[Result, datetime | None]:
    """Collect Ada's submission of 20:30 from Moodle; return what the command printed, and the time in the course."""
    people = [("100", "Ada Lovelace", "ada@example.org")]
    sheet = moodle_worksheet(folder / "sheet.csv", people, "Monday, 12 October 2026, 8:30 PM")
    archive = write_zip(folder / "m.zip", {"Ada Lovelace_100_assignsubmission_file_/attention.ipynb": notebook(text)})
    done = run("collect", NAME, str(archive), "--worksheet", str(sheet), "--course", str(folder))
    return done, Course(folder).time_of("ada@example.org", NAME)[0]


@pytest.mark.parametrize("machine", MACHINES)
def test_times_of_moodle_are_in_the_zone_of_the_course(
    machine: str, machine_in: Callable[[str], None], tmp_path: Path
) -> None:
    """Is a submission as late on every machine, and is the zone printed?"""
    machine_in(machine)
    settings_of(tmp_path, f'timezone = "Europe/Berlin"\n[due]\n{NAME} = 2026-10-12 20:00:00\n')
    done, when = collected(tmp_path)
    assert done.exit_code == 0 and when == LATE
    assert "Moodle's times are read in Europe/Berlin, as course.toml says." in done.stdout


@pytest.mark.parametrize("wrong", ["America/New_York", "Asia/Kathmandu"])
def test_wrong_zone_can_be_corrected(wrong: str, tmp_path: Path) -> None:
    """After another `timezone`, does the same download correct the time only, and is a later one no older attempt?"""
    settings_of(tmp_path, f'timezone = "{wrong}"')
    assert collected(tmp_path)[1] != LATE
    settings_of(tmp_path, 'timezone = "Europe/Berlin"')
    done, when = collected(tmp_path)
    assert when == LATE and "1 unchanged" in done.stdout
    assert "1 collected" in collected(tmp_path, "another answer")[0].stdout


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("offset", ["+02:00", "Z", "", None])  # None: no due date
def test_zone_is_asked_for_if_the_due_date_is_in_another_one(
    machine: str, offset: str | None, machine_in: Callable[[str], None], tmp_path: Path
) -> None:
    """Is nothing collected if the due date shows that Moodle's zone may not be this machine's? Else the zone is printed."""
    machine_in(machine)
    settings_of(tmp_path, "" if offset is None else f"[due]\n{NAME} = 2026-10-12 20:00:00{offset}\n")
    done, when = collected(tmp_path)
    if (machine, offset) in (("Europe/Berlin", "+02:00"), ("UTC", "Z")) or not offset:
        assert done.exit_code == 0 and (when == LATE) == (machine == "Europe/Berlin")
        zones = {"UTC": "UTC (+00:00)", "Europe/Berlin": "CEST (+02:00)", "Asia/Kathmandu": "+0545 (+05:45)"}
        said = "Moodle's times are read in this machine's zone, "
        assert f"{said}{zones[machine]}; timezone = " in done.stdout.replace("CET (+01:00)", "CEST (+02:00)")
    else:
        assert done.exit_code == 1 and when is None and 'timezone = "Europe/Berlin"' in done.stderr
        assert "1_attention is due 2026-10-12 20:00:00" in done.stderr


def test_times_in_a_zip_archive_are_in_the_zone_of_the_course(
    machine_in: Callable[[str], None], tmp_path: Path
) -> None:
    """Is the time of a file in an archive of folders, which has no zone, read in the course's zone too?"""
    machine_in("Asia/Kathmandu")
    settings_of(tmp_path, 'timezone = "Europe/Berlin"')
    archive = write_zip(tmp_path / "class.zip", {"ada/attention.ipynb": notebook()})  # packed on 18 March 2025 at noon
    (tmp_path / "roster.csv").write_text("id\nada\n", encoding="utf-8")
    assert run("collect", NAME, str(archive), "--course", str(tmp_path)).exit_code == 0
    assert Course(tmp_path).time_of("ada", NAME)[0] == datetime(2025, 3, 18, 11, tzinfo=UTC)
