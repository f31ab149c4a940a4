"""The boundary between the grader and what a student wrote.

A student's cells run in IPython inside a bubblewrap sandbox: a kernel. Tests run in the grader's own process and reach
the student's functions through proxies. Only plain values cross, over one socket.

    wire.py            plain values to bytes and back; used on both sides
    inside.py          what runs in the sandbox: limits, and the agent that runs cells and answers calls
    out_of_reach.py    what keeps the agent out of a student's reach there, and notices code that reaches for it
    stand_in.py        what a student's function gets there for a function of the grader's
    left_behind.py     what cells leave behind in Python and the libraries, and how it is put back there
    notebook_shell.py  IPython's shell there, which keeps what a cell shows
    unwritten.py       tells an answer that is not written from every other error; used on both sides
    refused.py         the system calls that are refused there
    warm.py            the parent of which kernels are forked, in a sandbox of its own
    sandbox.py         the bubblewrap command and what it promises
    control_group.py   the control group that counts what a sandbox uses
    kernel.py          the grader's end of the wire: run a cell, call a function, give up in time
    proxy.py           a student's function as it looks to a test
    likeness.py        the interface of such a function: all that checks may use of it

A proxy knows no kernel: it is given `grading.execute._Session.call`, which starts a fresh one where one was lost.

The grader trusts the Linux kernel, bubblewrap, Python with its packages as installed, and the files of this repository.
It trusts nothing that comes out of the sandbox: every message may be forged, malformed, late, endless or missing, and at
worst says what a student's function might have returned.
"""
