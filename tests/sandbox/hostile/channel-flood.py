"""Writes to the socket: messages of 32 MB, and nested lists and empty messages, for a second each."""
# %%
import inside, wire
for _ in range(100):
    inside.CHANNEL[0].sendall(wire.frame(b'x' * 2**25))
# %%
import inside, time, wire
nest = b"[" * 900 + b"]" * 900 + b","
message = wire.frame(b"[" + nest * (wire.MAX_TEXT // 1801 - 1) + b"1]")
end = time.time() + 1
while time.time() < end:
    inside.CHANNEL[0].sendall(message)
# %%
import inside, time
end = time.time() + 1
while time.time() < end:
    inside.CHANNEL[0].sendall(bytes(8000))
