"""Crashes Python by deep nesting in softmax, kills its process in self_attention, and ends it in attention_backward."""
# %% in softmax
import sys
sys.setrecursionlimit(10**9)
one, other = [], []
for _ in range(10**6):
    one, other = [one], [other]
one == other
# %% in self_attention
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
# %% in attention_backward
import os
os._exit(0)
