"""Leaves processes in new sessions that ignore signals, and one that locks the gradebook."""
# %%
import subprocess, sys
deaf = "import os, signal, time\n[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\nos.setsid() if os.fork() == 0 else None\ntime.sleep(600)"
for _ in range(3):
    subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True, close_fds=True)
hold = "import sqlite3, time\nsqlite3.connect(%r).execute('BEGIN EXCLUSIVE')\ntime.sleep(600)" % (COURSE + "/gradebook.db")
subprocess.Popen([sys.executable, "-c", hold], start_new_session=True)
