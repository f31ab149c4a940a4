"""Distinguish the template's own `raise NotImplementedError()` from every other error.

It runs in a notebook, in the grader and in the sandbox. PyTorch raises NotImplementedError too, for a class without
`forward`, and so does IPython if input is impossible.
"""

import dis
import os


def unwritten(error):
    """Return two names: the called function, and the unwritten function that raised the error; [] for any other error.

    The two names are equal if the called function itself is not written. They differ if it calls an unwritten function.
    """
    if hasattr(error, "unwritten"):  # the agent in the sandbox has looked already
        return error.unwritten
    if type(error) is not NotImplementedError or error.args or error.__traceback__ is None:
        return []
    codes, trace = [], error.__traceback__
    while trace is not None:
        codes.append(trace.tb_frame.f_code)
        trace = trace.tb_next
    code = codes[-1]
    arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    raises_only = code.co_names == ("NotImplementedError",) and not dis.findlabels(code.co_code)
    if not raises_only or code.co_nlocals != arguments or not is_of_a_cell(code):
        return []
    called = [each.co_qualname.partition(".")[0] for each in codes if is_of_a_cell(each)]
    called = [name for name in called if name != "<module>"]
    return [called[0], called[-1]]


def is_of_a_cell(code):
    """Whether code comes from a notebook's cell: from no file, and not from the set-up cell or this folder."""
    own = is_of_a_cell.__code__.co_filename
    return not os.path.exists(code.co_filename) and not code.co_filename.startswith(os.path.dirname(own) or own)
