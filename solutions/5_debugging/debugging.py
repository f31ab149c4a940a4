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
# Six programs are broken, and you mend them. Then you change sides: you write a test, and it is judged by the wrong
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
# fault, mend it with as few lines as it needs; one or two are enough. The test cell compares what the program does with
# what it should do, and does not name the fault, for that is your part.
#
# **Rules.** Keep names and arguments, and the names of what an `__init__` sets. How you mend is free: what a program does is judged,
# and not its text. Do not delete cells; you may add cells of your own. Nothing here needs a GPU. Before you hand in,
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

# %% broken="train_shuffled" of="train_shuffled"

# %% of="train_shuffled"
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    loss = train_shuffled(model, IMAGES, LABELS, optimizer, torch.randperm(len(LABELS)), 64)
print(f"loss {loss:.3f}")
report(model)

# %% visible="train_shuffled" of="train_shuffled"
run_tests("train_shuffled", measured_by(measure_shuffled)(train_shuffled))

# %% grade="train_shuffled_values" points=1 of="train_shuffled"
# 1 point, judged after you hand in: the loss, and where the parameters stand after two epochs.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("train_shuffled", "values", train_shuffled)
### END HIDDEN TESTS

# %% grade="train_shuffled_sizes" points=1 of="train_shuffled"
# 1 point, judged after you hand in: other numbers of images, and other sizes of a batch.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("train_shuffled", "sizes", train_shuffled)
### END HIDDEN TESTS

# %% [markdown] of="train_clipped"
# **Symptom.** After ten epochs the loss is the same as before the first, to the last digit.

# %% broken="train_clipped" of="train_clipped"

# %% of="train_clipped"
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    loss = train_clipped(model, batches(IMAGES, LABELS), optimizer, 1.0)
print(f"loss {loss:.3f}")
report(model)

# %% visible="train_clipped" of="train_clipped"
run_tests("train_clipped", measured_by(measure_clipped)(train_clipped))

# %% grade="train_clipped_values" points=1 of="train_clipped"
# 1 point, judged after you hand in: the loss, and where the parameters stand after two epochs, with and without clipping.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("train_clipped", "values", train_clipped)
### END HIDDEN TESTS

# %% grade="train_clipped_sizes" points=1 of="train_clipped"
# 1 point, judged after you hand in: other sizes of a batch, and other norms.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("train_clipped", "sizes", train_clipped)
### END HIDDEN TESTS

# %% [markdown] of="initialise"
# **Symptom.** A network of seven layers, initialised by this function, begins with a loss of many millions, and stays at chance.

# %% broken="initialise" of="initialise"

# %% of="initialise"
torch.manual_seed(0)
model = initialise(net(hidden=256, depth=5))
print(f"first loss {F.cross_entropy(model(IMAGES), LABELS):.3g}")
report(fit(model, optimizer=torch.optim.SGD, rate=0.1))

# %% visible="initialise" of="initialise"
run_tests("initialise", measured_by(measure_initialised)(initialise))

# %% grade="initialise_values" points=1 of="initialise"
# 1 point, judged after you hand in: the spread of the matrices, and the biases.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("initialise", "values", initialise)
### END HIDDEN TESTS

# %% grade="initialise_sizes" points=1 of="initialise"
# 1 point, judged after you hand in: layers of other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("initialise", "sizes", initialise)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 Learns, and not far enough
#
# The accuracy climbs, and stays where it should not. Something that should learn, or should be seen, does not take part. Which
# numbers are the same after the training as before it, and to which is the output blind?

# %% [markdown] of="RowClassifier"
# **Symptom.** The rows of an image may be exchanged, and the scores stay as they are. A digit upside down is the same digit.

# %% broken="RowClassifier" of="RowClassifier"

# %% of="RowClassifier"
torch.manual_seed(0)
model = fit(RowClassifier(rows=8, pixels=8, width=16, classes=10))
report(model)
with torch.no_grad():
    print(f"upside down, the scores move by {(model(IMAGES.flip(1)) - model(IMAGES)).abs().max():.2g}")

# %% visible="RowClassifier" of="RowClassifier"
run_tests("RowClassifier", measured_by(measure_model)(RowClassifier))

# %% grade="RowClassifier_values" points=1 of="RowClassifier"
# 1 point, judged after you hand in: output, gradient of the images, and how many numbers are learned.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("RowClassifier", "values", RowClassifier)
### END HIDDEN TESTS

# %% grade="RowClassifier_sizes" points=1 of="RowClassifier"
# 1 point, judged after you hand in: other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("RowClassifier", "sizes", RowClassifier)
### END HIDDEN TESTS

# %% [markdown] of="ResidualStack"
# **Symptom.** With eight layers the model is hardly better than with none.

# %% broken="ResidualStack" of="ResidualStack"

# %% of="ResidualStack"
for depth in (0, 8):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), ResidualStack(inputs=64, width=16, depth=depth, classes=10))
    print(f"depth {depth}: {sum(p.numel() for p in model.parameters())} parameters")
    report(fit(model))

# %% visible="ResidualStack" of="ResidualStack"
run_tests("ResidualStack", measured_by(measure_model)(ResidualStack))

# %% grade="ResidualStack_values" points=1 of="ResidualStack"
# 1 point, judged after you hand in: output, gradient of the inputs, and how many numbers are learned.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("ResidualStack", "values", ResidualStack)
### END HIDDEN TESTS

# %% grade="ResidualStack_sizes" points=1 of="ResidualStack"
# 1 point, judged after you hand in: other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("ResidualStack", "sizes", ResidualStack)
### END HIDDEN TESTS

# %% [markdown] of="learning_rate"
# **Symptom.** After the first epoch of twenty nothing changes any more.

# %% broken="learning_rate" of="learning_rate"

# %% of="learning_rate"
for epochs in (1, 20):
    print(f"{epochs} epochs:")
    report(fit(net(), epochs, schedule=lambda step: learning_rate(step, 22, epochs, 1e-3)))

# %% visible="learning_rate" of="learning_rate"
run_tests("learning_rate", measured_by(measure_schedule)(learning_rate))

# %% grade="learning_rate_values" points=1 of="learning_rate"
# 1 point, judged after you hand in: the learning rate at some steps.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("learning_rate", "values", learning_rate)
### END HIDDEN TESTS

# %% grade="learning_rate_sizes" points=1 of="learning_rate"
# 1 point, judged after you hand in: other numbers of steps and epochs.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("learning_rate", "sizes", learning_rate)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 Right in training, wrong in evaluation
#
# The same program, and the same numbers, in another mode. Call it twice with the same input, in each mode, and look at means.

# %% [markdown] of="DroppingHead"
# **Symptom.** In evaluation the same image gets another score each time.

# %% broken="DroppingHead" of="DroppingHead"

# %% of="DroppingHead"
torch.manual_seed(0)
model = fit(nn.Sequential(nn.Linear(8, 64), nn.GELU(), DroppingHead(width=64, classes=10, dropout=0.5)))
for _ in range(3):
    report(model)

# %% visible="DroppingHead" of="DroppingHead"
run_tests("DroppingHead", measured_by(measure_head)(DroppingHead))

# %% grade="DroppingHead_values" points=1 of="DroppingHead"
# 1 point, judged after you hand in: evaluation, and the mean in training.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("DroppingHead", "values", DroppingHead)
### END HIDDEN TESTS

# %% grade="DroppingHead_sizes" points=1 of="DroppingHead"
# 1 point, judged after you hand in: other sizes, and other shares.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("DroppingHead", "sizes", DroppingHead)
### END HIDDEN TESTS

# %% [markdown] of="Standardise"
# **Symptom.** The loss falls nicely in training. In evaluation the very same images are classified worse, by far.

# %% broken="Standardise" of="Standardise"

# %% of="Standardise"
torch.manual_seed(0)
layers = nn.Linear(64, 64), Standardise(width=64, momentum=0.1), nn.GELU(), nn.Linear(64, 10)
model = fit(nn.Sequential(nn.Flatten(), *layers))
print(f"loss in training {F.cross_entropy(model.train()(IMAGES), LABELS):.3f}, ", end="")
print(f"in evaluation {F.cross_entropy(model.eval()(IMAGES), LABELS):.3f}")
report(model)

# %% visible="Standardise" of="Standardise"
run_tests("Standardise", measured_by(measure_standardise)(Standardise))

# %% grade="Standardise_values" points=1 of="Standardise"
# 1 point, judged after you hand in: the results in training and in evaluation after three batches.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("Standardise", "values", Standardise)
### END HIDDEN TESTS

# %% grade="Standardise_sizes" points=1 of="Standardise"
# 1 point, judged after you hand in: other sizes, momenta and numbers of batches.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("Standardise", "sizes", Standardise)
### END HIDDEN TESTS

# %% [markdown] of="SkippedBranch"
# **Symptom.** In evaluation the branch counts for more than it ever did in training.

# %% broken="SkippedBranch" of="SkippedBranch"

# %% of="SkippedBranch"
layer, x, branch = SkippedBranch(skipped=0.5), torch.zeros(10_000, 1, 1), torch.ones(10_000, 1, 1)
print(f"mean in training {layer.train()(x, branch).mean():.2f}, in evaluation {layer.eval()(x, branch).mean():.2f}")

# %% visible="SkippedBranch" of="SkippedBranch"
run_tests("SkippedBranch", measured_by(measure_skipping)(SkippedBranch))

# %% grade="SkippedBranch_values" points=1 of="SkippedBranch"
# 1 point, judged after you hand in: means in training and in evaluation, and whether images are skipped whole.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("SkippedBranch", "values", SkippedBranch)
### END HIDDEN TESTS

# %% grade="SkippedBranch_sizes" points=1 of="SkippedBranch"
# 1 point, judged after you hand in: other sizes, and other shares.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("SkippedBranch", "sizes", SkippedBranch)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 Right for one image
#
# With a batch of one, everything is right. The test of this kind of fault is the cheapest of all: run an image alone, run it
# with others, and compare.

# %% [markdown] of="cut_patches"
# **Symptom.** For one image the patches are right. In a batch they belong to other images.

# %% broken="cut_patches" of="cut_patches"

# %% of="cut_patches"
alone, together = cut_patches(IMAGES[:1], 4), cut_patches(IMAGES[:3], 4)
print(f"of the first image, {(alone[0] != together[0]).float().mean():.0%} of the pixels change when two others join it")

# %% visible="cut_patches" of="cut_patches"
run_tests("cut_patches", measured_by(measure_function)(cut_patches))

# %% grade="cut_patches_values" points=1 of="cut_patches"
# 1 point, judged after you hand in: the patches of one image and of several.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("cut_patches", "values", cut_patches)
### END HIDDEN TESTS

# %% grade="cut_patches_sizes" points=1 of="cut_patches"
# 1 point, judged after you hand in: other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("cut_patches", "sizes", cut_patches)
### END HIDDEN TESTS

# %% [markdown] of="standardise_images"
# **Symptom.** An image is as it should be alone, and changes when a brighter one joins the batch.

# %% broken="standardise_images" of="standardise_images"

# %% of="standardise_images"
pair = torch.stack([IMAGES[0], 5 * IMAGES[1]])
alone, together = standardise_images(pair[:1])[0], standardise_images(pair)[0]
print(f"alone: mean {alone.mean():.2f}, std {alone.std():.2f}; together: mean {together.mean():.2f}, std {together.std():.2f}")

# %% visible="standardise_images" of="standardise_images"
run_tests("standardise_images", measured_by(measure_function)(standardise_images))

# %% grade="standardise_images_values" points=1 of="standardise_images"
# 1 point, judged after you hand in: one image and several.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("standardise_images", "values", standardise_images)
### END HIDDEN TESTS

# %% grade="standardise_images_sizes" points=1 of="standardise_images"
# 1 point, judged after you hand in: other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("standardise_images", "sizes", standardise_images)
### END HIDDEN TESTS

# %% [markdown] of="pack_heads"
# **Symptom.** Attention that gets its heads from here is right for one image. In a batch it mixes images.

# %% broken="pack_heads" of="pack_heads"

# %% of="pack_heads"
x = torch.arange(2 * 1 * 4.0).reshape(2, 1, 4)  # two images of one token
print("image 0:", x[0, 0].tolist(), " image 1:", x[1, 0].tolist())
print("heads in pairs:", pack_heads(x, 2)[:, 0].tolist())

# %% visible="pack_heads" of="pack_heads"
run_tests("pack_heads", measured_by(measure_function)(pack_heads))

# %% grade="pack_heads_values" points=1 of="pack_heads"
# 1 point, judged after you hand in: the heads of one image and of several.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("pack_heads", "values", pack_heads)
### END HIDDEN TESTS

# %% grade="pack_heads_sizes" points=1 of="pack_heads"
# 1 point, judged after you hand in: other sizes, and other numbers of heads.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("pack_heads", "sizes", pack_heads)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 Slow
#
# The numbers are right. Do not guess where the time goes: count what is called, and how often, when the input grows.

# %% [markdown] of="similarities"
# **Symptom.** With four times as many tokens it takes sixteen times as long; a product of two matrices of this size takes no time at all.

# %% broken="similarities" of="similarities"

# %% of="similarities"
import time

for tokens in (25, 100):
    begun = time.perf_counter()
    similarities(torch.ones(1, tokens, 8))
    print(f"{tokens} tokens: {1000 * (time.perf_counter() - begun):.1f} ms")

# %% visible="similarities" of="similarities"
run_tests("similarities", measured_by(measure_work)(similarities))

# %% grade="similarities_values" points=1 of="similarities"
# 1 point, judged after you hand in: the cosines, and whether the operations grow in number with the tokens.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("similarities", "values", similarities)
### END HIDDEN TESTS

# %% grade="similarities_sizes" points=1 of="similarities"
# 1 point, judged after you hand in: other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("similarities", "sizes", similarities)
### END HIDDEN TESTS

# %% [markdown] of="mean_loss"
# **Symptom.** The memory grows with every batch, until a large evaluation ends the session; the time is that of training.

# %% broken="mean_loss" of="mean_loss"

# %% of="mean_loss"
class Counting(nn.Linear):
    """Counts the calls that leave a graph behind."""

    graphs = 0

    def forward(self, x):
        self.graphs += torch.is_grad_enabled()
        return super().forward(x)


torch.manual_seed(0)
model = Counting(64, 10)
print(f"loss {mean_loss(model, [(OTHERS.flatten(1), THEIRS)] * 10):.3f}, graphs of {model.graphs} batches")

# %% visible="mean_loss" of="mean_loss"
run_tests("mean_loss", measured_by(measure_evaluation)(mean_loss))

# %% grade="mean_loss_values" points=1 of="mean_loss"
# 1 point, judged after you hand in: the mean, how often the model is called, and whether a graph is built.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("mean_loss", "values", mean_loss)
### END HIDDEN TESTS

# %% grade="mean_loss_sizes" points=1 of="mean_loss"
# 1 point, judged after you hand in: batches of other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("mean_loss", "sizes", mean_loss)
### END HIDDEN TESTS

# %% [markdown] of="loss_and_accuracy"
# **Symptom.** An evaluation takes twice as long as it should.

# %% broken="loss_and_accuracy" of="loss_and_accuracy"

# %% of="loss_and_accuracy"
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

# %% visible="loss_and_accuracy" of="loss_and_accuracy"
run_tests("loss_and_accuracy", measured_by(measure_evaluation)(loss_and_accuracy))

# %% grade="loss_and_accuracy_values" points=1 of="loss_and_accuracy"
# 1 point, judged after you hand in: the results, how often the model is called, and whether a graph is built.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("loss_and_accuracy", "values", loss_and_accuracy)
### END HIDDEN TESTS

# %% grade="loss_and_accuracy_sizes" points=1 of="loss_and_accuracy"
# 1 point, judged after you hand in: batches of other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("loss_and_accuracy", "sizes", loss_and_accuracy)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 Wrong only with a mask
#
# Where every token exists, the numbers are right. A mask has a law of its own: what it hides may be anything, and nothing
# that is seen may change.

# %% [markdown] of="mean_of_existing"
# **Symptom.** A text of two tokens has another mean when it is padded to four.

# %% broken="mean_of_existing" of="mean_of_existing"

# %% of="mean_of_existing"
tokens, exists = torch.tensor([[[2.0], [4.0], [0.0], [0.0]]]), torch.tensor([[True, True, False, False]])
print("without padding:", mean_of_existing(tokens[:, :2], exists[:, :2]).item())
print("with padding:   ", mean_of_existing(tokens, exists).item())

# %% visible="mean_of_existing" of="mean_of_existing"
run_tests("mean_of_existing", measured_by(measure_function)(mean_of_existing))

# %% grade="mean_of_existing_values" points=1 of="mean_of_existing"
# 1 point, judged after you hand in: means of texts of different lengths.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("mean_of_existing", "values", mean_of_existing)
### END HIDDEN TESTS

# %% grade="mean_of_existing_sizes" points=1 of="mean_of_existing"
# 1 point, judged after you hand in: other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("mean_of_existing", "sizes", mean_of_existing)
### END HIDDEN TESTS

# %% [markdown] of="pooled"
# **Symptom.** What stands in a token that does not exist moves the result.

# %% broken="pooled" of="pooled"

# %% of="pooled"
tokens, exists = torch.tensor([[[2.0], [4.0], [0.0], [0.0]]]), torch.tensor([[True, True, False, False]])
for padding in (0.0, 9.0):
    tokens[:, 2:] = padding
    print(f"padding of {padding}:", round(pooled(tokens, torch.ones(1), exists).item(), 4))

# %% visible="pooled" of="pooled"
run_tests("pooled", measured_by(measure_function)(pooled))

# %% grade="pooled_values" points=1 of="pooled"
# 1 point, judged after you hand in: mixed tokens of texts of different lengths.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("pooled", "values", pooled)
### END HIDDEN TESTS

# %% grade="pooled_sizes" points=1 of="pooled"
# 1 point, judged after you hand in: other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("pooled", "sizes", pooled)
### END HIDDEN TESTS

# %% [markdown] of="loss_of_existing"
# **Symptom.** The more padding a batch has, the smaller is its loss.

# %% broken="loss_of_existing" of="loss_of_existing"

# %% of="loss_of_existing"
logits, labels = torch.zeros(1, 8, 10), torch.zeros(1, 8, dtype=torch.long)
for count in (8, 4, 1):
    exists = (torch.arange(8) < count)[None]
    print(f"{count} of 8 tokens exist: loss {loss_of_existing(logits, labels, exists):.3f}, of which each has 2.303")

# %% visible="loss_of_existing" of="loss_of_existing"
run_tests("loss_of_existing", measured_by(measure_function)(loss_of_existing))

# %% grade="loss_of_existing_values" points=1 of="loss_of_existing"
# 1 point, judged after you hand in: the loss of texts of different lengths.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("loss_of_existing", "values", loss_of_existing)
### END HIDDEN TESTS

# %% grade="loss_of_existing_sizes" points=1 of="loss_of_existing"
# 1 point, judged after you hand in: other sizes.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("loss_of_existing", "sizes", loss_of_existing)
### END HIDDEN TESTS

# %% [markdown]
# ## 7 Write the test
#
# Somebody else has written the `attend` of exercise 2, and you may call it and not read it. Is it right? Write a test that
# passes what is right and raises `AssertionError` for what is wrong.
#
# The candidates that count stay with the grader: your test gets a stand-in that takes tensors and gives tensors.
# There are 14 right ones, written in as many ways, and 70 wrong ones, each with one of [the known mistakes](book/mistakes.md) of `attend`.
#
# - Your test must pass **all right ones**. Rounding differs between them: two results in float32 agree to about
#   `rtol=1e-3, atol=1e-5`. If one is refused, no verdict counts.
# - The points are for the share of the wrong ones that it refuses: 40, 60, 70, 80, 85, 90, 95 and 100 %. Any error counts as a
#   refusal, as with pytest.
# - A candidate may be called 200 times, with tensors of at most 65,536 numbers and 256 heads of all images together. It works on copies, and
#   `ValueError` is the only error that reaches you. Your test has 10 seconds for each candidate, and 30 for all of them.
#
# Here are some candidates to try your test on.

# %% given="candidates_to_try"

# %% given="try_out"

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
judge_trial(try_out)
say_passed("test_attention")

# %% [markdown]
# Which candidates does it tell apart so far, and how?

# %%
try:
    for name, said in ({} if GRADED else try_out()).items():
        print(f"{name:48} {said[:70]}")
except NotImplementedError:
    print("test_attention is not written yet.")

# %% grade="test_attention_40" points=1
# 1 point, judged after you hand in: no right attention is refused, and 40 % of the wrong ones are.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("test_attention", "40", test_attention)
### END HIDDEN TESTS

# %% grade="test_attention_60" points=1
# 1 point, judged after you hand in: no right attention is refused, and 60 % of the wrong ones are.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("test_attention", "60", test_attention)
### END HIDDEN TESTS

# %% grade="test_attention_70" points=1
# 1 point, judged after you hand in: no right attention is refused, and 70 % of the wrong ones are.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("test_attention", "70", test_attention)
### END HIDDEN TESTS

# %% grade="test_attention_80" points=1
# 1 point, judged after you hand in: no right attention is refused, and 80 % of the wrong ones are.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("test_attention", "80", test_attention)
### END HIDDEN TESTS

# %% grade="test_attention_85" points=1
# 1 point, judged after you hand in: no right attention is refused, and 85 % of the wrong ones are.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("test_attention", "85", test_attention)
### END HIDDEN TESTS

# %% grade="test_attention_90" points=1
# 1 point, judged after you hand in: no right attention is refused, and 90 % of the wrong ones are.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("test_attention", "90", test_attention)
### END HIDDEN TESTS

# %% grade="test_attention_95" points=1
# 1 point, judged after you hand in: no right attention is refused, and 95 % of the wrong ones are.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("test_attention", "95", test_attention)
### END HIDDEN TESTS

# %% grade="test_attention_100" points=1
# 1 point, judged after you hand in: no right attention is refused, and 100 % of the wrong ones are.
### BEGIN HIDDEN TESTS
from autograder.checks.debugging.exercises import check; check("test_attention", "100", test_attention)
### END HIDDEN TESTS

# %% [markdown]
# ## Hand in
#
# On Colab: *Runtime → Restart session and run all*, then *File → Download → Download .ipynb*, and hand in that file.
