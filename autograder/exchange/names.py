"""What the name of a file says: who handed it in, to which system, and which attempt it is.

The names in downloads are those of mod/assign/classes/downloader.php (Moodle, https://github.com/moodle/moodle) and
lib/content_zipper.rb (Canvas, https://github.com/instructure/canvas-lms).
"""

import re
import unicodedata
from dataclasses import dataclass

MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?P<plugin>[a-z]+)(?:_(?P<file>.*))?", re.S)
MARK = re.compile(r"_\d+_assignsubmission_")
CANVAS = re.compile(
    r"(?:(?!LATE_)(?P<name>.*?)_)?(?P<late>LATE_)?(?P<number>\d+)_(?P<attachment>\d{1,18})_(?P<file>.+)", re.S
)
ATTEMPT = re.compile(r"-(\d{1,18})(?=\.\w+$)")  # Canvas's mark of a file that was handed in again
OF_THE_COURSE = re.compile(r"((?P<copy>.+)/)?(book|exercises/[^/]+)/[^/]+", re.S)  # in a copy of its repository
NOBODYS = {"__MACOSX", ".ipynb_checkpoints"}  # folders that computers make


@dataclass
class Sender:
    """What the name of a file says."""

    file: str  # as the student called it
    system: str = ""  # "moodle" or "canvas", if one named it
    number: str = ""  # of the participant or user
    name: str = ""
    folder: str = ""  # the student's, where no system named the file
    late: bool = False
    attachment: int = 0  # Canvas's number of the upload
    back: str = ""  # the name by which the system takes a page of feedback
    copy: str = ""  # of the course's repository, the student's, that the file lies in

    @property
    def attempt(self) -> int:
        """How often a file of this name had been handed in before, as Canvas counts."""
        found = ATTEMPT.search(self.file)
        return int(found[1]) if found else 0


def read_name(path: str, assignment: str) -> Sender | None:
    """Read the path of a file within a download or a folder.

    Returns:
        What it says; None for what is no submission, such as Jupyter's checkpoints and Moodle's online texts.
    """
    parts = unicodedata.normalize("NFC", path).split("/")
    if NOBODYS & set(parts) or parts[-1].startswith("._"):
        return None
    page = re.sub(r"\.\w+$", "", parts[-1]) + ".html"
    for index, part in enumerate(parts):
        found = MOODLE.fullmatch(part)
        if found and found["plugin"] != "file":
            return None
        if found:
            folder = index < len(parts) - 1
            if len(MARK.findall(part)) > 1:  # one is in the student's own words, who may have written another's number
                return Sender(parts[-1], "moodle", name=part)
            back = f"{path.split('/')[index]}/{page}" if folder else page
            return Sender(
                parts[-1] if folder else found["file"] or "", "moodle", found["number"], found["name"], back=back
            )
    sender, found = Sender(parts[-1]), CANVAS.fullmatch(parts[-1])
    if found:
        late, attachment = bool(found["late"]), int(found["attachment"])
        sender = Sender(found["file"], "canvas", found["number"], found["name"] or "", "", late, attachment, page)
    if assignment in parts[1:-1]:
        above = parts[: parts.index(assignment, 1)]
        if above[-1] == "exercises":
            above.pop()
            sender.copy = "/".join(above) or "."
        sender.folder = above[-1] if above else "/"
    elif len(parts) > 1:
        sender.folder = parts[0] if len(parts) == 2 else "/"  # somewhere deeper; no id is called "/"
    return sender
