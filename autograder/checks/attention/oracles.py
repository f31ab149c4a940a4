"""Oracles of assignment 1_attention: right results by PyTorch's own functions, independent of the answers."""

import numpy as np
import torch
import torch.nn.functional as F

from autograder.checks.attention.stand_ins import attention

Array = np.ndarray


def oracle_self_attention(tokens: Array, w_query: Array, w_key: Array, w_value: Array, mask: Array | None = None):
    project = [
        F.linear(torch.from_numpy(tokens), torch.from_numpy(w.T.copy())).numpy() for w in (w_query, w_key, w_value)
    ]
    return attention(*project, mask)


def oracle_attention_backward(grad_output: Array, queries: Array, keys: Array, values: Array):
    leaves = [torch.tensor(array, requires_grad=True) for array in (queries, keys, values)]
    output = F.scaled_dot_product_attention(*leaves)
    total = (output * torch.tensor(grad_output)).sum()
    return tuple(gradient.numpy() for gradient in torch.autograd.grad(total, leaves))


def oracle_online_softmax(largest: Array, total: Array, mixed: Array, scores: Array, values: Array):
    """Use PyTorch's softmax and logsumexp. All keys so far become one key, with their log-sum-exp and mean value."""
    m, z, o, s, v = (torch.from_numpy(np.array(array)) for array in (largest, total, mixed, scores, values))
    so_far = (m + z.log())[..., None]  # (..., N_q, 1)
    together = torch.cat([so_far, s], dim=-1)  # (..., N_q, 1 + n)
    weights = torch.softmax(together, dim=-1).nan_to_num()  # they are all 0 if no key is visible
    mean = (o / z[..., None]).nan_to_num()  # (..., N_q, d_v)
    m = torch.maximum(m, s.amax(dim=-1))
    z = (torch.logsumexp(together, dim=-1) - m).exp().nan_to_num()
    o = z[..., None] * (weights[..., :1] * mean + weights[..., 1:] @ v)
    return m.numpy(), z.numpy(), o.numpy()
