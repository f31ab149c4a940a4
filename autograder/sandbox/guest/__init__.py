"""The code that runs in the sandbox, next to the student's. The grader uses `wire` too.

wire.py            plain values to bytes and back; used on both sides
inside.py          limits, and the agent that runs cells and answers the questions of tests
given.py           what a student's function gets instead of a candidate or another answer
notebook_shell.py  IPython's shell, which keeps what a cell shows
refused.py         the system calls that are refused
warm.py            the process that forks kernels, in its own sandbox
"""
