"""Keep the tests of a notebook apart from the student's names.

A set-up cell defines `own_module`, and gives it the code of the tests as a string.
"""

from functools import cache
from types import CodeType


def own_module(name, source):
    """Run source code as a separate module. The notebook and the module do not see each other's names.

    The code after the line "# Only when `more` is called:" runs when the module calls `more`.
    """
    import builtins
    import linecache
    import types

    module, file = types.ModuleType(name), f"<{name}>"
    module.__builtins__ = builtins.dict(builtins.vars(builtins))  # a copy, because a cell may replace a built-in
    linecache.cache[file] = (builtins.len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
    first, line, rest = source.partition("# Only when `more` is called:")

    compiled = builtins.globals().get("_compiled_once", builtins.compile)  # only the grader has this name

    def run(part):
        builtins.exec(compiled(part, file, "exec"), builtins.vars(module))

    def more():
        run("\n" * first.count("\n") + line + rest)
        module.more = lambda: None

    module.more = more
    run(first)
    return module


@cache
def compiled(source: str, file: str, mode: str = "exec") -> CodeType:
    """Compile our code once for all notebooks that this process grades: compiling takes longer than running."""
    return compile(source, file, mode)
