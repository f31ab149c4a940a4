"""Closes the socket to the grader at once and during a cell, shuts it down, replaces it, announces 2⁶² bytes, and reads requests in a second process."""
# %%
import inside
inside.CHANNEL[0].close()
# %%
import inside, threading, time
threading.Timer(0.5, lambda: inside.CHANNEL[0].close()).start()
time.sleep(1.5)
# %%
import inside, socket
inside.CHANNEL[0].shutdown(socket.SHUT_RDWR)
# %%
import inside, socket
kept = inside.CHANNEL[0], *socket.socketpair()
inside.CHANNEL[0] = kept[1]
# %%
import inside
inside.CHANNEL[0].sendall((2**62).to_bytes(8, 'big'))
# %%
import inside, os
if os.fork() == 0:
    while inside.CHANNEL[0].recv(100):
        pass
    os._exit(0)
