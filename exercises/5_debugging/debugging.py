# %% [markdown]
# # Exercise 5: debugging
#
# Six programs are broken, and you fix them.
# Then you change sides and write a test: the more wrong attention functions it catches, the more points it gets.
# No fault changes a shape or raises an error, so you have to measure before you change anything.
# The chapter [Debugging](book/debugging.md) shows how.
#
# | exercise | points | minutes | difficulty |
# | --- | --- | --- | --- |
# | 1 stays near chance: `train_clipped` | 2 | 10 | medium |
# | 2 learns, but not enough: `ResidualStack` | 2 | 10 | medium |
# | 3 right in training, wrong in evaluation: `DroppingHead` | 2 | 10 | medium |
# | 4 right for one image: `standardise_images` | 2 | 15 | medium |
# | 5 slow: `loss_and_accuracy` | 2 | 10 | easy |
# | 6 wrong only with a mask: `pooled` | 2 | 10 | medium |
# | 7 `test_attention` | 8 | 55 | hard |
#
# **How to work.** Run the cells from top to bottom.
# The docstring of a program says what it should do, and the text above it says what is wrong.
# The cell below it shows the symptom: run it, change it, print what you want to know.
# When you know the fault, fix it with as few lines as possible; one or two are enough.
# The test cell compares what the program does with what it should do.
# It does not name the fault, because finding it is your task.
#
# **Rules.** Keep names and arguments, and the names of the attributes that an `__init__` sets.
# You may fix a program in any way: the tests judge what it does, not its text.
# Do not delete cells; you may add your own cells.
# You need no GPU.
# Before you submit, choose *Runtime → Restart session and run all*, and check that every test passes.

# %% setup="debugging"

# %% [markdown]
# ## 0 Instruments
#
# The programs run on 1,797 small digits of scikit-learn; 1,400 of them are for training.
# `report` prints the share of the images that a model classifies correctly.
# Chance is 10 %.

# %%
GRADED = "GRADING" in os.environ  # the grader uses a few images to show that everything runs


def digits():
    """Return images (M, 8, 8) and labels for training, and other images and labels that are not trained on."""
    if GRADED:
        return torch.rand(20, 8, 8), torch.arange(20) % 10, torch.rand(10, 8, 8), torch.arange(10)
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = torch.tensor(images[order] / 16, dtype=torch.float32).reshape(-1, 8, 8), torch.tensor(labels[order])
    return images[:1400], labels[:1400], images[1400:], labels[1400:]


def net(hidden=64, depth=1):
    """Make a small network for images of 8 x 8 pixels; it always starts from the same parameters."""
    torch.manual_seed(0)
    layers = [part for _ in range(depth) for part in (nn.Linear(hidden, hidden), nn.GELU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.GELU(), *layers, nn.Linear(hidden, 10))


def batches(images, labels, size=64):
    """Return shuffled pairs of images and labels."""
    order = torch.randperm(len(labels))
    return [(images[some], labels[some]) for some in order.split(size)]


def fit(model, epochs=10, optimizer=torch.optim.Adam, rate=3e-3, schedule=None):
    """Train a model; `schedule` gives the learning rate of each step."""
    optimizer, step = optimizer(model.parameters(), lr=rate), 0
    for _ in range(1 if GRADED else epochs):
        model.train()
        for images, labels in batches(IMAGES, LABELS):
            if schedule is not None:
                optimizer.param_groups[0]["lr"] = schedule(step)
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
    return model


def report(model):
    """Print the share of the images that a model classifies correctly, in evaluation."""
    model.eval()
    with torch.no_grad():
        pairs = (IMAGES, LABELS), (OTHERS, THEIRS)
        shares = [100 * (model(images).argmax(-1) == labels).float().mean() for images, labels in pairs]
    print(f"correct: {shares[0]:.1f} % of the training images, {shares[1]:.1f} % of the other images")


IMAGES, LABELS, OTHERS, THEIRS = digits()

# %% [markdown]
# ## 1 Stays near chance
#
# The loss hardly falls, or does not fall at all.
# Ask what must happen in one step, and check whether it happens.
# Which number should have changed after the step?
# What is the loss of a model that knows nothing? It is $\ln 10 = 2.30$.

# %% [markdown]
# **Symptom.** In the tenth epoch the loss is the same as before the first epoch.

# %% program="train_clipped"
model = net()
before = F.cross_entropy(model(IMAGES), LABELS)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    loss = train_clipped(model, batches(IMAGES, LABELS), optimizer, 1.0)
print(f"loss {before:.3f} before the first epoch, {loss:.3f} in the last")
report(model)
# values: the losses, and the parameters after two epochs, with and without clipping.
# sizes: other batch sizes, and other norms.

# %% [markdown]
# ## 2 Learns, but not enough
#
# The accuracy rises, but stops too early.
# Some part of the model should learn but never changes, or some input should be used but is ignored.
# Which numbers are the same before and after the training?
# On which numbers does the output not depend?

# %% [markdown]
# **Symptom.** With eight layers the model has as many parameters as with no layer, and it learns the images no better.

# %% program="ResidualStack"
for depth in (0, 8):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), ResidualStack(inputs=64, width=16, depth=depth, classes=10))
    print(f"depth {depth}: {sum(p.numel() for p in model.parameters())} parameters")
    report(fit(model))
# values: output, gradient of the inputs, and the number of learned parameters.
# sizes: other sizes.

# %% [markdown]
# ## 3 Right in training, wrong in evaluation
#
# The program is the same and the numbers are the same; only the mode differs.
# In each mode, call it twice with the same input, and compare the means of its results.

# %% [markdown]
# **Symptom.** In evaluation, the same image gets different logits each time, so the three lines differ.
# With a correct program they are equal, near 55 %; this small model does not reach more.

# %% program="DroppingHead"
torch.manual_seed(0)
model = fit(nn.Sequential(nn.Linear(8, 64), nn.GELU(), DroppingHead(width=64, classes=10, dropout=0.5)))
for _ in range(3):
    report(model)
# values: evaluation, and mean and standard deviation in training.
# sizes: other sizes, and other shares of dropout.

# %% [markdown]
# ## 4 Right for one image
#
# With a batch of one image, everything is right.
# The test for this kind of fault is the cheapest of all: run an image alone, run it together with others, and compare.

# %% [markdown]
# **Symptom.** The result is right for an image alone, and it changes when a brighter image joins the batch.

# %% program="standardise_images"
pair = torch.stack([IMAGES[0], 5 * IMAGES[1]])
alone, together = standardise_images(pair[:1])[0], standardise_images(pair)[0]
for name, image in (("alone", alone), ("together", together)):
    print(f"{name}: mean {image.mean():.2f}, std {image.std(correction=0):.2f}")
# values: one image and several.
# sizes: other sizes.

# %% [markdown]
# ## 5 Slow
#
# The numbers are right.
# Do not guess where the time goes.
# Count the calls, and measure how their number grows with the input.

# %% [markdown]
# **Symptom.** An evaluation takes twice as long as it should.

# %% program="loss_and_accuracy"
class Counting(nn.Linear):
    """Count its calls."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


torch.manual_seed(0)
model = Counting(64, 10)
loss, accuracy = loss_and_accuracy(model, [(OTHERS.flatten(1), THEIRS)] * 10)
print(f"loss {loss:.3f}, accuracy {accuracy:.3f}, {model.calls} calls for 10 batches")
# values: the results, how often the model is called, whether a graph is built, and whether gradients stay off afterwards.
# sizes: batches of other sizes.

# %% [markdown]
# ## 6 Wrong only with a mask
#
# If every token exists, the numbers are right.
# Tokens that a mask hides may have any values, and these values must not change the result.
# Put other numbers into the hidden tokens, and compare.

# %% [markdown]
# **Symptom.** The values of a token that does not exist change the result.

# %% program="pooled"
tokens, exists = torch.tensor([[[2.0], [4.0], [0.0], [0.0]]]), torch.tensor([[True, True, False, False]])
for padding in (0.0, 9.0):
    tokens[:, 2:] = padding
    print(f"padding of {padding}:", round(pooled(tokens, torch.ones(1), exists).item(), 4))
# values: mixed tokens of texts of different lengths.
# sizes: other sizes.

# %% [markdown]
# ## 7 Write the test
#
# Other people have written the `attend` of exercise 2: each of their functions is a **candidate**.
# Write a test that passes if a candidate is right, and raises `AssertionError` if it is wrong.
# Your test can call a candidate, but not read it.
#
# The candidates on which your points depend stay with the grader.
# In their place, your test gets a function that asks the grader for a candidate's results.
# This function takes tensors and returns tensors, and gradients flow through it.
# There are 14 right candidates, written in different ways.
# There are 73 wrong candidates; each has one of [the known mistakes](book/mistakes.md) of `attend`.
#
# - **Right candidates.** Your test must pass **all right candidates**.
#   If it refuses one of them, you get no points.
#   Right candidates differ in rounding.
#   In float32, if scores stay below 50, two results agree to about `rtol=1e-3, atol=1e-5`.
#   If scores stay below 5,000 and values have a size near 1, they agree to `rtol=1e-3, atol=1e-3`.
#   Keys and values that a mask hides may be as large as 10,000.
#   If hidden keys or values are infinite or NaN, right candidates differ.
# - **Reference.** Your test may compare a candidate with any function: PyTorch's, your own, or a right candidate of the next cell.
#   The points depend on the inputs that you choose.
# - **Points.** Your test gets a point for each of these shares of the wrong candidates that it refuses:
#   40, 60, 70, 80, 85, 90, 95 and 100 %.
#   Any error counts as a refusal, as in pytest.
# - **Inputs.** A candidate accepts only inputs that the specification of `attend` allows.
#   `q`, `k` and `v` have the same shape (B, H, N, d), and no size is 0; they are all float32 or all float64.
#   The `mask` is `None` or boolean, of shape (B, N), (B, N, N) or (B, H, N, N).
#   Every candidate, right or wrong, raises `ValueError` for anything else, so other inputs tell your test nothing.
#   A mask may hide all keys from a query: the specification says what `attend` does then.
# - **Limits.** In each run you may call a candidate 200 times.
#   A tensor may have at most 65,536 numbers, N may be at most 512, and B · H at most 256.
#   Beyond these limits a candidate raises `ValueError`.
#   An error inside a candidate also becomes a `ValueError`.
#   A candidate works on copies of your tensors.
# - **Time.** Your test runs once with each candidate, and again with some.
#   It has 10 seconds for each run and 30 seconds for all runs; a slower test gets no points.
#   Random numbers are new in each run, unless your test sets a seed.
#
# The next cell has some candidates on which you can try your test.

# %% given="candidates_to_try"

# %% [markdown]
# <details><summary>Hint</summary>
#
# Where do the right numbers come from?
# Use a second implementation, which may be slow, or PyTorch's own.
# The work is in the inputs: for each mistake there are inputs that do not reveal it.
# Which things are equal in your inputs and should differ: sizes, masks, the size of the scores?
# And which lines of the specification does none of your inputs test?
#
# </details>

# %% exercise="test_attention"

# %% visible="test_attention"
run_tests("test_attention", test_attention, candidates_to_try())

# %% [markdown]
# Which candidates does your test accept so far, and which does it refuse?

# %%
if not GRADED:
    from attention_tests.debugging import show_trial

    show_trial(test_attention, candidates_to_try())

# %% grade="test_attention_40" points=1
# 1 point, judged after you submit: your test refuses no right attention function, and at least 40 % of the wrong ones.

# %% grade="test_attention_60" points=1
# 1 point, judged after you submit: your test refuses no right attention function, and at least 60 % of the wrong ones.

# %% grade="test_attention_70" points=1
# 1 point, judged after you submit: your test refuses no right attention function, and at least 70 % of the wrong ones.

# %% grade="test_attention_80" points=1
# 1 point, judged after you submit: your test refuses no right attention function, and at least 80 % of the wrong ones.

# %% grade="test_attention_85" points=1
# 1 point, judged after you submit: your test refuses no right attention function, and at least 85 % of the wrong ones.

# %% grade="test_attention_90" points=1
# 1 point, judged after you submit: your test refuses no right attention function, and at least 90 % of the wrong ones.

# %% grade="test_attention_95" points=1
# 1 point, judged after you submit: your test refuses no right attention function, and at least 95 % of the wrong ones.

# %% grade="test_attention_100" points=1
# 1 point, judged after you submit: your test refuses no right attention function, and all of the wrong ones.

# %% [markdown]
# ## Submit
#
# On Colab, choose *Runtime → Restart session and run all*.
# Then choose *File → Download → Download .ipynb*, and submit that file.
