"""Returns right numbers in unusual types: long double, object, big-endian, masked array, named tuple. (This is no attack.)"""
# %% instead of softmax
RIGHT
right_softmax = softmax
def softmax(scores, axis=-1):
    return np.longdouble(1) * right_softmax(scores, axis)
# %% instead of attention
RIGHT
from collections import namedtuple
right_attention = attention
def attention(queries, keys, values, mask=None):
    output, weights = right_attention(queries, keys, values, mask)
    return namedtuple("Pair", "output weights")(output.astype(">f8"), np.asfortranarray(weights))
# %% instead of self_attention
RIGHT
right_self_attention = self_attention
def self_attention(*given):
    return tuple(np.ma.array(array) for array in right_self_attention(*given))
# %% instead of attention_backward
RIGHT
right_backward = attention_backward
def attention_backward(*given):
    queries, keys, values = right_backward(*given)
    return queries.astype(object), np.float32(keys)[..., ::-1][..., ::-1], values + 0j
