"""The boundary between the grader and what a student wrote.

A student's cells run in IPython inside a bubblewrap sandbox: a kernel. Tests run in the grader's own process and reach
the student's functions through proxies. Only plain values cross, over one socket.

    host/          the grader's end: starts a sandbox, speaks to the kernel in it, shows a student's function to a test
    guest/         what runs in the sandbox, next to the student's code
    likeness.py    the interface of a proxy: what a test may use of a student's function

A proxy holds no kernel: it gets `grade.session.Session.call`, which starts a fresh kernel after one was lost.

The grader trusts the Linux kernel, bubblewrap, Python with its packages as installed, and the files of this repository.
It trusts nothing that comes out of the sandbox: every message may be forged, malformed, late, endless or missing. At
worst, a message says what a student's function might have returned.
"""
