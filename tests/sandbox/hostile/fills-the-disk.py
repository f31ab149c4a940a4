"""Fills every folder and open file to which it can write, and nests two thousand folders."""
# %%
import os
def nest(top):
    os.chdir(top)
    for name in ("-rf", "\n", "\u202e", "x" * 255, *["d"] * 2000):
        os.mkdir(name)
        os.chdir(name if name == "d" else ".")
for top in ("/tmp", "/dev/shm"):
    tried(lambda: nest(top))
os.chdir("/tmp/home")
# %%
import os
for top in ("/tmp", "/dev/shm", "/dev", "/", "/var/tmp", COURSE):
    tried(lambda: [open(f"{top}/fill{number}", "wb").write(bytes(2**25)) for number in range(40)])
for number in os.listdir("/proc/self/fd"):
    tried(lambda: os.posix_fallocate(int(number), 0, 2**30))
# %% at the end
import glob, os
for path in glob.glob('/tmp/fill*') + glob.glob('/dev/shm/fill*'):
    os.remove(path)
