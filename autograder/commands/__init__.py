"""The commands, one function each: what they take, what they call, what they say. `autograder.cli` lists them.

A command imports what it needs when it runs, so that `autograder --help` waits for nothing.
"""
