"""Raises an error that raises another error when its text or traceback is read."""
# %% in softmax
class Odd(Exception):
    def __str__(self):
        raise self
    __repr__ = __str__
    __traceback__ = property(lambda self: 1 / 0)
    with_traceback = None
raise Odd
