"""The grader's end: it starts a sandbox, speaks to the kernel in it, and asks a student's answer.

answer.py          a student's answer as a test sees it
bubblewrap.py      the command that starts a sandbox, and what it promises
candidate.py       answers a student's test that calls its candidate
control_group.py   the control group that counts what a sandbox uses
kernel.py          the grader's end of the wire: run a cell, call a function, give up in time
limits.py          what one submission may use: time, memory, processes
outputs.py         converts what a cell showed into nbformat's outputs
"""
