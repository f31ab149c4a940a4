"""Returns right numbers as subclasses, transposed views and tensors with a hook. (This is no attack.)"""
# %% instead of matmul
class Mine(torch.Tensor):
    pass
def matmul(a, b):
    return (a @ b).as_subclass(Mine)
# %% instead of matmul_transposed
def matmul_transposed(a, b):
    return (b @ a.T).T
# %% instead of pairwise_dot
def pairwise_dot(q, k):
    return (k @ q.transpose(1, 2)).transpose(1, 2)
# %% instead of split_heads
def split_heads(x, num_heads):
    y = x.unflatten(2, (num_heads, -1)).transpose(1, 2).clone()
    y.requires_grad_().register_hook(lambda gradient: 1 * gradient)
    return y
