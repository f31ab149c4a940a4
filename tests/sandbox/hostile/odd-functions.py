"""Defines a coroutine, a property, a class and a partial instead of functions."""
# %% in every function
import functools
globals()["softmax"] = functools.partial(lambda *args: (i for i in args))
async def later(*args):
    return args
globals()["attention"] = later
globals()["self_attention"] = type
globals()["attention_backward"] = property(lambda self: 1)
return later()
