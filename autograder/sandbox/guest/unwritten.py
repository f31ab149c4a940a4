"""Tell the template's own `raise NotImplementedError()` from every other error.

It runs in the sandbox, in the grader, and in a notebook: `autograder build` copies all below this docstring into the set-up
cells. PyTorch raises NotImplementedError too, for a class without `forward`, and so does IPython where nobody can be asked.
"""

import dis


def unwritten(error):
    """Return the student's function that was called, and the one in it that is still the template; nothing if neither is.

    Both have the same name where the answer itself is not written, and two where it calls another that is not.
    """
    if hasattr(error, "unwritten"):  # it arose in the sandbox, and the agent there has looked
        return error.unwritten
    if type(error) is not NotImplementedError or error.args or error.__traceback__ is None:
        return []
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    code, notebook = frames[-1].f_code, frames[-1].f_globals
    arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    raises_only = code.co_names == ("NotImplementedError",) and not dis.findlabels(code.co_code)
    if not raises_only or code.co_nlocals != arguments or notebook.get("__name__") != "__main__":
        return []
    called = [frame.f_code.co_qualname.partition(".")[0] for frame in frames if frame.f_globals is notebook]
    called = [name for name in called if name != "<module>"]
    return [called[0], called[-1]]
