"""Lets the agent send arrays that broadcast to huge ones, instead of what an answer's module gave."""
# %%
import inside, itertools, numpy as np, torch
turn = itertools.cycle([(1, 2**17), (2**17, 1)])
def forged(value):
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return np.ones(next(turn)) if isinstance(value, np.ndarray) else torch.ones(next(turn))
    if isinstance(value, dict):
        return {key: forged(item) for key, item in value.items()}
    return type(value)(map(forged, value)) if isinstance(value, (list, tuple)) else value
ask = inside._ask
def forge(request, namespace):
    reply = ask(request, namespace)
    return reply | {"value": forged(reply["value"])}
inside._ask = forge
