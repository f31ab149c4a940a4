"""Ask a kernel: run a cell and read its output, or define a function and call it."""

import json
import textwrap
from typing import Any

import numpy as np
import torch

from autograder.sandbox.host.answer import Answer
from autograder.sandbox.host.kernel import Kernel

AGENT = ("inside", "wire")  # modules of the agent
# After this code, `import` finds them.
REACH = f"""
import gc, sys, types
gc.unfreeze()
for item in gc.get_objects():
    if type(item) is types.ModuleType and item.__name__ in {AGENT}:
        sys.modules[item.__name__] = item
"""


def reaching(source: str) -> str:
    """Return a cell that can import the agent's modules."""
    return REACH + textwrap.dedent(source)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, with the same types at every level. NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and same(one.numpy(), other.numpy())
    return one == other or (one != one and other != other)


def told(kernel: Kernel, source: str) -> Any:
    """Run a cell, and return the value of the last JSON text that it printed."""
    outputs = kernel.run_cell("import json\n" + textwrap.dedent(source))
    errors = [output.evalue for output in outputs if output.output_type == "error"]
    assert errors == []
    return json.loads("".join(output.get("text", "") for output in outputs).splitlines()[-1])


def attempt(kernel: Kernel, statement: str) -> str:
    """Run a statement; return the name of its error, or ""."""
    return told(
        kernel,
        f"""
        try:
            {statement}
            print(json.dumps(""))
        except Exception as error:
            print(json.dumps(type(error).__name__))
        """,
    )


def function_of(kernel: Kernel, name: str, source: str = "", seconds: float = 20.0) -> Answer:
    """Define a function in the kernel, and return the object that asks it."""
    outputs = kernel.run_cell(textwrap.dedent(source))
    assert [output for output in outputs if output.output_type == "error"] == []
    return Answer(name, lambda request, candidate: kernel.call(request, candidate, seconds))
