"""Are changes of Python or a library by a cell undone before an answer runs or is called, and is the cell named?"""

from collections.abc import Callable

import numpy as np
import pytest
from in_kernel import function_of

from autograder.recognition import only_defines
from autograder.sandbox.host.kernel import Kernel

ANSWER = """
import numpy as np, torch
from torch import nn
class Twice(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)
layer = Twice(3, 3).double()
def answer(x):
    print("seen")
    y = torch.from_numpy(np.asarray(x)).requires_grad_()
    z = (torch.softmax(y, -1) @ y.T).sum() + sum([1.0]) + 0 * layer(y).mean()
    z.backward()
    return y.grad.numpy()
"""
CHANGES = {  # the code of a cell, and the name in the message about it
    "import sys\nsys.stdout = None": "sys.stdout",
    "import sys\nclass Raises:\n    def write(self, text):\n        raise OSError\nsys.stdout = Raises()": "sys.stdout",
    "import sys\nsys.stderr = None": "sys.stderr",
    "import sys\nsys.setrecursionlimit(80)": "sys.setrecursionlimit",
    "import builtins\nbuiltins.sum = builtins.print = None": "builtins.print",
    "import builtins\nbuiltins.all = builtins.vars = builtins.sum = lambda *_: True": "builtins.all",
    "import builtins\nbuiltins.__build_class__ = None": "builtins.__build_class__",
    "import numpy as np\nnp.asarray = None": "numpy.asarray",
    "import numpy as np\ndel np.asarray": "numpy.asarray",
    "import torch\ntorch.softmax = lambda x, dim: x": "torch.softmax",
    "import torch\ntorch.Tensor.__matmul__ = lambda x, y: x": "Tensor.__matmul__",
    "from torch import nn\nnn.Linear.forward = None": "Linear.forward",
    "import torch\nh = torch.autograd.graph.saved_tensors_hooks(lambda x: 1 / 0, lambda x: x)\nh.__enter__()": "",
    "import torch\nlevel = torch._C._functorch._vmap_increment_nesting(3, 'error')": "",
    "import torch\ntorch.set_default_device('meta')": "",
    "from torch.nn.modules import module\nh = module.register_module_forward_hook(lambda *_: 1 / 0)": "",
    "import sys\ndef trace(*_):\n    raise OSError\nsys.settrace(trace)": "",
    "import sys\nclass Empty(list):\n    def __call__(self, frame, *_):\n        if frame.f_code.co_name == 'answer':\n"
    "            raise OSError\nsys.settrace(Empty())": "",
    "from torch.utils._python_dispatch import TorchDispatchMode\nclass Mode(TorchDispatchMode):\n"
    "    def __torch_dispatch__(self, *_):\n        return 1 / 0\nmode = Mode()\nmode.__enter__()": "",
}


@pytest.mark.parametrize("cell", CHANGES)
def test_what_a_cell_changes_is_undone(kernel: Kernel, cell: str) -> None:
    """Does an answer give the same result after the harmful cell as without it, also if its own cell runs later?"""
    alone = function_of(kernel, "answer", ANSWER)(np.eye(3))
    kernel.run_cell(cell)
    assert [o.evalue for o in kernel.run_cell(ANSWER, answers=True, acts=False) if o.output_type == "error"] == []
    after = function_of(kernel, "answer")
    kernel.run_cell(cell)
    kernel.run_cell("def other():\n    return 1", acts=False)  # a cell that only defines does not hide the change
    assert np.array_equal(after(np.eye(3)), alone)


@pytest.mark.parametrize("cell", [cell for cell, name in CHANGES.items() if name])
def test_cell_that_changes_a_library_is_told_so(kernel: Kernel, cell: str) -> None:
    """Does a student read below the cell which function it changed, and nothing below other cells?"""
    said = "".join(output.get("text", "") for output in kernel.run_cell(cell))
    assert CHANGES[cell] in said
    assert said.endswith("The change was undone before your answers were judged.]")
    kernel.run_cell("pass", answers=True)
    assert kernel.run_cell("print(1)\nimport torch\ntorch.Tensor.shown = lambda x: 1")[-1].text == "1\n"


def test_what_a_cell_adds_stays(start: Callable[..., Kernel]) -> None:
    """Does a method that a student adds to PyTorch's tensors, without changing others, stay for the answers?"""
    kernel = start()
    kernel.run_cell("import torch\ntorch.Tensor.twice = lambda x: 2 * x")
    twice = function_of(kernel, "twice", "def twice(x):\n    return torch.ones(2).twice()")
    assert twice(0).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("cell", "alone"),
    [
        ("import torch\n\n\ndef twice(x):\n    return 2 * x\n\n\nclass Net(torch.nn.Module):\n    pass", True),
        ("from numpy import eye", True),
        ("import torch\ntorch.manual_seed(0)", False),
        ("import builtins\nbuiltins.sum = max", False),
        ("def twice(x):\n    return 2 * x\n\n\n%run other.py", False),
        ("%%time\ndef twice(x):\n    return 2 * x", False),
        ("def twice(x:", False),
    ],
)
def test_cells_that_only_define_are_known(cell: str, alone: bool) -> None:
    """Is each cell that may change Python or a library told from one that only defines?"""
    assert only_defines(cell) is alone
