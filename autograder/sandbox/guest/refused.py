"""Refuse system calls to a sandbox with a seccomp filter. This runs in the sandbox, and imports nothing of ours."""

import ctypes
import errno
import os
import socket
import struct

# System calls that no exercise needs and no limit covers, with their numbers on x86-64 and on arm64: memory that belongs to
# no process (memfd, System V, a file system in a new namespace), and interfaces that expose the Linux kernel.
REFUSED = {
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "fsopen": (430, 430), "open_tree": (428, 428),
    "clone3": (435, 435), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_setup": (206, 0), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
}  # fmt: skip
# Attributes of files use memory that does not count as files. The calls fail as on a file system without attributes,
# because shutil.copy2 expects that error.
ATTRIBUTES = {"setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463)}
SOCKETS = {"socket": (41, 198), "socketpair": (53, 199)}  # refused except for the families below
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)  # the last two do not lead out of the sandbox
MAP = (9, 222)  # mmap: shared memory without a file is refused: after it is unmapped, it counts for no process
SHARED = 0x21  # flags of such memory: MAP_SHARED and MAP_ANONYMOUS
# For each machine: the column above, its AUDIT_ARCH, and the numbers of clone and seccomp.
MACHINES = {"x86_64": (0, 0xC000003E, 56, 317), "aarch64": (1, 0xC00000B7, 220, 277)}
NEW_NAMESPACES = 0x7E020000  # flags of clone
SET_DUMPABLE = 4  # for prctl


def refuse_calls() -> None:
    """Let the Linux kernel refuse the calls above to this process and to all that it starts (a seccomp filter).

    Raises:
        OSError: this system has no such filters.
        KeyError: we do not know the calls of this system.
    """
    column, architecture, clone, seccomp = MACHINES[os.uname().machine]
    load, mask, equal, at_least, any_bit, end = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
    refuse, allow = (end, 0, 0, 0x50000 | errno.ENOSYS), (end, 0, 0, 0x7FFF0000)
    no_family = (end, 0, 0, 0x50000 | errno.EAFNOSUPPORT)  # the error of a Linux without this family
    no_attributes = (end, 0, 0, 0x50000 | errno.EOPNOTSUPP)
    filters = [(load, 0, 0, 4), (equal, 1, 0, architecture), refuse]  # no 32-bit calls
    filters += [(load, 0, 0, 0), (at_least, 0, 1, 0x40000000), refuse]  # no calls of x32
    for numbers in REFUSED.values():
        filters += [(equal, 0, 1, numbers[column]), refuse]
    for numbers in ATTRIBUTES.values():
        filters += [(equal, 0, 1, numbers[column]), no_attributes]
    for numbers in SOCKETS.values():
        allowed = [(equal, len(FAMILIES) - i, 0, family) for i, family in enumerate(FAMILIES)]
        filters += [(equal, 0, len(allowed) + 3, numbers[column]), (load, 0, 0, 16), *allowed, no_family, allow]
    filters += [
        (equal, 0, 5, MAP[column]),
        (load, 0, 0, 40),
        (mask, 0, 0, SHARED),
        (equal, 0, 1, SHARED),
        refuse,
        allow,
    ]
    filters += [(equal, 1, 0, clone), allow, (load, 0, 0, 16), (any_bit, 0, 1, NEW_NAMESPACES), refuse, allow]
    code = b"".join(struct.pack("HBBI", *step) for step in filters)
    program = struct.pack("HP", len(filters), ctypes.addressof(buffer := ctypes.create_string_buffer(code)))
    if ctypes.CDLL(None, use_errno=True).syscall(seccomp, 1, 1, program) != 0:  # for all threads
        raise OSError(ctypes.get_errno(), f"no seccomp filter of {len(buffer)} bytes can be set")


def refuse_own_memory() -> None:
    """Prevent this process from opening its memory as a file: /proc/self/mem, by any path, then belongs to root."""
    if ctypes.CDLL(None, use_errno=True).prctl(SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the process's memory cannot be hidden")
