"""Renames processes many times: to a name that is not text, and to one that imitates the process of another submission."""
# %%
import ctypes, os, time
prctl = ctypes.CDLL(None).prctl
if os.fork() == 0:
    for number in range(2, 400):  # in the line by which Linux tells of a process's numbers
        prctl(15, b"a\nNSpid:\t9 %d\n" % number, 0, 0, 0)
        time.sleep(0.01)
    os._exit(0)
for _ in range(40):
    prctl(15, b"\xff\xfe", 0, 0, 0)
    time.sleep(0.06)
