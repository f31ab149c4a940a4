# %% [markdown]
# # Exercise 2: multi-head attention with einsum
#
# You write the sums of attention as einsums, split tokens into heads and merge the heads again.
# Then you build the attention layer that every transformer has.
# At the end you prove that it equals PyTorch's own layer: with the same parameters it gives the same numbers.
# Many wrong layers have the right shapes and train just as well.
# The tests below tell you which mistake you made.
# The chapters [Einsum](book/einsum.md) and [Multi-head attention](book/multihead.md) explain everything that you need.
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
# **How to work.** Run the cells from top to bottom.
# Replace `raise NotImplementedError()` with your code.
# Then run the test cell below it.
# The test compares your results with results that were computed in advance, and names the likely mistake.
# You get the points after you submit: then the same kind of test runs on other inputs.
#
# **Rules.** Keep the names and arguments.
# Do not delete cells; you may add your own cells.
# The set-up cell imports `torch`, `nn`, `F` (which is `torch.nn.functional`), `Tensor` and `np`.
# Gradients must flow through all your functions, so use PyTorch only.
# You need no GPU.
# Before you submit, choose *Runtime → Restart session and run all*, and check that every test passes.

# %% setup="multihead"

# %% [markdown]
# ## 1 Five einsums
#
# An einsum gives each axis a letter.
# A letter that is left of the arrow but not right of it is summed over.
# Each of the five functions is one call of `torch.einsum`.
#
# <details><summary>Hint</summary>
#
# Write the formula with indices first: $c_{ij} = \sum_k a_{ik} b_{kj}$.
# The letters of each factor go to the left of the arrow, the letters of the result to the right.
# A letter that occurs twice in one factor selects its diagonal.
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
# A token of width $D$ becomes $H$ heads of width $d = D / H$.
# Components $0 \dots d - 1$ belong to head 0, and the next $d$ components belong to head 1.
# Then the axis of heads comes before the axis of tokens, so that every head is computed like a separate image.
# `merge_heads` undoes `split_heads`.
#
# <details><summary>Hint</summary>
#
# `reshape` and `view` keep the order of the numbers in memory.
# They can split one axis into two neighbouring axes, or merge two neighbouring axes, but they never swap axes.
# `transpose` swaps axes.
# Which of the two must come first when you split, and which when you merge?
# Number the entries of a small tensor with `torch.arange` and look at the result.
#
# </details>

# %% exercise="split_heads"

# %% visible="split_heads"
run_tests("split_heads", split_heads)
# values: the place of each number.

# %% grade="split_heads_sizes" points=0.5
# Half a point, judged after you submit: one image, one token, one head, heads of width 1.

# %% exercise="merge_heads"

# %% visible="merge_heads"
run_tests("merge_heads", merge_heads)
# values: the place of each number.

# %% grade="merge_heads_sizes" points=0.5
# Half a point, judged after you submit: one image, one token, one head, heads of width 1.

# %% [markdown]
# ## 3 Attention of every head
#
# Compute scaled dot products, the softmax and the mixed values, for all images and heads at once.
# There are three shapes of masks.
# A mask of keys has to become a mask that broadcasts to the scores, (B, H, N, N).
#
# <details><summary>Hint</summary>
#
# Broadcasting aligns shapes from the right.
# So a mask of shape (B, N, N) meets the axes (H, N, N) of the scores, and there is no error if $B = H$.
# `mask[:, None]` inserts an axis of length 1.
# What are the weights of a row in which every score is $-\infty$?
# The specification says what to do then.
#
# </details>

# %% exercise="attend"

# %% visible="attend"
run_tests("attend", attend)
# weights: the second result, without a mask.
# output: the mixed values, also for one token and for one image.
# mask: masks of keys, masks of pairs, and masks of pairs for each head.
# edges: scores far apart, half precision (without a mask), gradients, and a mask that hides all keys from a query.

# %% [markdown]
# ## 4 The layer
#
# Project the tokens once, and cut the result into queries, keys and values.
# Split each into heads, attend, merge the heads, and project again.
# You may call your functions from above.
# If one of them has a mistake, you do not lose points for it again here.
#
# <details><summary>Hint</summary>
#
# In which order are the $3D$ outputs of `qkv`?
# Cut them into three parts before you split each part into heads.
# Dropout acts between the softmax and the values.
# So in training you can use the weights that `attend` returns, but not its output.
# `nn.Dropout` knows whether the layer is in training.
#
# </details>

# %% exercise="MultiHeadAttention"

# %% visible="MultiHeadAttention"
run_tests("MultiHeadAttention", MultiHeadAttention)
# values: the parameters, and the output for given parameters.
# weights: the weights that the layer returns if `return_weights` is True.
# mask: masks of all three shapes.
# gradient: the gradients of the tokens and of every parameter.
# dropout: dropout acts in training, and is off in evaluation.

# %% [markdown]
# ## 5 The proof
#
# `nn.MultiheadAttention` calls its parameters `in_proj_weight`, `in_proj_bias`, `out_proj.weight` and `out_proj.bias`.
# Make such a layer and copy the parameters of your layer into it.
# Then the two layers must agree on any input.
#
# <details><summary>Hint</summary>
#
# Print the shapes of both layers' parameters with `named_parameters()`.
# Copying is not a training step, so do it under `torch.no_grad()`.
# The documentation of `nn.MultiheadAttention` says which axis of x is the batch by default.
#
# </details>

# %% exercise="to_torch"

# %% visible="to_torch" own="MultiHeadAttention"
run_tests("to_torch", to_torch, MultiHeadAttention)
# parameters: each parameter is copied to its place.
# output: equal outputs.
# weights: equal weights, head by head.

# %% [markdown]
# ### Compare the two layers
#
# Run the cell when both functions work.
# It draws a layer and tokens at random, and prints the largest difference of the outputs and of the gradients.
# The last written question asks about it.
# Change the sizes and check whether the difference stays small.

# %%
def compare_layers(images=2, heads=3, tokens=5, head_width=4):
    """Print the largest differences between our layer and PyTorch's."""
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
    print("Write MultiHeadAttention and to_torch first.", *error.args)

# %% [markdown]
# ## 6 In your own words
#
# Write your answer in the cell below each question, three to six sentences each.
# A person reads them.
#
# **6.1 (1 point)** Your layer has width $D$.
# How many parameters does it have with one head, and how many with eight heads?
# What can eight heads do that one head cannot do, and how much more memory do they need?

# %% [markdown] written="count_heads" points=1

# %% [markdown]
# **6.2 (1 point)** A friend's layer has the same shapes everywhere.
# It trains on digits to the same accuracy as `nn.MultiheadAttention`.
# Why do neither its shapes nor its accuracy prove that it is multi-head attention?
# Why is your comparison with copied parameters a better proof?
# Which sizes of $B$, $H$, $N$ and $d$ would you choose for the comparison?

# %% [markdown] written="why_compare" points=1

# %% [markdown]
# ## Submit
#
# On Colab, choose *Runtime → Restart session and run all*.
# Then choose *File → Download → Download .ipynb*, and submit that file.
