"""What runs inside the sandbox: limits, then a Jupyter kernel with an agent that answers the grader's requests.

The student's code may change any of this, as it runs in the same process. The grader does not rely on it: what comes out
is at worst what the student's function could have returned.
"""

import json
import os
import resource
import shutil
import sys
from pathlib import Path

import wire

MIME = "application/x-autograder"
MODULES: list = []  # that the student's functions returned; their numbers cross
GRAPHS: dict = {}  # for each call whose gradient may be asked for: its outputs, and what they depend on


def serve(request: str) -> None:
    """Carry out one request of the grader and publish the reply."""
    from IPython import get_ipython

    shell = get_ipython()
    request = wire.loads(request)
    reply = {"id": request["id"]}
    before = {name: shell.user_ns.get(name) for name in request["replaced"]}
    shell.user_ns.update({name: _ask_grader(shell, name) for name in before})
    try:
        reply |= {"call": _call, "describe": _describe, "backward": _backward}[request["do"]](request, shell.user_ns)
        text = wire.dumps(reply, _number_of)
    except BaseException as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        text = wire.dumps({"id": request["id"], "error": names, "text": str(error)[:2000], "line": _line_of(error)})
    finally:
        shell.user_ns.update({name: own for name, own in before.items() if own is not None})
        for name in (name for name, own in before.items() if own is None):
            shell.user_ns.pop(name, None)
    shell.display_pub.publish({MIME: text})


def _call(request: dict, namespace: dict) -> dict:
    """Call a function of the student's by name, or a module by its handle, with plain values."""
    target = request["target"]
    for number, state, training in request["modules"]:
        _synchronise(_resolve(wire.Handle(number)), state, training)
    if isinstance(target, wire.Handle):
        function = module = _resolve(target)
    elif target in namespace:
        function, module = namespace[target], None
    else:
        raise NameError(f"{target} is not defined; did its cell run without an error?")
    sent, keywords = request["arguments"], request["keywords"]
    leaves = [sent[index].requires_grad_() for index in request["differentiable"]]
    value = function(*_resolved(sent), **_resolved(keywords))
    reply = {"value": value, "arguments": sent}  # as the call left them
    if module is not None:
        reply["buffers"] = dict(MODULES[target.number].named_buffers())
        leaves += [parameter for _, parameter in _parameters(MODULES[target.number])]
    outputs = [item for item in (value if isinstance(value, (tuple, list)) else [value]) if hasattr(item, "grad_fn")]
    if request["gradient"] and any(output.requires_grad for output in outputs):
        GRAPHS[request["id"]] = (outputs, leaves)
        reply["graph"] = [output.requires_grad for output in outputs]
    return reply


def _backward(request: dict, namespace: dict) -> dict:
    """Carry gradients of a call's outputs back to its inputs and to the module's parameters."""
    import torch

    outputs, leaves = GRAPHS[request["graph"]]
    pairs = [(o, g) for o, g in zip(outputs, request["gradients"]) if o.requires_grad and g is not None]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    with_grad = torch.autograd.grad(
        [output for output, _ in pairs],
        wanted,
        [gradient for _, gradient in pairs],
        retain_graph=True,
        allow_unused=True,
    )
    found = iter(with_grad)
    return {"gradients": [next(found) if leaf.requires_grad else None for leaf in leaves]}


def _describe(request: dict, namespace: dict) -> dict:
    """Say what a module is made of: the paths and types of its parts, its parameters, its buffers."""
    module = _resolve(request["target"])
    first: dict[int, str] = {}
    shared = {name: first.setdefault(id(p), name) for name, p in module.named_parameters(remove_duplicate=False)}
    return {
        "modules": {path: type(part).__name__ for path, part in module.named_modules(remove_duplicate=False)},
        "training": {path: part.training for path, part in module.named_modules(remove_duplicate=False)},
        "shared": shared,  # name -> the first name of the same parameter
        "parameters": dict(module.named_parameters()),
        "trainable": {name: parameter.requires_grad for name, parameter in module.named_parameters()},
        "buffers": dict(module.named_buffers()),
    }


def _parameters(module) -> list:
    return sorted(module.named_parameters())


def _synchronise(module, state: dict, training: dict) -> None:
    """Give a module the values that its likeness on the grader's side has."""
    import torch

    values = dict(module.named_parameters()) | dict(module.named_buffers())
    with torch.no_grad():
        for name, value in state.items():
            values[name].copy_(value)
    for path, flag in training.items():
        module.get_submodule(path).training = flag


def _number_of(module) -> int:
    for number, known in enumerate(MODULES):
        if known is module:
            return number
    MODULES.append(module)
    return len(MODULES) - 1


def _resolve(handle: wire.Handle):
    if not 0 <= handle.number < len(MODULES):
        raise RuntimeError("this module was lost with its kernel")
    return MODULES[handle.number].get_submodule(handle.path)


def _resolved(value):
    if isinstance(value, wire.Handle):
        return _resolve(value)
    if type(value) in (list, tuple):
        return type(value)(_resolved(item) for item in value)
    if type(value) is dict:
        return {key: _resolved(item) for key, item in value.items()}
    return value


def _ask_grader(shell, name: str):
    """Return a stand-in for an earlier exercise whose correct answer stays with the grader: values go there and back."""

    def correct(*arguments, **keywords):
        answer = shell.kernel.raw_input(wire.dumps({"name": name, "arguments": arguments, "keywords": keywords}))
        answer = wire.loads(answer)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["value"]

    correct.__name__ = name
    return correct


def _line_of(error: BaseException) -> str:
    """Return the student's line at which an error arose."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "ipykernel" in code.co_filename or code.co_filename.startswith("<ipython-input"):
            found = f"in {code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found


def main() -> None:
    """Set the limits, bind the kernel's sockets, say so by a file, and serve."""
    connection_file, ready, limits = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    home = Path(os.environ["HOME"])
    for font_list in Path("/grader").glob("fontlist-*.json"):  # else Matplotlib looks for fonts for seconds
        (home / ".cache/matplotlib").mkdir(parents=True, exist_ok=True)
        shutil.copy(font_list, home / ".cache/matplotlib")
    os.chdir(home)

    from ipykernel.kernelapp import IPKernelApp

    app = IPKernelApp.instance()
    app.initialize(["-f", connection_file, "--HistoryManager.enabled=False", "--no-secure", "--quiet"])
    import inside  # noqa: F401  as a module of its own: IPython makes the notebook __main__

    Path(ready).touch()
    app.start()


if __name__ == "__main__":
    main()
