"""Tries to kill every process, including the grader; closes all files; ends while the grader waits for a cell."""
# %%
import os, signal
for process in (-1, 1, os.getppid()):
    tried(lambda: os.kill(process, signal.SIGKILL))
os._exit(1)
# %%
import os
os.closerange(3, 256)
# %%
import os, threading, time
threading.Timer(0.3, os._exit, (1,)).start()
time.sleep(5)
