"""The commands, one function each, with their options, calls and output. `autograder.cli` lists them.

A command imports what it needs when it runs, so that `autograder --help` waits for nothing.
"""
