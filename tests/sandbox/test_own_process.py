"""Does each test run in a process of its own, of which nothing is left when it ends?"""

from collections.abc import Callable

import psutil
import pytest
from in_kernel import function_of, told

from autograder.sandbox.host.kernel import Kernel, KernelLost

COUNTS = """
import builtins, os
def count():
    builtins.turns = getattr(builtins, "turns", 0) + 1
    return builtins.turns
"""
SLEEPS = "import subprocess\ndef sleep():\n    subprocess.Popen(['setsid', 'sleep', '{0}'])\n    return 1"


def sleeping(kernel: Kernel, seconds: str) -> int:
    """Return how many processes of the sandbox sleep for so many seconds."""
    below = kernel.sandbox.process.children(recursive=True)
    return sum(process.cmdline()[-1:] == [seconds] for process in below if process.status() != psutil.STATUS_ZOMBIE)


def test_test_finds_nothing_of_another_test(kernel: Kernel) -> None:
    """Does a function's change of Python last for the calls of one test, and reach no other test and no cell?"""
    count = function_of(kernel, "count", COUNTS)
    for _ in range(2):
        assert [count(), count()] == [1, 2]
        kernel.end_test()
    count()
    assert told(kernel, "print(json.dumps(hasattr(builtins, 'turns')))") is False


def test_visible_test_leaves_nothing_to_cells(kernel: Kernel) -> None:
    """Does a visible test show what it prints, and change nothing for later cells?"""
    (output,) = kernel.run_cell("made_by_a_test = 3\nprint(made_by_a_test)", in_test=True)
    assert output.text == "3\n"
    assert told(kernel, "print(json.dumps('made_by_a_test' in globals()))") is False


def test_processes_of_a_test_end_with_it(start: Callable[..., Kernel]) -> None:
    """Does a process that a test starts end with the test, while those that a cell has started stay?"""
    kernel = start()
    sleep = function_of(kernel, "sleep", SLEEPS.format("3601"))
    kernel.run_cell("sleep()\nimport time\ntime.sleep(0.5)")
    function_of(kernel, "sleep", SLEEPS.format("3602"))
    assert sleep() == 1
    kernel.end_test()
    assert (sleeping(kernel, "3601"), sleeping(kernel, "3602")) == (1, 0)
    assert sleep() == 1


def test_cell_after_which_no_test_can_begin_is_lost(start: Callable[..., Kernel]) -> None:
    """Is a cell lost that leaves no room for the process of a test, and so not replayed?"""
    forks = "import os, time\nwhile True:\n    os.fork() or os._exit(time.sleep(60) or 0)"
    with pytest.raises(KernelLost):
        start().run_cell(forks)


def test_shared_memory_counts_once(start: Callable[..., Kernel]) -> None:
    """Without a control group, do a test and a cell's processes, which share the memory of the cells, not count it again?"""
    kernel = start(memory_bytes=2 * 2**30)
    kernel.sandbox.group = None
    large = function_of(kernel, "large", "data = bytearray(b'x') * (900 * 2**20)\ndef large():\n    return len(data)")
    assert large() == 900 * 2**20
    kernel.raise_if_lost()
    forks = "import os, time\nfor _ in range(4):\n    os.fork() or os._exit(time.sleep(1) or 0)\ntime.sleep(1)"
    assert kernel.run_cell(forks) == []
