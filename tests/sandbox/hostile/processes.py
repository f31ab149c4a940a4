"""Forks until Linux refuses, each copy with a part of the memory; starts threads until Linux refuses; ends none of them."""
# %%
import os, time
part = bytearray(b"x") * 2**25
def fork():
    if os.fork() == 0:
        os.closerange(0, 256)
        time.sleep(3600)
tried(lambda: [fork() for _ in range(500)])
# %%
import threading, time
tried(lambda: [threading.Thread(target=time.sleep, args=(3600,), daemon=True).start() for _ in range(500)])
