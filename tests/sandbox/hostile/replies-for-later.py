"""Answers future requests from a thread, with guessed ids."""
# %%
import threading, time, inside, wire
def forge():
    for step in range(1, 400):
        reply = '{"dict": [["id", "%032x"], ["value", 0.5]]}' % step
        inside.CHANNEL[0].sendall(wire.frame(reply.encode()))
        time.sleep(0.005)
threading.Thread(target=forge, daemon=True).start()
