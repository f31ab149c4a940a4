"""The code that runs in the sandbox, next to the student's. The grader uses `wire`, `unwritten` and `out_of_reach` too.

wire.py            plain values to bytes and back; used on both sides
inside.py          limits, and the agent that runs cells and answers calls
out_of_reach.py    keeps the agent out of a student's reach, and notices code that reaches for it
candidate.py       what a student's test gets instead of a candidate, which stays with the grader
recorder.py        records what the student's functions compute; the grader and notebooks use it too
left_behind.py     restores what cells have changed in Python and the libraries
memory.py          restores what the notebook's names held before a call
notebook_shell.py  IPython's shell, which keeps what a cell shows
unwritten.py       recognises the error of an answer that is not written; used on both sides
refused.py         the system calls that are refused
replacement.py     what a student's function gets instead of another answer
warm.py            the process that forks kernels, in its own sandbox
"""
