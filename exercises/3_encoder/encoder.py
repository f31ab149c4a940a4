# %% [markdown]
# # Exercise 3: encoder blocks in PyTorch
#
# You build an encoder block, stack several of them, and then repair a block that cannot learn.
# In each class you can make mistakes that keep every shape, and with many of them a model still learns.
# The tests below tell you which mistake you made.
# The chapters [Multi-head attention](book/multihead.md) and [Encoder blocks](book/encoder.md) explain everything that you
# need.
#
# | exercise | points | minutes | difficulty |
# | --- | --- | --- | --- |
# | 1 `LayerNorm` | 3 | 10 | easy |
# | 2 `FeedForward` | 2 | 10 | easy |
# | 3 `EncoderBlock` | 4 | 25 | medium |
# | 4 `Encoder` | 3 | 15 | easy |
# | 5 `repair` | 5 | 35 | hard |
# | 6 written questions | 3 | 15 | medium |
# | 7 `rope`, a bonus | 2 extra | 25 | medium |
#
# **How to work.** Run the cells from top to bottom.
# Replace `raise NotImplementedError()` with your code.
# Then run the test cell below it.
# The test compares your results with those of PyTorch's own layers, and names the likely mistake.
# You get the points after you submit: then the same kind of test runs on other sizes and inputs.
#
# **Rules.** Keep the names and arguments, and the names under *Attributes*: the tests load numbers into these parts.
# You may use PyTorch's layers and functions, and you may add methods to a class.
# An `__init__` begins with `super().__init__()`.
# Do not delete cells; you may add your own cells.
# You need no GPU.
# Before you submit, choose *Runtime → Restart session and run all*, and check that every test passes.

# %% setup="encoder"

# %% [markdown]
# ## 0 Given: attention
#
# You wrote multi-head attention in exercise 2.
# The `MultiHeadAttention` below has the same parts, `qkv` and `out`, and calls PyTorch's fused function.
# A mask is boolean: `True` means that a query may look at a key, and `False` hides the key.

# %% given="MultiHeadAttention"

# %% [markdown]
# ## 1 LayerNorm
#
# LayerNorm gives each token mean 0 and variance 1 over its own components.
# Then each component gets a learned scale and shift: $y = \gamma\,(x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$.
# No token sees another token.
# The variance is the mean of the squares: divide their sum by $D$, not by $D - 1$.
#
# <details><summary>Hint</summary>
#
# `keepdim=True` keeps an axis of size 1, so that the mean broadcasts against the tokens.
# What is the default of `unbiased` in `Tensor.var`?
# If you assign an `nn.Parameter` to an attribute of the module, the optimizer finds it.
#
# </details>
#
# <details><summary>The first lines, with gaps</summary>
#
# Replace each `____`. The first four lines belong to `__init__`, the others to `forward`:
#
# ```python
# super().__init__()
# self.eps = ____
# self.scale = nn.Parameter(____)  # (D,)
# self.shift = nn.Parameter(____)  # (D,)
#
# centred = x - ____  # (..., D)
# variance = ____  # (..., 1)
# return self.scale * centred / ____ + self.shift
# ```
#
# </details>

# %% exercise="LayerNorm"

# %% visible="LayerNorm"
run_tests("LayerNorm", LayerNorm)
# values: the output, with any number of leading axes and with a large eps.
# learning: scale and shift at the start, the number of learned parameters, and the gradients of x, scale and shift.
# edges: narrow tokens, tokens with equal components or components near 1000, and float16.

# %% [markdown]
# ## 2 Feed-forward network
#
# It has two linear layers with a GELU between them, and works on every token separately.
# In training, dropout sets some of the hidden activations to 0.
# It scales up the others, so that the mean does not change.
#
# <details><summary>Hint</summary>
#
# `nn.Linear` works on the last axis and leaves the other axes unchanged.
# `nn.Dropout` knows whether the module is in training or in evaluation.
# For `F.dropout` you have to pass the mode as an argument.
#
# </details>

# %% exercise="FeedForward"

# %% visible="FeedForward"
run_tests("FeedForward", FeedForward)
# values: the output, the gradients, the number of learned parameters, and the size of the initial parameters.
# dropout: dropout acts in training, keeps the mean, and is off in evaluation.

# %% [markdown]
# ## 3 Encoder block
#
# Attention and the feed-forward network each add something to the residual stream.
# In a pre-norm block, each of the two reads the stream through its own norm.
# Its output is added to the stream itself, not to the normalised stream.
# You may use your `LayerNorm` and `FeedForward`.
# If they have a mistake, you do not lose points for it again here.
#
# <details><summary>Hint</summary>
#
# `forward` needs two lines, one for each sub-layer.
# Dropout acts on the output of a sub-layer before it is added; it never acts on the stream.
# The second sub-layer reads the stream after the first sum.
#
# </details>

# %% exercise="EncoderBlock"

# %% visible="EncoderBlock"
run_tests("EncoderBlock", EncoderBlock)
# values: the output, for sizes that all differ and for a single token.
# learning: gradients, the number of learned parameters, the size of the initial parameters, and that x is unchanged.
# masks: masks of every shape.
# dropout: in training dropout acts in both sub-layers, not on the stream, and keeps the mean; it is off in evaluation.

# %% [markdown]
# ## 4 Encoder
#
# An encoder is a stack of blocks, each with its own parameters.
# It has one more norm after the last block, because a pre-norm stack never normalises the stream itself.
#
# <details><summary>Hint</summary>
#
# PyTorch finds the parameters of modules in an `nn.ModuleList`, but not in an ordinary list.
# What does `[block] * depth` hold?
#
# </details>

# %% exercise="Encoder"

# %% visible="Encoder"
run_tests("Encoder", Encoder)
# values: the output, for several depths.
# learning: the gradients, the number of learned parameters, and that no two blocks start with equal parameters.
# hand_on: masks and dropout reach every block.

# %% [markdown]
# ## 5 A block that cannot learn
#
# Suppose that you stack blocks of this kind and train them, and the accuracy stays at chance.
# The block has more than one fault, and none of them changes a shape.

# %% given="BrokenBlock"

# %% [markdown]
# Measure before you repair.
# The input of the block below has standard deviation 1.
# The cell prints:
#
# - the standard deviation of the stream before and after the block;
# - for each parameter, its standard deviation and the norm of its gradient;
# - how far the output of each image moves when image 0 is changed.
#
# A healthy block keeps the order of magnitude of the stream and has a gradient for every parameter.
# If image 0 changes, only the output of image 0 moves.
# Run the cell again with `repair(BrokenBlock(...))`.

# %%
def measure(block, width):
    """Print the size of activations, parameters and gradients, and which images depend on image 0."""
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
# Write `repair` so that it works for blocks of any size, whatever values their random parameters have.
# It changes the given block and returns it.
# Do not return a new model, do not use parameter values that you have stored, and do not add anything to the output.
# You may choose the norms' eps, up to 1e-4, and norms with or without a learned scale and shift.
# The GELU may be exact or PyTorch's tanh approximation.
#
# <details><summary>Hint</summary>
#
# Take a sum of $D$ products of independent numbers with mean 0 and variance 1.
# This sum has variance $D$.
# Which variance must the entries of a matrix have so that the sum has variance 1?
# `nn.init` has functions for that; their names end in an underscore, and they change a tensor in place.
# Look at *every* weight matrix afterwards.
# For the images, read what `nn.MultiheadAttention` says about the axes of its input.
# You can replace a part if you assign another module to its name.
#
# </details>

# %% exercise="repair"

# %% visible="repair"
run_tests("repair", repair, BrokenBlock)
# block: the same block is returned, and both sub-layers read a normalised stream.
# tokens: attention looks at the tokens of one image.
# activations: the stream keeps its order of magnitude in a stack; the parameters are random, with a suitable spread.
# gradients: every parameter learns, and gradients keep their order of magnitude.
# loss: a stack of two blocks starts near chance and learns a small data set.

# %% [markdown]
# ## 6 In your own words
#
# Write your answer in the cell below each question, three to six sentences each.
# A person reads them.
#
# **6.1 (1 point)** Follow the gradient from the output of a stack to its input, once for a stack of pre-norm blocks and
# once for a stack of post-norm blocks.
# Why does pre-norm need a norm after the last block?
# Why does post-norm need a warm-up?

# %% [markdown] written="pre_norm" points=1

# %% [markdown]
# **6.2 (1 point)** The matrices of the broken block have standard deviation 1.
# One of its linear layers has $D = 512$ inputs.
# By which factor does this layer change the standard deviation of its input?
# A norm before each sub-layer keeps the *inputs* of the sub-layers healthy.
# Why does that not repair the block?

# %% [markdown] written="initial_scale" points=1

# %% [markdown]
# **6.3 (1 point)** Suppose that you may call a model but not read its code.
# How do you find out whether it attends across the images of a batch?
# And why does no test of shapes, and hardly any test of accuracy, find this?

# %% [markdown] written="across_the_batch" points=1

# %% [markdown]
# ## 7 A bonus: rotary positions
#
# A bonus gives points in addition to the 20, and you lose nothing if you leave it out.
# The section [Rotary positions](book/positions.md) rotates pairs of components in the rows of one matrix.
# Write this rotation in PyTorch for queries with any leading axes; their positions may differ from image to image.
# Gradients must flow through the rotation.
#
# <details><summary>Hint</summary>
#
# `x[..., 0::2]` is the first coordinate of every point.
# `torch.stack(…, dim=-1)` and then `flatten(-2)` alternate the entries of two arrays.
# What is the shape of the product of `positions[..., None]` and an array of `d / 2` frequencies?
#
# </details>

# %% exercise="rope" bonus=true

# %% visible="rope"
run_tests("rope", rope)
# values: the rotated queries of one sequence, with positions in any order, and with another base.
# axes: leading axes, positions for each image, positions that are fractions, and an odd width.

# %% [markdown]
# ## Submit
#
# On Colab, choose *Runtime → Restart session and run all*.
# Then choose *File → Download → Download .ipynb*, and submit that file.
