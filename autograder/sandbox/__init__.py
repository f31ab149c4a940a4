"""The boundary between the grader and what a student wrote.

A student's cells run in IPython inside a bubblewrap sandbox: a kernel. Tests run in the grader's own process. A test asks
an answer: a function of `exercises/attention_tests` runs next to it, in a process that is forked from the kernel. Only plain
values cross, over one socket. `host` is the grader's end; `guest` runs in the sandbox, next to the student's code.

An answer holds no kernel: it gets `grade.session.Session.call`, which starts a fresh kernel after one was lost.

The grader trusts the Linux kernel, bubblewrap, Python with its packages as installed, and the files of this repository.
It trusts nothing that comes out of the sandbox: every message may be forged, malformed, late, endless or missing. At
worst, a message says what a student's function might have returned.
"""
