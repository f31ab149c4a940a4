# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercise 5: debugging
#
# Six programs are broken, and you fix them. Then you change sides: you write a test, and it is judged by the wrong
# attentions that it catches. No fault changes a shape or raises an error, so that you have to measure before you change
# anything; the chapter [Debugging](book/debugging.md) shows how.
#
# | exercise | points | minutes | difficulty |
# | --- | --- | --- | --- |
# | 1 stays near chance: `train_shuffled`, `train_clipped` or `initialise` | 2 | 10 | medium |
# | 2 learns, and not far enough: `RowClassifier`, `ResidualStack` or `learning_rate` | 2 | 10 | medium |
# | 3 right in training, wrong in evaluation: `DroppingHead`, `Standardise` or `SkippedBranch` | 2 | 10 | medium |
# | 4 right for one image: `cut_patches`, `standardise_images` or `pack_heads` | 2 | 15 | medium |
# | 5 slow: `similarities`, `mean_loss` or `loss_and_accuracy` | 2 | 10 | easy |
# | 6 wrong only with a mask: `mean_of_existing`, `pooled` or `loss_of_existing` | 2 | 10 | medium |
# | 7 `test_attention` | 8 | 55 | hard |
#
# Of each symptom there is one program in this notebook; another class may have another one.
#
# **How to work.** Run the cells from top to bottom. The docstring of a program says what it should do, and the cell above it
# what is wrong. The cell below it shows the symptom: run it, change it, print what you want to know. When you know the
# fault, fix it with as few lines as it needs; one or two are enough. The test cell compares what the program does with
# what it should do, and does not name the fault, for that is your part.
#
# **Rules.** Keep names and arguments, and the names of what an `__init__` sets. How you fix them is free: what a program does is judged,
# and not its text. Do not delete cells; you may add cells of your own. Nothing here needs a GPU. Before you submit,
# choose *Runtime → Restart session and run all* and look whether every test cell is content.

# %% setup="debugging"

# %% [markdown]
# ## 0 Instruments
#
# The programs are tried on 1,797 small digits of scikit-learn, of which 1,400 are there to train on. `report` prints which
# share of the images a model classifies rightly. Chance is 10 %.

# %%
GRADED = "GRADING" in os.environ  # then nobody looks at a symptom, and a few images show that all runs


def digits():
    """Return images (M, 8, 8) and labels to train on, and others that are held out."""
    if GRADED:
        return torch.rand(20, 8, 8), torch.arange(20) % 10, torch.rand(10, 8, 8), torch.arange(10)
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = torch.tensor(images[order] / 16, dtype=torch.float32).reshape(-1, 8, 8), torch.tensor(labels[order])
    return images[:1400], labels[:1400], images[1400:], labels[1400:]


def net(hidden=64, depth=1):
    """Make a small network for images of 8 x 8 pixels, always the same."""
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
    """Print which share of the images a model classifies rightly, in evaluation."""
    model.eval()
    with torch.no_grad():
        pairs = (IMAGES, LABELS), (OTHERS, THEIRS)
        shares = [100 * (model(images).argmax(-1) == labels).float().mean() for images, labels in pairs]
    print(f"{shares[0]:.1f} % of the images trained on, {shares[1]:.1f} % of the others")


IMAGES, LABELS, OTHERS, THEIRS = digits()

# %% [markdown]
# ## 1 Stays near chance
#
# The loss hardly falls, or not at all. Ask what would have to happen in one step, and look whether it does: which number should be
# other afterwards, and which loss should a model have that knows nothing, $\ln 10 = 2.30$?

# %% [markdown] of="train_shuffled"
# **Symptom.** After ten epochs the model knows no more than at first, on the very images that it was trained on.

# %% program="train_shuffled"
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    loss = train_shuffled(model, IMAGES, LABELS, optimizer, torch.randperm(len(LABELS)), 64)
print(f"loss {loss:.3f}")
report(model)
# values: the losses, and where the parameters are after two epochs.
# sizes: other numbers of images, and other sizes of a batch.

# %% [markdown] of="train_clipped"
# **Symptom.** In the tenth epoch the loss is the same as before the first.

# %% program="train_clipped"
model = net()
before = F.cross_entropy(model(IMAGES), LABELS)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    loss = train_clipped(model, batches(IMAGES, LABELS), optimizer, 1.0)
print(f"loss {before:.3f} before the first epoch, {loss:.3f} in the last")
report(model)
# values: the losses, and where the parameters are after two epochs, with and without clipping.
# sizes: other sizes of a batch, and other norms.

# %% [markdown] of="initialise"
# **Symptom.** A network of seven layers, initialised by this function, begins with a loss of many millions, and stays at chance.

# %% program="initialise"
torch.manual_seed(0)
model = initialise(net(hidden=256, depth=5))
print(f"first loss {F.cross_entropy(model(IMAGES), LABELS):.3g}")
report(fit(model, optimizer=torch.optim.SGD, rate=0.1))
# values: mean and spread of the matrices, the biases, and layers that are not linear.
# sizes: layers of other sizes.

# %% [markdown]
# ## 2 Learns, and not far enough
#
# The accuracy climbs, and stays where it should not. Something that should learn, or should be seen, does not take part. Which
# numbers are the same after the training as before it, and to which is the output blind?

# %% [markdown] of="RowClassifier"
# **Symptom.** The rows of an image may be exchanged, and the scores stay as they are. A digit upside down is the same digit.

# %% program="RowClassifier"
torch.manual_seed(0)
model = fit(RowClassifier(rows=8, pixels=8, width=16, classes=10))
report(model)
with torch.no_grad():
    print(f"upside down, the scores move by {(model(IMAGES.flip(1)) - model(IMAGES)).abs().max():.2g}")
# values: output, gradient of the images, and how many numbers are learned.
# sizes: other sizes.

# %% [markdown] of="ResidualStack"
# **Symptom.** With eight layers the model has as many parameters as with none, and learns the images no better.

# %% program="ResidualStack"
for depth in (0, 8):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), ResidualStack(inputs=64, width=16, depth=depth, classes=10))
    print(f"depth {depth}: {sum(p.numel() for p in model.parameters())} parameters")
    report(fit(model))
# values: output, gradient of the inputs, and how many numbers are learned.
# sizes: other sizes.

# %% [markdown] of="learning_rate"
# **Symptom.** After the first epoch of twenty nothing changes any more.

# %% program="learning_rate"
for epochs in (1, 20):
    print(f"{epochs} epochs:")
    report(fit(net(), epochs, schedule=lambda step: learning_rate(step, 22, epochs, 1e-3)))
# values: the learning rate at some steps.
# sizes: other numbers of steps and epochs.

# %% [markdown]
# ## 3 Right in training, wrong in evaluation
#
# The same program, and the same numbers, in another mode. Call it twice with the same input, in each mode, and look at means.

# %% [markdown] of="DroppingHead"
# **Symptom.** In evaluation the same image gets another score each time, so that the three lines differ. With a right head
# they are equal, near 55 %; this small model reaches no more.

# %% program="DroppingHead"
torch.manual_seed(0)
model = fit(nn.Sequential(nn.Linear(8, 64), nn.GELU(), DroppingHead(width=64, classes=10, dropout=0.5)))
for _ in range(3):
    report(model)
# values: evaluation, and mean and spread in training.
# sizes: other sizes, and other shares.

# %% [markdown] of="Standardise"
# **Symptom.** The loss falls nicely in training. In evaluation the very same images are classified worse, by far.

# %% program="Standardise"
torch.manual_seed(0)
layers = nn.Linear(64, 64), Standardise(width=64, momentum=0.1), nn.GELU(), nn.Linear(64, 10)
model = fit(nn.Sequential(nn.Flatten(), *layers))
print(f"loss in training {F.cross_entropy(model.train()(IMAGES), LABELS):.3f}, ", end="")
print(f"in evaluation {F.cross_entropy(model.eval()(IMAGES), LABELS):.3f}")
report(model)
# values: the results in training, their gradient, and the results in evaluation after three batches.
# sizes: other sizes, momenta and numbers of batches.

# %% [markdown] of="SkippedBranch"
# **Symptom.** In evaluation the branch counts for more than it ever did in training.

# %% program="SkippedBranch"
layer, x, branch = SkippedBranch(skipped=0.5), torch.zeros(10_000, 1, 1), torch.ones(10_000, 1, 1)
print(f"mean in training {layer.train()(x, branch).mean():.2f}, in evaluation {layer.eval()(x, branch).mean():.2f}")
# values: means in training and in evaluation, and whether images are skipped whole.
# sizes: other sizes, and other shares.

# %% [markdown]
# ## 4 Right for one image
#
# With a batch of one, everything is right. The test of this kind of fault is the cheapest of all: run an image alone, run it
# with others, and compare.

# %% [markdown] of="cut_patches"
# **Symptom.** For one image the patches are right. In a batch they belong to other images.

# %% program="cut_patches"
alone, together = cut_patches(IMAGES[:1], 4), cut_patches(IMAGES[:3], 4)
print(f"of the first image, {(alone[0] != together[0]).float().mean():.0%} of the pixels change when two others join it")
# values: the patches of one image and of several.
# sizes: other sizes.

# %% [markdown] of="standardise_images"
# **Symptom.** An image is as it should be alone, and changes when a brighter one joins the batch.

# %% program="standardise_images"
pair = torch.stack([IMAGES[0], 5 * IMAGES[1]])
alone, together = standardise_images(pair[:1])[0], standardise_images(pair)[0]
for name, image in (("alone", alone), ("together", together)):
    print(f"{name}: mean {image.mean():.2f}, std {image.std(correction=0):.2f}")
# values: one image and several.
# sizes: other sizes.

# %% [markdown] of="pack_heads"
# **Symptom.** Attention that gets its heads from here is right for one image. In a batch it mixes images.

# %% program="pack_heads"
x = torch.arange(2 * 1 * 4.0).reshape(2, 1, 4)  # two images of one token
print("image 0:", x[0, 0].tolist(), " image 1:", x[1, 0].tolist())
print("heads in pairs:", pack_heads(x, 2)[:, 0].tolist())
# values: the heads of one image and of several.
# sizes: other sizes, and other numbers of heads.

# %% [markdown]
# ## 5 Slow
#
# The numbers are right. Do not guess where the time goes: count what is called, and how often, when the input grows.

# %% [markdown] of="similarities"
# **Symptom.** With four times as many tokens it takes sixteen times as long; a product of two matrices of this size takes no time at all.

# %% program="similarities"
import time

for tokens in (25, 100):
    begun = time.perf_counter()
    similarities(torch.ones(1, tokens, 8))
    print(f"{tokens} tokens: {1000 * (time.perf_counter() - begun):.1f} ms")
# values: the cosines, and whether the operations grow in number with the tokens.
# sizes: other sizes.

# %% [markdown] of="mean_loss"
# **Symptom.** The memory grows with every batch, until a large evaluation ends the session; the time is that of training.

# %% program="mean_loss"
class Counting(nn.Linear):
    """Counts the calls that leave a graph behind."""

    graphs = 0

    def forward(self, x):
        self.graphs += torch.is_grad_enabled()
        return super().forward(x)


torch.manual_seed(0)
model = Counting(64, 10)
print(f"loss {mean_loss(model, [(OTHERS.flatten(1), THEIRS)] * 10):.3f}, graphs of {model.graphs} batches")
# values: the mean, how often the model is called, and whether a graph is built or gradients are left off.
# sizes: batches of other sizes.

# %% [markdown] of="loss_and_accuracy"
# **Symptom.** An evaluation takes twice as long as it should.

# %% program="loss_and_accuracy"
class Counting(nn.Linear):
    """Counts its calls."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


torch.manual_seed(0)
model = Counting(64, 10)
loss, accuracy = loss_and_accuracy(model, [(OTHERS.flatten(1), THEIRS)] * 10)
print(f"loss {loss:.3f}, accuracy {accuracy:.3f}, {model.calls} calls for 10 batches")
# values: the results, how often the model is called, and whether a graph is built or gradients are left off.
# sizes: batches of other sizes.

# %% [markdown]
# ## 6 Wrong only with a mask
#
# Where every token exists, the numbers are right. What a mask hides may be anything, and must not change what is seen: put
# other numbers behind the mask, and compare.

# %% [markdown] of="mean_of_existing"
# **Symptom.** A text of two tokens has another mean when it is padded to four.

# %% program="mean_of_existing"
tokens, exists = torch.tensor([[[2.0], [4.0], [0.0], [0.0]]]), torch.tensor([[True, True, False, False]])
print("without padding:", mean_of_existing(tokens[:, :2], exists[:, :2]).item())
print("with padding:   ", mean_of_existing(tokens, exists).item())
# values: means of texts of different lengths.
# sizes: other sizes.

# %% [markdown] of="pooled"
# **Symptom.** What is in a token that does not exist moves the result.

# %% program="pooled"
tokens, exists = torch.tensor([[[2.0], [4.0], [0.0], [0.0]]]), torch.tensor([[True, True, False, False]])
for padding in (0.0, 9.0):
    tokens[:, 2:] = padding
    print(f"padding of {padding}:", round(pooled(tokens, torch.ones(1), exists).item(), 4))
# values: mixed tokens of texts of different lengths.
# sizes: other sizes.

# %% [markdown] of="loss_of_existing"
# **Symptom.** The more padding a batch has, the smaller is its loss.

# %% program="loss_of_existing"
logits, labels = torch.zeros(1, 8, 10), torch.zeros(1, 8, dtype=torch.long)
for count in (8, 4, 1):
    exists = (torch.arange(8) < count)[None]
    print(f"{count} of 8 tokens exist: loss {loss_of_existing(logits, labels, exists):.3f}, of which each has 2.303")
# values: the loss of texts of different lengths.
# sizes: other sizes.

# %% [markdown]
# ## 7 Write the test
#
# Somebody else has written the `attend` of exercise 2, and you may call it and not read it. Is it right? Write a test that
# passes what is right and raises `AssertionError` for what is wrong.
#
# The candidates that count stay with the grader: your test gets a stand-in that takes tensors and gives tensors, through
# which gradients flow.
# There are 14 right ones, written in as many ways, and 73 wrong ones, each with one of [the known mistakes](book/mistakes.md) of `attend`.
#
# - Your test must pass **all right ones**. If one is refused, no verdict counts. Rounding differs between them: where
#   scores stay below 50, two results in float32 agree to about `rtol=1e-3, atol=1e-5`; where they stay below 5,000 and
#   values are of the size of 1, to `rtol=1e-3, atol=1e-3`. Keys and values that a mask hides may be as large as 10,000;
#   with infinity or NaN there, right ones differ.
# - The points are for the share of the wrong ones that it refuses: 40, 60, 70, 80, 85, 90, 95 and 100 %. Any error counts as a
#   refusal, as with pytest.
# - A candidate answers only what `attend` is specified for: `q`, `k` and `v` of one shape (B, H, N, d) without a 0, all
#   of float32 or all of float64; a `mask` that is `None` or boolean, of shape (B, N), (B, N, N) or (B, H, N, N). Every
#   candidate, right or wrong, refuses anything else with `ValueError`, so that your test learns nothing from that.
# - A candidate may be called 200 times, with tensors of at most 65,536 numbers and 256 heads of all images together; beyond
#   that it raises `ValueError`. So it does whatever goes wrong in it. It works on copies.
# - Your test runs once with each candidate, and again with some. It has 10 seconds for each run and 30 for all of them;
#   one that takes longer gets no points. What it draws at random is new in each run, unless it sets a seed.
#
# Here are some candidates to try your test on.

# %% given="candidates_to_try"

# %% [markdown]
# <details><summary>Hint</summary>
#
# Where do the right numbers come from? From a second implementation, which may be slow, or PyTorch's own. The work is in
# the inputs: each mistake has inputs on which it does not show. What can be equal in yours that should differ: sizes, masks,
# the size of the scores? And which lines of the specification has no input asked about?
#
# </details>

# %% exercise="test_attention"

# %% visible="test_attention"
run_tests("test_attention", test_attention, candidates_to_try())

# %% [markdown]
# Which candidates does it tell apart so far, and how?

# %%
if not GRADED:
    show_trial(test_attention, candidates_to_try())

# %% grade="test_attention_40" points=1
# 1 point, judged after you submit: no right attention is refused, and 40 % of the wrong ones are.

# %% grade="test_attention_60" points=1
# 1 point, judged after you submit: no right attention is refused, and 60 % of the wrong ones are.

# %% grade="test_attention_70" points=1
# 1 point, judged after you submit: no right attention is refused, and 70 % of the wrong ones are.

# %% grade="test_attention_80" points=1
# 1 point, judged after you submit: no right attention is refused, and 80 % of the wrong ones are.

# %% grade="test_attention_85" points=1
# 1 point, judged after you submit: no right attention is refused, and 85 % of the wrong ones are.

# %% grade="test_attention_90" points=1
# 1 point, judged after you submit: no right attention is refused, and 90 % of the wrong ones are.

# %% grade="test_attention_95" points=1
# 1 point, judged after you submit: no right attention is refused, and 95 % of the wrong ones are.

# %% grade="test_attention_100" points=1
# 1 point, judged after you submit: no right attention is refused, and 100 % of the wrong ones are.

# %% [markdown]
# ## Submit
#
# On Colab: *Runtime → Restart session and run all*, then *File → Download → Download .ipynb*, and submit that file.
