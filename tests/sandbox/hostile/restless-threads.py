"""Leaves threads that never stop printing, displaying, computing, collecting garbage and drawing random numbers."""
# %%
import gc, threading, time, torch
from IPython.display import display
def flood():
    while True:
        print("x" * 10_000)
        display("y" * 10_000)
        time.sleep(0.002)
def work():
    while True:
        torch.rand(50, 50) @ torch.rand(50, 50)
        gc.collect()
for each in (flood, work, work, work):
    threading.Thread(target=each, daemon=True).start()
