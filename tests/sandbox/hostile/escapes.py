"""Tries to make namespaces, mounts and devices, and to gain privileges."""
# %%
import ctypes, os, stat, subprocess
libc = ctypes.CDLL(None, use_errno=True)
for flags in (0x10000000, 0x10020000, 0x00020000, 0x40000000):
    print("unshare", libc.unshare(flags), ctypes.get_errno())
for target in (b"/tmp/home", b"/proc", b"/"):
    print("mount", libc.mount(b"none", target, b"tmpfs", 0, None), ctypes.get_errno())
tried(lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)))
tried(lambda: os.symlink("/etc/shadow", "/tmp/home/link"))
for do, given in ((os.setuid, 0), (os.setgroups, [0]), (os.chroot, "/tmp"), (os.nice, -10)):
    tried(lambda: do(given))
print(subprocess.run("su -c id; sudo -n id; unshare -Ur id", shell=True, capture_output=True, text=True))
