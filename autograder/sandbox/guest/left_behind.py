"""Put back what a cell has changed in Python and the libraries.

This code runs in the sandbox. It has its own file, because Python lists all classes, and a class leads to every name in
its file.
"""

import builtins
import contextlib
import importlib
import locale
import os
import sys
import warnings
from operator import attrgetter, is_
from sys import getprofile, gettrace, setprofile, settrace

__builtins__ = dict(vars(builtins))  # a copy for this file: a cell may replace built-in functions

WATCHED = ("builtins", "math", "random", "numpy", "numpy.linalg", "torch", "torch.nn", "torch.nn.functional")
WATCHED += ("torch.nn.init", "torch.linalg")
CLASSES = ("Tensor", "nn.Module", "nn.Linear", "autograd.Function")  # classes of PyTorch


class State:
    """The state before any cell ran. It covers everything that a cell may change and that must not affect other answers.

    It is made once for all kernels that are forked from a process, because looking at all functions is slow.
    """

    def __init__(self) -> None:
        self.filters, self.depth = list(warnings.filters), sys.getrecursionlimit()
        self.language = locale.setlocale(locale.LC_ALL)
        self.numpy = sys.modules["numpy"].geterr()
        # What cells have changed since the last put_back; None if that is not known yet, because looking for it is slow.
        self.known_changes: list[tuple[object, str, object]] | None = []
        self.functions: dict[str, tuple[object, dict[str, object]]] = {}  # functions of each owner, by the owner's name
        self.watch("")

    def begin(self) -> None:
        """Note the folder and the outputs of this kernel."""
        self.folder, self.outputs = os.getcwd(), (sys.stdout, sys.stderr)

    def watch(self, source: str) -> None:
        """Note the functions of newly imported libraries; those of PyTorch only before a cell that names PyTorch."""
        if_it_is_there = contextlib.suppress(Exception)  # a cell may have replaced a library
        if "torch" in source:
            with if_it_is_there:
                importlib.import_module("torch")
        owners = {name: sys.modules[name] for name in WATCHED if name in sys.modules}
        with if_it_is_there:
            torch = sys.modules["torch"]
            owners |= {kind: attrgetter(kind)(torch) for kind in CLASSES}
        for name in owners.keys() - self.functions.keys():
            found = {each: value for each, value in vars(owners[name]).items() if callable(value)}
            self.functions[name] = owners[name], found

    def changed(self) -> list[tuple[object, str, object]]:
        """Return the replaced functions of Python and the libraries: owner, name, and original (None if there was none)."""
        found = [
            (owner, name, value)
            for owner, before in self.functions.values()
            if not all(map(is_, map(vars(owner).get, before), before.values()))  # this runs in C, six times as fast
            for name, value in before.items()
            if vars(owner).get(name) is not value
        ]
        for owner, before in self.functions.values():
            if isinstance(owner, type):  # a new name that hides a name of the base class
                above = [name for name in vars(owner).keys() - before.keys() if hasattr(owner.__base__, name)]
                found += [(owner, name, None) for name in above if callable(vars(owner)[name])]
        return found

    def changed_names(self) -> list[str]:
        """Return the names of changed functions and settings that `put_back` restores before an answer is called."""
        self.known_changes = self.changed()
        names = [f"{owner.__name__}.{name}" for owner, name, _ in self.known_changes]
        names += [
            f"sys.{name}"
            for name, own in zip(("stdout", "stderr"), self.outputs)
            if getattr(sys, name, None) is not own
        ]
        return names + ["sys.setrecursionlimit"] * (sys.getrecursionlimit() < self.depth)

    def put_back(self) -> None:
        """Put everything back as it was before any cell ran."""
        # Look first whether there is a tracer: settrace calls an audit hook, which is slower. Compare with None,
        # because a tracer may count as false, as an empty list does.
        if gettrace() is not None or getprofile() is not None:
            settrace(None)
            setprofile(None)
        sys.setrecursionlimit(self.depth)
        sys.stdout, sys.stderr = self.outputs
        for owner, name, value in self.changed() if self.known_changes is None else self.known_changes:
            delattr(owner, name) if value is None else setattr(owner, name, value)
        self.known_changes, if_it_is_there = [], contextlib.suppress(Exception)
        warnings.filters[:] = self.filters
        with if_it_is_there:
            os.chdir(self.folder)
        with if_it_is_there:
            locale.setlocale(locale.LC_ALL, self.language)
        with if_it_is_there:
            sys.modules["numpy"].seterr(**self.numpy)
        with if_it_is_there:
            torch = sys.modules["torch"]
            torch.set_default_dtype(torch.float32)
            while torch._C._len_torch_function_stack():  # modes that were entered and not left
                torch._C._pop_torch_function_stack()
            while torch._C._len_torch_dispatch_stack():
                torch._C._pop_torch_dispatch_stack(None)
            torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(0)  # layers of vmap, grad, and others
            torch.set_default_device(None)
            if torch.is_inference_mode_enabled():
                self.ended = torch.inference_mode(False)  # kept, because it acts only while it exists
                self.ended.__enter__()
            torch.set_grad_enabled(True)
            torch.set_autocast_enabled("cpu", False)
            torch._C._autograd._saved_tensors_hooks_enable()
            while torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
                torch._C._autograd._pop_saved_tensors_default_hooks()
            for name, hooks in vars(torch.nn.modules.module).items():
                if name.startswith("_global_") and isinstance(hooks, dict):  # hooks that run in every module
                    hooks.clear()
            torch.set_num_threads(1) if torch.get_num_threads() != 1 else None
            # Ask first: setting it imports PyTorch's compiler, which takes 1 s in each kernel, 4 s if nothing is compiled yet.
            torch.use_deterministic_algorithms(False) if torch.are_deterministic_algorithms_enabled() else None
            torch.autograd.set_detect_anomaly(False)
