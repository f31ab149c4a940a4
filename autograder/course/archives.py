"""List and read the members of zip archives and folders that strangers made.

An archive never decides where a file is written. A member is read into memory, within limits. If a member is not read,
an error says why. Links are not followed, and devices and pipes are not read. An archive inside an archive is opened;
an archive inside that one is not.
"""

import io
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from autograder.files import MAX_BYTES, Unreadable, read_plain_file, too_large, writable

MAX_MEMBERS = 50_000  # files in an archive or a folder, at most
MAX_PACKED = 200 * 2**20  # bytes of an archive inside an archive, unpacked
START = 4096  # bytes at the start of a file that show its kind
NOT_OPENED = (".7z", ".rar", ".bz2", ".xz", ".zst")  # archives that Python opens only at a risk, or not at all


@dataclass
class Member:
    """A file in an archive or a folder, not read yet."""

    path: str  # path within the archive or folder, with / between names
    read: Callable[..., bytes]  # with start=NUMBER, reads only this many bytes at its start; raises Unreadable
    when: datetime | None  # time of the last change, or of packing; without a time zone if the archive has none


def members(path: Path, stack: ExitStack, is_single: Callable[[Path], bool]) -> Iterator[Member]:
    """List the files of an archive or a folder, or the path itself if it is a single submitted file.

    Args:
        path: An archive, a folder or a file.
        stack: Closes the archive when its members have been read.
        is_single: Tells whether a path is one submitted file. A file of weights is a zip archive too.

    Raises:
        Unreadable: the path is none of these, or too large.
    """
    if path.is_symlink():
        raise Unreadable("it is a link; give the path that it points to")
    if path.is_dir():
        yield from folder_members(path)
    elif path.exists() and is_single(path):
        yield _file_member(path, path.name)
    elif path.is_file():
        yield from _zip_members(stack.enter_context(path.open("rb")), stack)
    else:
        raise Unreadable("there is no such file or folder")


def _file_member(file: Path, name: str) -> Member:
    when = datetime.fromtimestamp(file.lstat().st_mtime, UTC)
    return Member(writable(name), partial(read_plain_file, file), when)


def folder_members(path: Path) -> Iterator[Member]:
    """List the files of a folder. Hidden folders are skipped.

    Raises:
        Unreadable: the folder cannot be read, or has too many files.
    """

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
            yield _file_member(file, file.relative_to(path).as_posix())


def unpack(name: str, data: bytes) -> list[Member]:
    """List the files of an archive that a student submitted: zip, tar, tar.gz, or one file that was packed by gzip.

    Args:
        name: The archive's name. The paths of its files begin with it.
        data: The archive.

    Raises:
        Unreadable: the data is not an archive, or the archive is too large.
    """
    if data[:4] == b"PK\x03\x04":
        listed = list(_zip_members(io.BytesIO(data), ExitStack()))
    else:
        if data[:2] == b"\x1f\x8b":
            data = _gunzip(data)
        if data[257:262] != b"ustar":
            last = re.sub(r"\.gz$", "", PurePosixPath(name).name, flags=re.I)
            return [_member(f"{name}/{last}", data, 0, len(data), None)]
        listed = list(_tar_members(data))
        if len(listed) > MAX_MEMBERS:
            raise Unreadable(f"it has more than {MAX_MEMBERS:,} files")
    for member in listed:
        member.path = f"{name}/{member.path}"
    return listed


def is_archive(start: bytes) -> bool:
    """Whether `unpack` can open a file that begins with these bytes."""
    return start[:4] == b"PK\x03\x04" or start[:2] == b"\x1f\x8b" or start[257:262] == b"ustar"


def _slice(path: str, data: bytes, begin: int, size: int, start: int | None = None) -> bytes:
    if start is None and size > MAX_BYTES:
        raise Unreadable(f"it has {too_large(path, size)}")
    return data[begin : begin + (size if start is None else min(size, start))]


def _gunzip(data: bytes) -> bytes:
    """Return the data that gzip packed."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        content = unpacker.decompress(data, MAX_PACKED + 1)
    except zlib.error as error:
        raise Unreadable(f"it cannot be unpacked: {error}") from None
    if len(content) > MAX_PACKED:
        raise Unreadable(f"it unpacks to more than {MAX_PACKED / 2**20:.0f} MiB")
    return content


def _member(path: str, data: bytes, begin: int, size: int, when: datetime | None) -> Member:
    return Member(writable(path), partial(_slice, path, data, begin, size), when)


def _tar_members(data: bytes) -> Iterator[Member]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for info in islice(archive, MAX_MEMBERS + 1):
                if info.isreg() and not info.issparse():
                    when = datetime.fromtimestamp(min(max(0, info.mtime), 2**32), UTC)
                    yield _member(info.name, data, info.offset_data, info.size, when)
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise Unreadable(f"it cannot be unpacked: {error}") from None


def _zip_members(file: BinaryIO, stack: ExitStack) -> Iterator[Member]:
    try:
        archive = stack.enter_context(zipfile.ZipFile(file))
    except Exception:  # zipfile may raise anything on a stranger's bytes
        raise Unreadable("it is not a zip archive, or it is torn") from None
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > MAX_MEMBERS:
        raise Unreadable(f"it has {len(infos):,} files; at most {MAX_MEMBERS:,} are allowed")
    times = Counter(info.filename for info in infos)
    for info in {info.filename: info for info in infos}.values():
        name = info.filename
        if not info.flag_bits & 0x800:
            with suppress(UnicodeError):  # zipfile reads such a name as code page 437; often it is UTF-8
                name = name.encode("cp437").decode("utf-8")
        read = partial(_read, archive, info, _reason_to_skip(info, times[info.filename]))
        yield Member(name, read, _when(info))


def _reason_to_skip(info: zipfile.ZipInfo, times: int) -> str:
    """Return why a member is not read, or an empty string."""
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
        return f"it has {too_large(name, info.file_size)}"
    return ""


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, skip_reason: str, start: int | None = None) -> bytes:
    if skip_reason:
        raise Unreadable(skip_reason)
    try:
        with archive.open(info) as file:
            data = file.read(MAX_BYTES + 1 if start is None else start)  # the size in the list may be wrong
    except Exception as error:  # zipfile may raise anything on a stranger's bytes
        raise Unreadable(f"it cannot be unpacked: {error}") from None
    if len(data) > MAX_BYTES:
        raise Unreadable(f"it has more than {too_large(info.filename, MAX_BYTES)}")  # the size in the list is wrong
    return data


def _when(info: zipfile.ZipInfo) -> datetime | None:
    """Return the time of a member, without a time zone, because a zip archive has none."""
    try:
        return datetime(*info.date_time)
    except (ValueError, OverflowError):
        return None
