"""What runs inside the sandbox, next to the student's code; the grader uses `wire`, `unwritten` and `out_of_reach` too.

wire.py            plain values to bytes and back; used on both sides
inside.py          limits, and the agent that runs cells and answers calls
out_of_reach.py    keeps the agent out of a student's reach, and notices code that reaches for it
stand_in.py        what a student's function gets for a function of the grader's
left_behind.py     what cells leave behind in Python and the libraries, and how it is put back
memory.py          a call that leaves nothing behind in the notebook
notebook_shell.py  IPython's shell, which keeps what a cell shows
unwritten.py       tells an answer that is not written from every other error; used on both sides
refused.py         the system calls that are refused
warm.py            the parent of which kernels are forked, in a sandbox of its own
"""
