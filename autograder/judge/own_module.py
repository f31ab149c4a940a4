"""Keep the tests of a notebook apart from the names of its student: the only helper that a set-up cell shows outside them."""


def own_module(name, source):
    """Run a source as a module of its own: the notebook sees none of its names, and no name of the notebook reaches it.

    What follows the line "# Only when `more` is called:" runs when the module calls `more`.
    """
    import builtins
    import linecache
    import types

    module, file = types.ModuleType(name), f"<{name}>"
    module.__builtins__ = builtins.dict(builtins.vars(builtins))  # a copy: a cell may put others instead of Python's
    linecache.cache[file] = (builtins.len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
    first, line, rest = source.partition("# Only when `more` is called:")

    def run(part):
        builtins.exec(builtins.compile(part, file, "exec"), builtins.vars(module))

    module.more = lambda: run("\n" * first.count("\n") + line + rest)
    run(first)
    return module
