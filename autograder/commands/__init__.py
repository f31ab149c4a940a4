"""The commands. Each is one function, with its options and its output. `autograder.cli` lists them.

A command imports what it needs when it runs, so that `autograder --help` is fast.
"""
