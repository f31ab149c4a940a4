"""What runs inside the sandbox: limits, then a Jupyter kernel with an agent that answers the grader's calls.

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


def serve(request: str) -> None:
    """Carry out one request of the grader and publish the reply."""
    from IPython import get_ipython

    shell = get_ipython()
    request = wire.loads(request)
    reply = {"id": request["id"]}
    before = {name: shell.user_ns[name] for name in request["replaced"] if name in shell.user_ns}
    shell.user_ns.update({name: _ask_grader(shell, name) for name in before})
    try:
        if request["name"] not in shell.user_ns:
            raise NameError(f"{request['name']} is not defined; did its cell run without an error?")
        arguments = request["arguments"]
        reply["value"] = shell.user_ns[request["name"]](*arguments, **request["keywords"])
        reply["arguments"] = arguments  # as the call left them
        text = wire.dumps(reply)
    except BaseException as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        text = wire.dumps({"id": request["id"], "error": names, "text": str(error)[:2000], "line": _line_of(error)})
    finally:
        shell.user_ns.update(before)
    shell.display_pub.publish({MIME: text})


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
