"""Never returns from softmax; softmax and another answer use the same helper in another cell."""
# %%
def exponentials(x):
    return np.exp(x)
# %% in softmax
exponentials(scores)
while True:
    pass
# %% instead of attention_backward
RIGHT
right = attention_backward
def attention_backward(queries, *others):
    exponentials(queries)
    return right(queries, *others)
