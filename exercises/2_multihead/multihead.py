# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercise 2: multi-head attention with einsum
#
# You write the sums of attention as einsums, cut tokens into heads and join them again, and build the layer that every
# transformer has. Then you prove that it is PyTorch's own: with the same weights it gives the same numbers. Many wrong
# layers have the right shapes and train as well; the tests below tell you which mistake you made. The chapters
# [Einsum](book/einsum.md) and [Multi-head attention](book/multihead.md) hold all that you need.
#
# | exercise | points | minutes | difficulty |
# | --- | --- | --- | --- |
# | 1 `matmul`, `matmul_transposed`, `batched_trace`, `pairwise_dot`, `bilinear` | 3 | 20 | easy |
# | 2 `split_heads`, `merge_heads` | 3 | 20 | medium |
# | 3 `attend` | 4 | 25 | medium |
# | 4 `MultiHeadAttention` | 5 | 30 | hard |
# | 5 `to_torch` | 3 | 15 | medium |
# | 6 written questions | 2 | 10 | medium |
#
# **How to work.** Run the cells from top to bottom. Write your code instead of `raise NotImplementedError()`. The test
# cell after it compares your function with results that were computed in advance and names the likely mistake. The
# points are given after you submit, by the same kind of test on other inputs.
#
# **Rules.** Keep the names and arguments. Do not delete cells; you may add cells of your own. The set-up cell imports
# `torch`, `nn`, `F` (which is `torch.nn.functional`), `Tensor` and `np`. Gradients must flow through all that you write,
# so stay in PyTorch. Nothing here needs a GPU. Before you submit, choose *Runtime → Restart session and run all* and look
# whether every test cell is content.

# %% setup="multihead"

# %% [markdown]
# ## 1 Five einsums
#
# An einsum names each axis by a letter. Letters that stand left of the arrow and not right of it are summed over. Each of
# the five functions is one call of `torch.einsum`.
#
# <details><summary>Hint</summary>
#
# Write the formula with indices first: $c_{ij} = \sum_k a_{ik} b_{kj}$. The letters of each factor go to the left of the
# arrow, those of the result to the right. A letter that stands twice in one factor walks along its diagonal.
#
# </details>

# %% exercise="matmul"

# %% visible="matmul"
run_tests("matmul", matmul)

# %% grade="matmul_values" points=0.5
# Half a point, judged after you submit: products of several sizes.

# %% exercise="matmul_transposed"

# %% visible="matmul_transposed"
run_tests("matmul_transposed", matmul_transposed)

# %% grade="matmul_transposed_values" points=0.5
# Half a point, judged after you submit: products of several sizes.

# %% exercise="batched_trace"

# %% visible="batched_trace"
run_tests("batched_trace", batched_trace)

# %% grade="batched_trace_values" points=0.5
# Half a point, judged after you submit: traces of several batches.

# %% exercise="pairwise_dot"

# %% visible="pairwise_dot"
run_tests("pairwise_dot", pairwise_dot)

# %% grade="pairwise_dot_values" points=0.5
# Half a point, judged after you submit: several numbers of queries and keys.

# %% exercise="bilinear"

# %% visible="bilinear"
run_tests("bilinear", bilinear)
# values: several sizes.

# %% [markdown]
# ## 2 Heads
#
# A token of width $D$ becomes $H$ heads of width $d = D / H$: features $0 \dots d - 1$ are head 0's, the next $d$ are head
# 1's. The axis of heads then is before that of tokens, so that every head is a batch of its own. `merge_heads` undoes it.
#
# <details><summary>Hint</summary>
#
# `reshape` and `view` keep the order in which the numbers lie in memory: they can cut one axis into two neighbours, or join
# two neighbours, and never swap. `transpose` swaps. Which of the two has to come first on the way in, and which on the way back?
# Number the entries of a small tensor with `torch.arange` and look.
#
# </details>

# %% exercise="split_heads"

# %% visible="split_heads"
run_tests("split_heads", split_heads)
# values: which number goes where.

# %% grade="split_heads_sizes" points=0.5
# Half a point, judged after you submit: one image, one token, one head, heads of width 1.

# %% exercise="merge_heads"

# %% visible="merge_heads"
run_tests("merge_heads", merge_heads)
# values: which number goes where.

# %% grade="merge_heads_sizes" points=0.5
# Half a point, judged after you submit: one image, one token, one head, heads of width 1.

# %% [markdown]
# ## 3 Attention of every head
#
# Scaled dot products, softmax, mixed values, all images and heads at once. There are three shapes of masks, and a mask of
# keys has to become one that broadcasts to the scores, (B, H, N, N).
#
# <details><summary>Hint</summary>
#
# Broadcasting aligns shapes from the right: a mask of shape (B, N, N) meets the axes (H, N, N) of the scores, and where
# $B = H$ nobody complains. `mask[:, None]` puts an axis of length 1 where you want it. What are the weights of a row in which
# every score is $-\infty$? The specification says what to do then.
#
# </details>

# %% exercise="attend"

# %% visible="attend"
run_tests("attend", attend)
# weights: the weights.
# output: the mixed values; one token, one image.
# mask: masks of keys, of pairs, and of pairs in each head.
# edges: scores far apart, half precision (without a mask), gradients, and a query that may look at no key.

# %% [markdown]
# ## 4 The layer
#
# Project once, cut into queries, keys and values, cut each into heads, attend, merge, project. You may use your functions
# from above; if one of them has a mistake, you do not pay for it twice.
#
# <details><summary>Hint</summary>
#
# In which order do the $3D$ outputs of `qkv` stand? Cut them into three before you cut into heads. Dropout acts between the
# softmax and the values, so the output of `attend` is of no use in training; its weights are. `nn.Dropout` knows whether the
# layer is training.
#
# </details>

# %% exercise="MultiHeadAttention"

# %% visible="MultiHeadAttention"
run_tests("MultiHeadAttention", MultiHeadAttention)
# values: the parameters, and the output for given weights.
# weights: the weights that are returned.
# mask: masks of all three shapes.
# gradient: the gradients of the tokens and of every parameter.
# dropout: dropout in training, and none in evaluation.

# %% [markdown]
# ## 5 The proof
#
# `nn.MultiheadAttention` calls its parameters `in_proj_weight`, `in_proj_bias`, `out_proj.weight` and `out_proj.bias`.
# Make such a layer, copy yours into it, and the two must agree, on any input.
#
# <details><summary>Hint</summary>
#
# Print the shapes of both layers' parameters with `named_parameters()`. Copying is no step of learning: do it under
# `torch.no_grad()`. The documentation of `nn.MultiheadAttention` says which axis of x is the batch, unless it is told.
#
# </details>

# %% exercise="to_torch"

# %% visible="to_torch" own="MultiHeadAttention"
run_tests("to_torch", to_torch, MultiHeadAttention)
# parameters: each parameter at its place.
# output: equal outputs.
# weights: equal weights, head by head.

# %% [markdown]
# ### The two side by side
#
# Run the cell when both work. It draws a layer and tokens at random and prints the largest difference of the outputs and of
# the gradients. The last written question asks about it. Change the sizes and see whether it stays small.

# %%
def compare_layers(images=2, heads=3, tokens=5, head_width=4):
    """Print how far our layer and PyTorch's are apart."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(heads * head_width, heads)
    theirs = to_torch(ours)
    x = torch.randn(images, tokens, heads * head_width, requires_grad=True)  # (B, N, D)
    outputs = ours(x), theirs(x, x, x)[0]  # each (B, N, D)
    slopes = [torch.autograd.grad(output.square().sum(), x)[0] for output in outputs]
    print(f"Largest difference of the outputs: {(outputs[0] - outputs[1]).abs().max():.1e}")
    print(f"Largest difference of the gradients: {(slopes[0] - slopes[1]).abs().max():.1e}")


try:
    compare_layers()
except NotImplementedError as error:
    if error.args:  # it says more than the template does
        raise
    print("Write MultiHeadAttention and to_torch first.")

# %% [markdown]
# ## 6 In your own words
#
# Write in the cell below each question. Three to six sentences each; a person reads them.
#
# **6.1 (1 point)** Your layer has width $D$. How many parameters has it with one head, and how many with eight? What do
# eight heads make possible that one cannot do, and what do they cost in memory?

# %% [markdown] written="count_heads" points=1

# %% [markdown]
# **6.2 (1 point)** A friend's layer has the same shapes everywhere and trains on digits to the same accuracy as
# `nn.MultiheadAttention`. Why is neither a proof that it is multi-head attention, and why is your comparison with copied
# weights a better one? Which sizes of $B$, $H$, $N$ and $d$ would you choose for it?

# %% [markdown] written="why_compare" points=1

# %% [markdown]
# ## Submit
#
# On Colab: *Runtime → Restart session and run all*, then *File → Download → Download .ipynb*, and submit that file.
