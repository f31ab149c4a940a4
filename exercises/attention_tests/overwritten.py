"""Find a name that an answer uses and that a cell of the notebook has overwritten."""

import builtins
import dis
from types import CodeType

TITLES = {"numpy": "NumPy", "torch": "PyTorch"}
KINDS = {"ndarray": "an array", "Tensor": "a tensor", "int": "a number", "float": "a number", "str": "a string"}
AGAIN = "Rename that variable, and run the notebook again from the top."


def overwritten(written, notebook, libraries, answers):
    """Say which name in the answers was overwritten after the set-up cell ran; "" if none was.

    Args:
        written: The arguments of a visible test: functions and classes, or the values that replaced them.
        notebook: The names of the notebook.
        libraries: The modules that the set-up cell imported for the answers, by name.
        answers: The names of all answers in the notebook, and of the code that the notebook gives.
    """
    replaced = [name for name in answers if any(notebook.get(name) is item for item in written if not callable(item))]
    for name in dict.fromkeys([*replaced, *names_used(written, notebook)]):
        value = notebook.get(name, libraries)  # for a deleted name, Python's own message is enough
        if value is libraries:
            continue
        if name in libraries and value is not libraries[name]:
            title = getattr(libraries[name], "__name__", name)
            return f"`{name}` is no longer {TITLES.get(title, title)}: one of your cells assigns it. {AGAIN}"
        if name in vars(builtins) and name[0] != "_" and value is not getattr(builtins, name):
            return f"`{name}` is no longer Python's own: one of your cells assigns it. {AGAIN}"
        if name in answers and not callable(value):
            kind = KINDS.get(type(value).__name__, f"a {type(value).__name__}")
            return f"`{name}` is now {kind}, not your function: another cell assigned it. {AGAIN}"
    return ""


def names_used(written, notebook):
    """Return the names of the notebook that functions and classes use, directly or through other code."""
    used, waiting, visited = [], list(written), set()
    while waiting:
        item = waiting.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        if isinstance(item, CodeType):
            mine = [each.argval for each in dis.get_instructions(item) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
            used += mine
            waiting += [part for part in item.co_consts if isinstance(part, CodeType)]
            waiting += [notebook[name] for name in mine if getattr(notebook.get(name), "__module__", "") == "__main__"]
        elif isinstance(item, (tuple, dict)):  # functions that a student's own test judges
            waiting += item.values() if isinstance(item, dict) else item
        elif isinstance(item, type):
            waiting += [getattr(part, "__func__", part) for part in vars(item).values()]
        elif hasattr(item, "__code__"):
            waiting.append(item.__code__)
    return used
