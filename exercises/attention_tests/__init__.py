"""The visible tests of the exercises: what they ask an answer, how results are compared, and what they say.

The notebooks import this package, and the grader too. It needs only NumPy, PyTorch and Matplotlib, and holds no
answer and no hidden input. For each notebook, a JSON file has the inputs of the visible tests, and the right results.
"""

VERSION = "1.0"  # the set-up cells name it: raise it when you publish another package
