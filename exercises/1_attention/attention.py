# %% [markdown]
# # Exercise 1: attention in NumPy
#
# You write four functions: the softmax, attention, self-attention, and the gradient of attention.
# None of them needs more than ten lines.
# In each function you can make mistakes that keep every shape and raise no error.
# The tests below tell you which mistake you made.
# The chapters [Softmax](book/softmax.md), [Attention](book/attention.md) and
# [The gradient of attention](book/attention_gradient.md) explain everything that you need.
#
# | exercise | points | minutes | difficulty |
# | --- | --- | --- | --- |
# | 1 `softmax` | 3 | 10 | easy |
# | 2 `attention` | 4 | 20 | medium |
# | 3 `self_attention` | 3 | 10 | easy |
# | 4 `attention_backward` | 5 | 45 | hard |
# | 5 written questions | 5 | 15 | medium |
# | 6 `online_softmax`, a bonus | 2 extra | 25 | medium |
#
# **How to work.** Run the cells from top to bottom.
# Replace `raise NotImplementedError()` with your code.
# Then run the test cell below it.
# The test compares your results with results that were computed in advance, and names the likely mistake.
# You get the points after you submit: then the same kind of test runs on other inputs.
#
# **Rules.** Keep the names and arguments of the functions.
# Do not delete cells; you may add your own cells.
# Your functions return NumPy arrays.
# You need no GPU.
# Before you submit, choose *Runtime → Restart session and run all*, and check that every test passes.

# %% setup="attention"

# %% [markdown]
# ## 1 Softmax
#
# The softmax of the numbers $s_1, \dots, s_N$ is $p_i = e^{s_i} / \sum_j e^{s_j}$.
# An array has many rows of numbers, so the argument `axis` says along which axis to work.
# Scores may be far above or far below 0, and far from each other.
#
# <details><summary>Hint</summary>
#
# What happens to $p$ when you add the same number to every score of a row?
# Which number makes every exponential at most 1?
# A reduction with `keepdims=True` gives a result that broadcasts against the original array.
#
# </details>
#
# <details><summary>The first lines, with gaps</summary>
#
# Replace each `____`:
#
# ```python
# exponentials = np.exp(scores - ____)  # the largest score of each row becomes 0
# return exponentials / ____  # each row sums to 1
# ```
#
# </details>

# %% exercise="softmax"

# %% visible="softmax"
run_tests("softmax", softmax)
# values: the weights along the last axis, for arrays of one, two and three axes.
# axis: the weights along any other axis.
# extreme: scores in the thousands, and rows with very different scores.

# %% [markdown]
# ## 2 Attention
#
# Each query is compared with all the keys by dot products.
# The dot products are divided by $\sqrt d$, where $d$ is the width of one query: these are the scores.
# The softmax turns the scores into weights, and the weights mix the values.
# A mask says which keys a query may look at.
# Any number of axes may come before the last two: a batch of images, a batch of heads, or no axis at all.
#
# <details><summary>Hint</summary>
#
# `np.swapaxes(keys, -1, -2)` transposes the last two axes and leaves the other axes unchanged.
# `@` multiplies the last two axes and broadcasts the others.
# Give a hidden key the score $-\infty$, because $e^{-\infty} = 0$.
# What are the weights of a row in which every score is $-\infty$?
# The docstring of `attention` is its specification: it says what to do then.
#
# </details>

# %% exercise="attention"

# %% visible="attention"
run_tests("attention", attention)
# weights: the second result, without a mask.
# output: the mixed values; all sizes differ.
# axes: leading axes, and scores far from each other.
# mask: masks of every shape that broadcasts, and the two errors in the specification.

# %% [markdown]
# ## 3 Self-attention
#
# Queries, keys and values are three projections of the same tokens.
# You may call your `attention`.
# If it has a mistake, you do not lose points for it again here.
#
# <details><summary>Hint</summary>
#
# Which width goes under the square root: the width of a token, or the width of a query?
#
# </details>

# %% exercise="self_attention"

# %% visible="self_attention"
run_tests("self_attention", self_attention)
# values: output and weights of one sequence.
# axes: leading axes, and scores far from each other.
# mask: masks that hide some tokens, and the error if a mask hides all tokens from one token.

# %% [markdown]
# ### A map to look at
#
# The cell below has six words, and five yes-or-no features describe each word.
# The projections were chosen so that an article looks for a noun, and a verb looks for something animate.
# Run the cell when `self_attention` works.
# The written questions ask about the picture.

# %%
import matplotlib.pyplot as plt

words = ["the", "cat", "sat", "on", "the", "mat"]
features = ["article", "noun", "verb", "preposition", "animate"]
tokens = np.array(
    [[1, 0, 0, 0, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]], dtype=float
)  # (N, D)
looks_for = 4.0 * np.array([[1, 0], [0, 0], [0, 1], [1, 0], [0, 0]])  # (D, d): nouns, animate things
offers = np.array([[0, 0], [1, 0], [0, 0], [0, 0], [0, 1]])  # (D, d)


def plot_map(weights, words):
    """Draw a row for each query and a column for each key."""
    figure, axes = plt.subplots(figsize=(4.5, 4))
    image = axes.imshow(weights, cmap="viridis", vmin=0, vmax=1)
    axes.set_xticks(range(len(words)), words)
    axes.set_yticks(range(len(words)), words)
    axes.set(xlabel="key: looked at", ylabel="query: looks")
    figure.colorbar(image, label="weight")
    plt.show()


try:
    plot_map(self_attention(tokens, looks_for, offers, np.eye(5))[1], words)
except NotImplementedError as error:
    print("Write self_attention first.", *error.args)

# %% [markdown]
# ## 4 The gradient of attention
#
# You get the gradient of a loss with respect to the output of attention.
# Compute the gradients with respect to queries, keys and values, without a mask.
# Work backwards, one step of `attention` at a time.
#
# <details><summary>Hint</summary>
#
# Two of the steps are matrix products, and the gradient of a matrix product is two matrix products.
# The scale is a constant factor.
# The remaining step is the softmax.
# For one row with weights $p$, let $g$ be the gradient with respect to the weights.
# Then the gradient with respect to the scores is $(\mathrm{diag}(p) - p p^\top)\, g$.
# You do not need to build that matrix.
#
# </details>

# %% [markdown]
# ### Step by step
#
# Five gradients lead from the output back to values, queries and keys.
# Replace each `None` in turn and run the cell.
# It compares each step with central differences: they move one entry at a time and measure how the loss changes.
# Central differences need no formula, but they are far too slow for anything except a check.
# Then put your steps into the function below.

# %%
def slope(loss, array, step=1e-5):
    """Return how much a loss changes with each entry of an array."""
    slopes = np.empty_like(array)
    for place in np.ndindex(array.shape):
        moved = np.zeros_like(array)
        moved[place] = step
        slopes[place] = (loss(array + moved) - loss(array - moved)) / (2 * step)
    return slopes


def check_step(name, mine, loss, array):
    """Print whether a gradient equals the central differences."""
    if mine is None:
        return print(f"{name} –")
    right = slope(loss, array)
    if np.shape(mine) != right.shape:
        return print(f"{name} ✗ expected shape {right.shape}, got {np.shape(mine)}")
    off = np.abs(mine - right).max()
    print(f"{name} ✓" if off < 1e-6 else f"{name} ✗ off by up to {off:.2g}")


rng = np.random.default_rng(0)
queries, keys = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))  # (N_q, d), (N_k, d)
values, grad_output = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))  # (N_k, d_v), (N_q, d_v)
try:
    weights = attention(queries, keys, values)[1]  # (N_q, N_k)
    grad_values = None  # (N_k, d_v)
    grad_weights = None  # (N_q, N_k)
    grad_scores = None  # (N_q, N_k), for the scaled scores, the input of the softmax
    grad_queries = None  # (N_q, d)
    grad_keys = None  # (N_k, d)
    check_step("values ", grad_values, lambda v: (attention(queries, keys, v)[0] * grad_output).sum(), values)
    check_step("weights", grad_weights, lambda w: (w @ values * grad_output).sum(), weights)
    check_step("scores ", grad_scores, lambda s: (softmax(s) @ values * grad_output).sum(), np.log(weights))
    check_step("queries", grad_queries, lambda q: (attention(q, keys, values)[0] * grad_output).sum(), queries)
    check_step("keys   ", grad_keys, lambda k: (attention(queries, k, values)[0] * grad_output).sum(), keys)
except NotImplementedError as error:
    print("Write softmax and attention first.", *error.args)

# %% [markdown]
# ### All steps in one function
#
# Write the same five steps as a function, for any number of leading axes.

# %% exercise="attention_backward"

# %% visible="attention_backward"
run_tests("attention_backward", attention_backward)
# values: the gradient of the values.
# queries: the gradient of the queries.
# keys: the gradient of the keys.
# axes: leading axes.
# far: scores far from each other.

# %% [markdown]
# ## 5 In your own words
#
# Write your answer in the cell below each question, three to six sentences each.
# A person reads them.
#
# **5.1 (2 points)** Why do we divide the scores by $\sqrt d$, and not by $d$ or by nothing?
# Say what happens to the softmax, and to its gradient, in the other two cases.

# %% [markdown] written="why_scale" points=2

# %% [markdown]
# **5.2 (1 point)** What does the row “sat” of the map above show?
# And why are the two rows “the” equal, although the two words are at different places?

# %% [markdown] written="row_of_the_map" points=1

# %% [markdown]
# **5.3 (2 points)** In which sense is self-attention a network on a fully connected graph?
# Say what the nodes, the edges, the edge weights and the messages are.
# What does a mask do to the graph?

# %% [markdown] written="graph_network" points=2

# %% [markdown]
# ## 6 A bonus: a softmax that never stores a whole row of scores
#
# A bonus gives points in addition to the 20, and you lose nothing if you leave it out.
# The section [The online softmax](book/attention.md) goes through the keys of one query in blocks.
# Write the step for one block.
# It takes `largest`, `total` and `mixed` after the earlier blocks, and returns them after this block.
# It works for all queries at once and with leading axes, and the score of a hidden key is $-\infty$.
#
# <details><summary>Hint</summary>
#
# Before this block, the exponentials use the largest score of the earlier blocks as their reference.
# Which factor changes them to a larger reference?
# And which number do you subtract from the scores of a row that has seen no key yet?
#
# </details>

# %% exercise="online_softmax" bonus=true

# %% visible="online_softmax"
run_tests("online_softmax", online_softmax)
# values: a block with a larger score, a block without one, and the first block, with leading axes.
# hidden: hidden keys, and rows that have seen no key.

# %% [markdown]
# ## Submit
#
# On Colab, choose *Runtime → Restart session and run all*.
# Then choose *File → Download → Download .ipynb*, and submit that file.
