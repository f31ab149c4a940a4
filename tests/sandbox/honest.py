"""Code that honest students run to debug, test, draw and measure; no person may be asked about it."""

HONEST = {
    "traceback": """
import traceback
def f():
    traceback.print_stack()
    return traceback.extract_stack()[-1].name
assert f() == "f"
try:
    1 / 0
except Exception as error:
    traceback.print_exc()
    traceback.format_exception(error)
""",
    "line of an error": """
import sys
try:
    1 / 0
except Exception:
    kind, error, trace = sys.exc_info()
    print(trace.tb_frame.f_code.co_filename, trace.tb_frame.f_lineno, trace.tb_lineno)
""",
    "logging": """
import logging
logging.basicConfig(format="%(funcName)s %(lineno)d %(message)s", force=True)
def helper():
    logging.warning("x", stack_info=True)
    try:
        1 / 0
    except Exception:
        logging.exception("y")
helper()
""",
    "warnings": """
import warnings
warnings.warn("x", stacklevel=2)
with warnings.catch_warnings(record=True):
    warnings.warn("y")
""",
    "own name": """
import sys
def helper():
    return sys._getframe().f_code.co_name
assert helper() == "helper"
""",
    "caller's name": """
import inspect, sys
def log():
    frame = inspect.currentframe().f_back
    return frame.f_code.co_name, frame.f_locals
def one():
    x = 5
    return log()
def line():
    return sys._getframe(1).f_lineno
def depth():
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count
assert one() == ("one", {"x": 5}) and line() > 0 and depth() > 0
print(inspect.currentframe(), inspect.isframe(inspect.currentframe()))
inspect.currentframe().clear()
""",
    "inspect": """
import inspect
def helper():
    return [each.function for each in inspect.stack()]
def one():
    return helper()
assert one()[:2] == ["helper", "one"]
info = inspect.getframeinfo(inspect.currentframe())
assert info.function == "<module>" and info.lineno > 0
inspect.getsource(helper), inspect.signature(helper), inspect.getouterframes(inspect.currentframe())
""",
    "objects": """
import gc, sys, weakref, torch
class Node:
    pass
node, tensor = Node(), torch.ones(3)
gc.collect()
assert len(gc.get_objects()) > 0 and any(item is tensor for item in gc.get_objects() if torch.is_tensor(item))
assert sum(isinstance(item, Node) for item in gc.get_objects()) == 1
sys.getrefcount(node), sys.getsizeof(node), weakref.ref(node), gc.get_stats(), gc.isenabled()
""",
    "memory": """
import resource, tracemalloc
tracemalloc.start()
tracemalloc.take_snapshot().statistics("lineno")
tracemalloc.stop()
resource.getrusage(resource.RUSAGE_SELF)
open("/proc/self/status").read()
""",
    "ctypes": """
import ctypes, numpy as np
x = ctypes.c_int(5)
assert ctypes.sizeof(ctypes.c_float) == 4
ctypes.CDLL(None), ctypes.create_string_buffer(8), ctypes.byref(x), ctypes.addressof(x), (ctypes.c_int * 3)(1, 2, 3)
np.ones(3).ctypes.data
""",
    "classes": """
import abc, collections, dataclasses, enum, typing
@dataclasses.dataclass
class A:
    a: int = 1
P = collections.namedtuple("P", "a b")
E = enum.Enum("E", "a b")
T = typing.TypeVar("T")
class N(typing.NamedTuple):
    a: int
class B(abc.ABC):
    pass
A.__name__ = "C"
A.__module__ = "m"
""",
    "functools": """
import contextlib, copy, functools
def timed(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper
@timed
@functools.lru_cache
def f(x, y=1):
    return x
f.__name__ = "g"
def h(x=1):
    return x
h.__defaults__ = (2,)
h.__code__ = (lambda x=1: x).__code__
copy.deepcopy({"a": [f, h]}), functools.partial(f, 1)()
@contextlib.contextmanager
def c():
    yield
with c():
    pass
""",
    "tests": """
import doctest, unittest
from unittest import mock
def double(x):
    '''
    >>> double(1)
    2
    '''
    return 2 * x
doctest.testmod()
class T(unittest.TestCase):
    def test_double(self):
        with self.assertRaises(TypeError):
            double()
unittest.main(argv=[""], exit=False)
mock.Mock()(1)
""",
    "plots": """
import matplotlib.pyplot as plt
from IPython.display import Markdown, clear_output, display
plt.plot([1], label="x")
plt.legend()
plt.tight_layout()
plt.show()
display(Markdown("x"))
clear_output()
""",
    "pandas and tqdm": """
import importlib.util
if importlib.util.find_spec("pandas"):
    import pandas as pd
    table, y = pd.DataFrame({"a": [1, 2]}), 1
    table.query("a > @y"), table.eval("b = a + 1"), table.describe()
if importlib.util.find_spec("tqdm"):
    from tqdm.auto import tqdm
    for _ in tqdm(range(3)):
        pass
""",
    "torch": """
import torch
from torch import nn
layer = nn.Linear(2, 2)
torch.compile(layer)(torch.ones(1, 2)).sum().backward()
layer.register_forward_hook(lambda *values: None)
layer(torch.ones(1, 2)).sum().backward()
def f(x: torch.Tensor) -> torch.Tensor:
    return x + 1
torch.jit.trace(f, torch.ones(2))(torch.ones(2))
class M(nn.Module):
    @torch.jit.export
    def forward(self, x: torch.Tensor):
        return x
with torch.autograd.set_detect_anomaly(True):
    layer(torch.ones(1, 2)).sum().backward()
with torch.autograd.profiler.profile() as profile:
    layer(torch.ones(1, 2))
profile.key_averages()
torch.save(layer.state_dict(), "x.pt")
""",
    "threads": """
import concurrent.futures, threading
thread = threading.Thread(target=print)
thread.start()
thread.join()
print(threading.enumerate(), concurrent.futures.ThreadPoolExecutor(2).submit(len, "x").result())
""",
    "profiles": """
import cProfile, io, pstats, timeit
with cProfile.Profile() as profile:
    sum(range(9))
pstats.Stats(profile, stream=io.StringIO()).print_stats()
cProfile.run("1")
timeit.timeit("1", number=1)
""",
    "magics": """
%timeit -n1 -r1 1
%time 1
%prun -q 1
%who
print?
await __import__("asyncio").sleep(0)
""",
    "its own file": """
open("memory.py", "w").write("number = 1")
import memory
print(memory.number)
""",
    "pickles": """
import pickle
pickle.loads(pickle.dumps([1]))
(lambda: 1).__code__.replace(co_name="x")
""",
}
