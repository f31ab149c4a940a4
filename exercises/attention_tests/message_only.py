"""An error of which Jupyter shows the message and no line of the program."""

import sys


class MessageOnly(AssertionError):
    """An error that IPython shows in Jupyter as its name and its message."""

    @property
    def _render_traceback_(self):
        """In Jupyter, IPython shows what this function returns: the message, without the lines of the test.

        Without Jupyter's kernel there is no such function, and the usual traceback names the cell's line.
        """
        if not hasattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "kernel"):
            raise AttributeError("_render_traceback_")
        return lambda: [f"{type(self).__name__}: {self}"]
