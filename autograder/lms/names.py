"""Read from a file's name who submitted it, and to which system.

The top of a path names the sender: the name of a single file, or of the first folder. Students choose all deeper names.
The names in downloads are those of mod/assign/classes/downloader.php (Moodle, https://github.com/moodle/moodle) and
lib/content_zipper.rb (Canvas, https://github.com/instructure/canvas-lms).
"""

import re
import unicodedata
from dataclasses import dataclass

MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?P<plugin>[a-z]+)(?:_(?P<file>.*))?", re.S)
MOODLE_NUMBER = re.compile(r"_\d+_assignsubmission_")
CANVAS = re.compile(
    r"(?:(?!LATE_)(?P<name>.*?)_)?(?P<late>LATE_)?(?P<number>\d+)_(?P<attachment>\d{1,18})_(?P<file>.+)", re.S
)
CANVAS_TEXT = re.compile(
    r"(?:(?!LATE_)(?P<name>.*?)_)?(?P<late>LATE_)?(?P<number>\d+)_(?P<file>(?:text|link)\.html)", re.S
)
IGNORED_FOLDERS = {"__MACOSX", ".ipynb_checkpoints"}  # folders that operating systems and Jupyter make


@dataclass
class Sender:
    """The facts in a file's name."""

    file: str  # the student's name for the file
    system: str = ""  # "moodle" or "canvas", if one of them named the file
    number: str = ""  # number of the participant or user
    name: str = ""
    folder: str = ""  # top folder, if no system named the file; "/" if the folder cannot be a student's
    late: bool = False
    attachment: int = 0  # Canvas's number of the upload
    back: str = ""  # name under which the system accepts a feedback page
    copy: bool = False  # whether the file is in a copy of the course's repository
    top: str = ""  # first part of the path, as written

    @property
    def claim(self) -> str:
        """The key of the sender: two keys for one student are two claims."""
        if self.system:
            return f"{self.system} {self.number} {self.folder}".strip()
        return f"folder {self.top}" if self.folder else "file"


def read_name(path: str, assignment: str) -> Sender | None:
    """Read the path of a file within a download or a folder.

    Returns:
        The sender; None for files that are no submission, such as those in hidden folders.
    """
    raw = path.split("/")
    parts = unicodedata.normalize("NFC", path).split("/")
    if {"", ".", ".."} & set(parts) or "\\" in path:  # another program may find another folder by this path
        return Sender(parts[-1], folder="/", top=raw[0])
    if any(part in IGNORED_FOLDERS or part.startswith(".") for part in parts[:-1]) or parts[-1].startswith("._"):
        return None
    top, inside = parts[0], parts[1:]
    page = re.sub(r"\.\w+$", "", parts[-1]) + ".html"
    if match := MOODLE.fullmatch(top):
        if len(MOODLE_NUMBER.findall(top)) > 1:  # the student wrote one of these numbers; it may be another student's
            return Sender(parts[-1], "moodle", name=top, top=raw[0])
        back, file = (f"{raw[0]}/{page}", parts[-1]) if inside else (page, match["file"] or "")
        return Sender(file, "moodle", match["number"], match["name"], back=back, top=raw[0])
    if inside:
        copy = f"/exercises/{assignment}/" in f"/{'/'.join(inside)}"
        return Sender(parts[-1], folder=top, copy=copy, top=raw[0])
    if match := CANVAS.fullmatch(top) or CANVAS_TEXT.fullmatch(top):
        late, attachment = bool(match["late"]), int(match.groupdict().get("attachment", 0))
        who = match["number"], match["name"] or ""
        return Sender(match["file"], "canvas", *who, "", late, attachment, page, top=raw[0])
    return Sender(top, top=raw[0])
