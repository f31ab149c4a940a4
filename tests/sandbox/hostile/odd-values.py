"""Returns values that a test may not expect, from 10⁴⁰⁰⁰ to endless generators, and objects that equal everything."""
# %% in every function
import datetime, fractions, itertools
import torch
class Array(np.ndarray):
    __array_function__ = __array_ufunc__ = __eq__ = lambda self, *args, **kwargs: True
class Equal:
    __class__ = np.ndarray
    __eq__ = lambda self, other: True
    __getattr__ = lambda self, name: self
    __call__ = lambda self, *args, **kwargs: self
    __array__ = lambda self, *args, **kwargs: np.zeros(3)
    __len__ = __bool__ = lambda self: 1
circle = []
circle.append(circle)
nested = []
for _ in range(5000):
    nested = [nested]
odd = [
    Equal(), np.zeros(3).view(Array),
    None, ..., NotImplemented, "weights", "", b"bytes", {}, {"weights": 1}, {1, 2}, [], (), [[1.0]], range(3), 10**4000, 10**1_000_000, [0] * 10**6,
    float("nan"), -0.0, 1j, True, np.float64(1), np.array(1.0), np.array([]), np.zeros((0, 3)), np.zeros((2,) * 20),
    np.array([None, "x"], dtype=object), np.array(["a", "b"]), np.array([1j]), np.array(["NaT"], dtype="M8[s]"),
    np.zeros(3, dtype=[("a", int), ("b", float)]), np.ma.masked, np.matrix("1 2; 3 4"), np.memmap("/tmp/m", float, "w+", 0, 3),
    np.full((3, 3), np.nan), np.full((3, 3), np.inf), np.array([1e308, 1e308, 1e308]), np.array([2**63], dtype=np.uint64),
    np.zeros((1,) * 32), np.broadcast_to(1.0, (1000, 1000, 1000, 100)), np.zeros((2000, 2000), dtype=bool),
    fractions.Fraction(1, 3), datetime.datetime.now(), circle, nested, itertools.count(), (i for i in ()), lambda: 0, type,
    Exception("x"), np, get_ipython(), torch.float32, torch.zeros(3, device="meta"), torch.zeros(2, 2).to_sparse(),
    torch.ones(1).as_strided((100_000, 100_000), (0, 0)), torch.zeros(3, dtype=torch.bfloat16), torch.nn.Linear(2, 3),
    (1, 2), (np.zeros(2),) * 3, (None, None, None), ("a", "b", "c"), tuple([np.zeros(1)] * 1000), ({},) * 3,
    (torch.nn.Linear(2, 3),) * 3, (np.array(1.0),) * 2, (np.array([]),) * 3, (10**4000,) * 2, (object(),) * 2,
]
with open("/tmp/turns", "a") as turns:  # tests do not share their memory
    turns.write("x")
    return odd[turns.tell() % len(odd)]
