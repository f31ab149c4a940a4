# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercise 3: encoder blocks in PyTorch
#
# You build the block of which transformers are stacked, and then you are handed one that cannot learn. Each of the
# classes has mistakes that keep every shape, and most of them train to the same accuracy; the tests below tell you which
# one you made. The chapters [Multi-head attention](book/multihead.md) and [Encoder blocks](book/encoder.md) hold all that
# you need.
#
# | exercise | points | minutes | difficulty |
# | --- | --- | --- | --- |
# | 1 `LayerNorm` | 3 | 20 | easy |
# | 2 `FeedForward` | 2 | 10 | easy |
# | 3 `EncoderBlock` | 4 | 25 | medium |
# | 4 `Encoder` | 3 | 15 | easy |
# | 5 `repair` | 5 | 35 | hard |
# | 6 written questions | 3 | 15 | medium |
# | 7 `rope`, a bonus | 2 on top | 25 | medium |
#
# **How to work.** Run the cells from top to bottom. Write your code instead of `raise NotImplementedError()`. The test
# cell after it compares what you wrote with results that were computed in advance, with PyTorch's own layers, and names the
# likely mistake. The points are given after you submit, by the same kind of test on other sizes and inputs.
#
# **Rules.** Keep the names and arguments, and the names of the parts under *Attributes*: the tests load numbers into
# them. You may use PyTorch's layers and functions, and give a class further methods. An `__init__` begins with
# `super().__init__()`. Do not delete cells; you may add cells of your own. Nothing here needs a GPU. Before you submit,
# choose *Runtime → Restart session and run all* and look whether every test cell is content.

# %% setup="encoder"

# %% [markdown]
# ## 0 Given: attention
#
# You wrote multi-head attention in exercise 2. This one has the same parts, `qkv` and `out`, and calls PyTorch's fused
# function. A mask is boolean, and `True` means that a token may be looked at.

# %% given="MultiHeadAttention"

# %% [markdown]
# ## 1 Layer norm
#
# Every token is brought to mean 0 and variance 1 over its own components, and then each component gets a learned scale and
# shift: $y = \gamma\,(x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$. No token sees another one. The variance is the mean of the
# squares, over $D$ and not over $D - 1$.
#
# <details><summary>Hint</summary>
#
# `keepdim=True` leaves an axis of size 1, so that the mean broadcasts against the tokens. What is the default of `unbiased`
# in `Tensor.var`? A tensor becomes a parameter, one that an optimizer finds, when an `nn.Parameter` is assigned to an
# attribute of the module.
#
# </details>

# %% exercise="LayerNorm"

# %% visible="LayerNorm"
run_tests("LayerNorm", LayerNorm)
# values: the output, with leading axes of any number and with a large eps.
# learning: scale and shift at first, how many numbers are learned, and the gradients of x, scale and shift.
# edges: narrow tokens, tokens whose components are alike or near 1000, and float16.

# %% [markdown]
# ## 2 Feed-forward net
#
# Two linear layers with a GELU between them, for every token by itself. In training, dropout sets a share of the hidden
# activations to 0 and lets the others grow, so that the mean stays.
#
# <details><summary>Hint</summary>
#
# `nn.Linear` works on the last axis and leaves the others alone. `nn.Dropout` knows whether the module is in training or in
# evaluation; `F.dropout` has to be told.
#
# </details>

# %% exercise="FeedForward"

# %% visible="FeedForward"
run_tests("FeedForward", FeedForward)
# values: output, gradients, the number of learned numbers, and the size of the fresh parameters.
# dropout: dropout acts in training, keeps the mean, and is gone in evaluation.

# %% [markdown]
# ## 3 Encoder block
#
# The tokens are a stream to which two parts add something. Pre-norm: each part reads the stream through its own norm, and
# what it gives is added to the stream as it was. You may use your `LayerNorm` and `FeedForward`; if they have a mistake,
# you do not pay for it twice.
#
# <details><summary>Hint</summary>
#
# Two lines of `forward`, one for each part. Dropout belongs between a part and the sum: what comes down the stream is never
# dropped. The second part reads what the first has left.
#
# </details>

# %% exercise="EncoderBlock"

# %% visible="EncoderBlock"
run_tests("EncoderBlock", EncoderBlock)
# values: the output, for sizes that all differ and for a single token.
# learning: gradients, the number of learned numbers, the size of the fresh parameters, and that x is left alone.
# masks: masks of every shape.
# dropout: dropout acts in both parts in training and not on the stream, keeps the mean, and is gone in evaluation.

# %% [markdown]
# ## 4 Encoder
#
# A stack of blocks, each with parameters of its own, and a norm behind the last: the stream of a pre-norm stack is never
# normalised on its way.
#
# <details><summary>Hint</summary>
#
# PyTorch finds the parameters of modules in an `nn.ModuleList`, and not of those in a list. What does `[block] * depth` hold?
#
# </details>

# %% exercise="Encoder"

# %% visible="Encoder"
run_tests("Encoder", Encoder)
# values: the output, for several depths.
# learning: gradients of every block, the number of learned numbers, and that blocks start apart.
# hand_on: masks and dropout reach every block.

# %% [markdown]
# ## 5 A block that cannot learn
#
# Somebody stacked blocks of this kind, trained for a day, and stayed at chance. There is more than one fault, and none of
# them changes a shape.

# %% given="BrokenBlock"

# %% [markdown]
# Measure before you repair. The cell below prints, for a block whose input has standard deviation 1: the size of the stream
# before and after; of each parameter, the standard deviation and the size of its gradient; and how far the output of each
# image moves when image 0 is changed. A healthy block leaves the stream at its order of magnitude, has a gradient for every
# parameter, and moves image 0 alone. Run it again on `repair(BrokenBlock(...))`.

# %%
def measure(block, width):
    """Print the size of activations, parameters and gradients, and which images see image 0."""
    x = torch.randn(4, 6, width, generator=torch.Generator().manual_seed(0))  # (B, N, D)
    y = block(x)  # (B, N, D)
    y.square().mean().backward()
    print(f"stream                           std {x.std():8.3g} before, {y.std():.3g} after")
    for name, parameter in block.named_parameters():
        size = "none" if parameter.grad is None else f"{parameter.grad.norm():.3g}"
        print(f"{name:32} std {parameter.std():8.3g}   gradient {size}")
    changed = x.clone()
    changed[0] = changed[0] + 1 + changed[0].sin()
    moved = (block(changed) - y).detach().abs().amax(dim=(1, 2))  # (B,)
    print("images 0 … 3 move by", ", ".join(f"{float(distance):.3g}" for distance in moved))


torch.manual_seed(0)
measure(BrokenBlock(width=48, num_heads=4, hidden_width=80), width=48)

# %% [markdown]
# Write `repair` so that it works for blocks of any size, in whatever state their random parameters are. It changes the block
# that it is given and returns it: no new model, no stored parameters, nothing that is added to the output.
#
# <details><summary>Hint</summary>
#
# A sum of $D$ products of independent numbers of variance 1 has variance $D$. What variance must the entries of a matrix have so that the sum
# has variance 1? `nn.init` has functions for that; they all end in an underscore and change a tensor in place. Look at *every*
# weight matrix afterwards. For the images, read what `nn.MultiheadAttention` says about the axes of its input. A part can be
# replaced by assigning another module to its name.
#
# </details>

# %% exercise="repair"

# %% visible="repair"
run_tests("repair", repair, BrokenBlock)
# block: the same block comes back, and both parts read a normalised stream.
# tokens: attention looks at the tokens of one image.
# activations: the stream keeps its order of magnitude through a stack, and the parameters are random and fit their width.
# gradients: every parameter learns, and gradients keep their order of magnitude.
# loss: a stack of two starts near chance and learns a small set.

# %% [markdown]
# ## 6 In your own words
#
# Write in the cell below each question. Three to six sentences each; a person reads them.
#
# **6.1 (1 point)** Follow the gradient from the output of a stack to its input, once through pre-norm and once through
# post-norm blocks. Why does pre-norm need a norm behind the last block, and post-norm a warm-up?

# %% [markdown] written="pre_norm" points=1

# %% [markdown]
# **6.2 (1 point)** The broken block has matrices of standard deviation 1. By which factor does one of its linear layers, of $D = 512$
# inputs, change the standard deviation of what goes through it? Why does a norm in front of each part keep the *input* of
# the parts healthy, and yet not repair the block?

# %% [markdown] written="initial_scale" points=1

# %% [markdown]
# **6.3 (1 point)** Suppose that you may call a model and not read its code. How do you find out whether it attends across
# the images of a batch? And why does no test of shapes, and hardly a test of accuracy, find it?

# %% [markdown] written="across_the_batch" points=1

# %% [markdown]
# ## 7 A bonus: rotary positions
#
# A bonus gives points on top of the 20, and costs nothing if you leave it. The section
# [Rotary positions](book/positions.md) turns the rows of one matrix. Write it in PyTorch for queries with any leading axes,
# whose positions may differ from image to image, so that gradients flow through it.
#
# <details><summary>Hint</summary>
#
# `x[..., 0::2]` is the first coordinate of every point. `torch.stack(…, dim=-1)` and `flatten(-2)` put two arrays side by
# side, entry by entry. Which shape has `positions[..., None]` times an array of `d / 2` frequencies?
#
# </details>

# %% exercise="rope" bonus=true

# %% visible="rope"
run_tests("rope", rope)
# values: the turned queries of one sequence, at positions in any order, with another base.
# axes: leading axes, positions for each image, fractions, and an odd width.

# %% [markdown]
# ## Submit
#
# On Colab: *Runtime → Restart session and run all*, then *File → Download → Download .ipynb*, and submit that file.
