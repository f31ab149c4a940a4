"""Attempts to read secrets, and to reach other people's data."""

from making import FIRST, Attack, in_answers, own_cell

LEAKS = (
    Attack(
        "environment",
        "Prints the environment variables of its own process, including AUTOGRADER_SEED, and of every other process.",
        own_cell("""
import glob, os
print(dict(os.environ))
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline") + glob.glob("/proc/[0-9]*/mountinfo"):
    tried(lambda: (path, open(path, errors="replace").read()[:5000]))
"""),
    ),
    Attack(
        "searches-files",
        "Searches every readable file for secrets, also through /proc/1/root and in the grader's folders.",
        own_cell("""
import glob, os, site, sqlite3
paths = [path for folder in site.getsitepackages() for path in glob.glob(folder + "/*.pth") + glob.glob(folder + "/__editable__*")]
for path in [*paths, REPOSITORY + "/solutions/attention.py", REPOSITORY + "/autograder/checks/attention/exercises.py"]:
    tried(lambda: (path, open(path).read()[:3000]))
for path in ("file:" + COURSE + "/gradebook.db", "file:" + COURSE + "/gradebook.db?mode=ro&immutable=1"):
    for table in ("student", "source_cell"):
        tried(lambda: sqlite3.connect(path, uri=True, timeout=1).execute("select * from " + table).fetchall())
def shown(path):
    text = open(path, errors="replace").read(100_000) if os.path.isfile(path) else ""
    return text[:2000] if "canary-" in text or "oracle" in text else ""
for top in ("/", "/proc/1/root", "/proc/1/cwd", "/proc/self/root", COURSE, REPOSITORY, os.path.expanduser("~root"), "/home"):
    for folder, folders, files in os.walk(top):
        folders[:] = [f for f in folders if f not in ("usr", "proc", "sys", "site-packages", "lib", "include", "share")]
        for name in files:
            tried(lambda: shown(os.path.join(folder, name)))
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
        "Records every cell, message, call, event, audit event and module's result, and prints what it has recorded.",
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
import torch
def note_module(module, *values):
    if len(called) < 20_000:
        called.append((type(module).__name__, repr(values)[:200]))
torch.nn.modules.module.register_module_forward_hook(note_module)
torch.nn.modules.module.register_module_full_backward_hook(note_module)
sys.addaudithook(lambda event, args: seen.append(str(args)) if event in ("exec", "compile", "open") and len(seen) < 9999 else None)
""",
            later="""
import sys
sys.setprofile(None)
print(len(seen), [text for text in map(repr, seen + called) if 'canary-' in text or 'HIDDEN' in text or 'check(' in text])
print(In, [key for key in globals()])
""",
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
def answer(family, address):
    with socket.socket(family) as connection:
        connection.settimeout(1)
        connection.connect(address)
        return connection.recv(1000)
unix = [f"\0autograder-{PORT}", COURSE + "/canary.socket", *glob.glob("/run/**/*.sock*", recursive=True)]
for place in [(socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_INET6, ("::1", PORT)), *((socket.AF_UNIX, path) for path in unix)]:
    tried(lambda: answer(*place))
"""),
    ),
    Attack(
        "other-processes",
        "Reads, traces and signals the processes around it.",
        own_cell("""
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for process in [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    for file in ("fd", "root", "cwd", "environ", "maps", "mem", "exe"):
        path = f"/proc/{process}/{file}"
        tried(lambda: (path, os.listdir(path) if file in ("fd", "root", "cwd") else open(path, "rb").read(200)))
    print("ptrace", libc.ptrace(16, int(process), 0, 0), ctypes.get_errno())
for process in (1, os.getppid()):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        tried(lambda: os.kill(process, number))
"""),
    ),
    Attack(
        "deletes-submissions",
        "Deletes and overwrites the submissions of other students.",
        own_cell("""
import shutil
for place in (COURSE + "/submitted", "../../../b-good", "/proc/1/root" + COURSE + "/submitted"):
    tried(lambda: shutil.rmtree(place))
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
tried(lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)))
tried(lambda: os.symlink("/etc/shadow", "/tmp/home/link"))
for do, given in ((os.setuid, 0), (os.setgroups, [0]), (os.chroot, "/tmp"), (os.nice, -10)):
    tried(lambda: do(given))
print(subprocess.run("su -c id; sudo -n id; unshare -Ur id", shell=True, capture_output=True, text=True))
"""),
    ),
)
