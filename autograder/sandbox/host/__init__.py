"""The grader's end: it starts a sandbox, speaks to the kernel in it, and shows a student's function to a test.

bubblewrap.py      the command that starts a sandbox, and what it promises
control_group.py   the control group that counts what a sandbox uses
kernel.py          the grader's end of the wire: run a cell, call a function, give up in time
limits.py          what one submission may use: time, memory, processes
outputs.py         converts what a cell showed into nbformat's outputs
proxy.py           a student's function as a test sees it
questions.py       answers a student's function that asks for an earlier exercise
"""
