"""Keep the tests of a notebook apart from the student's names. A set-up cell shows only this helper outside the tests."""


def own_module(name, source):
    """Run a source as a separate module: the notebook sees none of its names, and no name of the notebook reaches it.

    The code after the line "# Only when `more` is called:" runs when the module calls `more`.
    """
    import builtins
    import linecache
    import types

    module, file = types.ModuleType(name), f"<{name}>"
    module.__builtins__ = builtins.dict(builtins.vars(builtins))  # a copy, because a cell may replace Python's own
    linecache.cache[file] = (builtins.len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
    first, line, rest = source.partition("# Only when `more` is called:")

    def run(part):
        builtins.exec(builtins.compile(part, file, "exec"), builtins.vars(module))

    module.more = lambda: run("\n" * first.count("\n") + line + rest)
    run(first)
    return module
