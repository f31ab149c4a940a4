"""Right answers to exercise 1 by PyTorch's own functions.

The student's functions are compared with them. In the sandbox, they also replace the student's functions where another
answer uses these. So this file imports only what students have too.
"""

import numpy as np
import torch
import torch.nn.functional as F

Array = np.ndarray


def softmax(scores: Array, axis: int = -1) -> Array:
    return torch.softmax(torch.from_numpy(np.array(scores)), dim=axis).numpy()


def attention(queries: Array, keys: Array, values: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """Use `F.scaled_dot_product_attention`, which gives the weights if the values are the identity."""
    if queries.shape[-1] != keys.shape[-1] or (mask is not None and not mask.any(-1).all()):
        raise ValueError("queries and keys differ in width, or the mask hides all keys from a query")
    q, k, v = (torch.from_numpy(np.array(array)) for array in (queries, keys, values))
    m = None if mask is None else torch.from_numpy(np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2])).copy())
    identity = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:-1], k.shape[-2])  # (..., N_k, N_k)
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=m)
    weights = F.scaled_dot_product_attention(q, k, identity, attn_mask=m)
    return output.numpy(), weights.numpy()
