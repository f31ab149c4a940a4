"""Raises an error whose text is a script, one that raises another error when it is read, and one with everything that it sees."""
# %% in softmax
raise ValueError('<script>alert(1)</script>|x|`y`\n# [z](javascript:alert(1)) \x1b[31m half \ud800 and \udfff')
# %% in self_attention
class Odd(Exception):
    def __str__(self):
        raise self
    __repr__ = __str__
    __traceback__ = property(lambda self: 1 / 0)
    with_traceback = None
raise Odd
# %% in attention
import sys
frame, text = sys._getframe(), ""
while frame is not None:
    text += str({name: str(value)[:300] for name, value in frame.f_locals.items()})
    frame = frame.f_back
raise RuntimeError(text[:100_000])
