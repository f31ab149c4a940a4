"""List and read what strangers put into zip archives and folders.

Nothing is extracted to a path that an archive names: a member is read into memory, within limits, or the reason is said why
it is not. No link is followed, no device or pipe is read, and no archive inside an archive is opened.
"""

import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from autograder.files import MAX_BYTES, Unreadable, is_notebook, read_plain_file, writable

MAX_MEMBERS = 50_000  # of an archive or a folder
MAX_DIRECTORY = 32 * 2**20  # bytes of an archive's list of members, which is read as a whole
MAX_TOTAL = 8 * 2**30  # bytes of all notebooks in an archive, unpacked
MAX_RATIO, RATIO_FROM = 500, 10 * 2**20  # a member of this many bytes may not be packed tighter


@dataclass
class Member:
    """A file in an archive or a folder, not read yet."""

    path: str  # within it, with /
    read: Callable[[], bytes]  # raises Unreadable
    when: datetime | None  # it was last changed, or packed


def members(path: Path, stack: ExitStack, single: Collection[str] = (".ipynb",)) -> Iterator[Member]:
    """List the files of an archive, of a folder, or the one file that the path is.

    Args:
        path: Where it is.
        stack: Closes the archive when its members have been read.
        single: The endings of what is handed in by itself; a file of weights looks like an archive inside.

    Raises:
        Unreadable: it is none of them, or too large.
    """
    if path.is_symlink():
        raise Unreadable("it is a link; name what it points to")
    if path.is_dir():
        yield from _of_folder(path)
    elif path.suffix.lower() in single and path.exists():
        yield _plain(path, path.name)
    elif path.is_file():
        yield from _of_zip(path, stack)
    else:
        raise Unreadable("there is no such file or folder")


def _plain(file: Path, name: str) -> Member:
    when = datetime.fromtimestamp(file.lstat().st_mtime, UTC)
    return Member(writable(name), partial(read_plain_file, file), when)


def _of_folder(path: Path) -> Iterator[Member]:
    def stop(error: OSError) -> None:
        raise Unreadable(f"{error.filename} cannot be read: {error.strerror}")

    count = 0
    for here, folders, files in os.walk(path, onerror=stop):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        for name in sorted(files) + links:
            count += 1
            if count > MAX_MEMBERS:
                raise Unreadable(f"it has more than {MAX_MEMBERS:,} files")
            file = Path(here, name)
            yield _plain(file, file.relative_to(path).as_posix())


def _of_zip(path: Path, stack: ExitStack) -> Iterator[Member]:
    file = stack.enter_context(path.open("rb"))
    _check_list(file, path.stat().st_size)
    try:
        archive = stack.enter_context(zipfile.ZipFile(file))
    except Exception as error:  # whatever zipfile makes of a stranger's bytes
        raise Unreadable(f"it cannot be opened as a zip archive: {error}") from None
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > MAX_MEMBERS:
        raise Unreadable(f"it has {len(infos):,} files; at most {MAX_MEMBERS:,} are taken")
    total = sum(info.file_size for info in infos if is_notebook(info.filename))
    if total > MAX_TOTAL:
        raise Unreadable(f"its notebooks have {total / 2**30:.0f} GiB; at most {MAX_TOTAL / 2**30:.0f} are unpacked")
    times = Counter(info.filename for info in infos)
    for info in infos:
        name = info.filename
        if not info.flag_bits & 0x800:
            try:  # names that are UTF-8 although the archive does not say so: zipfile read them as code page 437
                name = name.encode("cp437").decode("utf-8")
            except UnicodeError:
                pass
        yield Member(name, partial(_read, archive, info, _why_not(info, times[info.filename])), _when(info))


def _check_list(file: BinaryIO, size: int) -> None:
    """See how long an archive's list of members is, before zipfile reads it."""
    file.seek(max(0, size - 2**16 - 98))  # the longest comment, and the two records before it
    tail = file.read()
    end, end64 = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    if end < 0:
        raise Unreadable("it is no zip archive")
    length = int.from_bytes(tail[end + 12 : end + 16], "little")
    if length == 0xFFFFFFFF and end64 >= 0:
        length = int.from_bytes(tail[end64 + 40 : end64 + 48], "little")
    if length > MAX_DIRECTORY:
        raise Unreadable(f"its list of members has {length / 2**20:.0f} MiB; no download of a class has")


def _why_not(info: zipfile.ZipInfo, times: int) -> str:
    """Return why a member is not read; nothing if it is."""
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    if ".." in name.split("/") or re.match(r"/|[A-Za-z]:", name) or set(name) & {"\\", "\0"}:
        return "its name leads out of the archive"
    if kind not in (0, stat.S_IFREG):
        return "it is a link or a device, not a file"
    if times > 1:
        return f"its name is in the archive {times} times"
    if info.flag_bits & 0x2041:
        return "it is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is packed in an unusual way"
    if info.file_size > MAX_BYTES:
        return f"it has {info.file_size / 2**20:.0f} MiB; at most {MAX_BYTES / 2**20:.0f} are read"
    if info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * info.compress_size:
        return f"it unpacks to {info.file_size / max(1, info.compress_size):.0f} times its size, as a zip bomb does"
    return ""


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, why_not: str) -> bytes:
    if why_not:
        raise Unreadable(why_not)
    try:
        with archive.open(info) as file:
            data = file.read(MAX_BYTES + 1)  # the size in the list may be a lie
    except Exception as error:  # whatever zipfile makes of a stranger's bytes
        raise Unreadable(f"it cannot be unpacked: {error}") from None
    if len(data) > MAX_BYTES:
        raise Unreadable(f"it has more than {MAX_BYTES / 2**20:.0f} MiB")
    return data


def _when(info: zipfile.ZipInfo) -> datetime | None:
    """Return the time of a member, which has no time zone in a zip archive: that of this machine is taken."""
    try:
        return datetime(*info.date_time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
