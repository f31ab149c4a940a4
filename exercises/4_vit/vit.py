# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercise 4: a Vision Transformer on MNIST
#
# You cut images into patches, build a model that reads them, train it, and look at where it looks. Nearly every mistake on
# the way keeps all shapes and trains well above 90 %; the tests below tell you which one you made. The chapters
# [Patches](book/patches.md), [Training](book/training.md) and [Looking inside](book/looking_inside.md) hold all that you need.
#
# | exercise | points | minutes | difficulty |
# | --- | --- | --- | --- |
# | 1 `patchify` | 3 | 25 | medium |
# | 2 `PatchEmbedding` | 3 | 15 | easy |
# | 3 `ViT` | 6 | 35 | medium |
# | 4 `train_epoch`, `evaluate` | 4 | 30 | medium |
# | 5 train it, and submit `vit.pt` | 6 | 25 | easy |
# | 6 `attention_rollout` | 3 | 20 | medium |
# | 7 a figure of your own, written questions | 4 | 30 | hard |
#
# **How to work.** Run the cells from top to bottom. Write your code instead of `raise NotImplementedError()`. The test
# cell after it compares what you wrote with results that were computed in advance, by PyTorch's and torchvision's own
# functions and models, and names the likely mistake. The points are given after you submit, by the same kind of test on other sizes and inputs.
#
# **Rules.** Keep the names and arguments, and the names of the parts under *Attributes*: the tests load weights into
# them. You may use PyTorch's layers and functions, and give a class further methods. An `__init__` begins with
# `super().__init__()`. Do not delete cells; you may add cells of your own. Before you submit,
# choose *Runtime → Restart session and run all* and look whether every test cell is content.

# %% setup="vit"

# %% [markdown]
# ## 0 What is there
#
# A GPU makes the training of section 5 shorter, and is needed for nothing else. On Colab: *Runtime → Change runtime type → T4
# GPU*, and then run the cells again from the top. The cell says what you have, and how long the training takes with it.

# %%
if torch.cuda.is_available():
    print(f"There is a GPU, {torch.cuda.get_device_name()}. Section 5 trains on all of MNIST.")
    print("On a T4 that takes less than 3 minutes, by our estimate.")
else:
    print("There is no GPU. Everything runs; section 5 trains a small version, in less than 3 minutes.")
    print("It falls short of 98 %, so give yourself a GPU before you submit.")

# %% [markdown]
# **Given: the encoder.** You wrote encoder blocks in exercise 3. These are PyTorch's own, pre-norm and with GELU, with a norm
# behind the last.

# %% given="Encoder"

# %% [markdown]
# ## 1 Patches
#
# A transformer reads a row of tokens, and an image is a grid of pixels. Cut it into squares of $P \times P$ pixels that tile it, in
# reading order, and write the pixels of each square in one row: first all of channel 0, row by row, then channel 1.
#
# <details><summary>Hint</summary>
#
# Number the pixels of a 4×4 image from 0 to 15: the first patch of size 2 holds 0, 1, 4, 5. `reshape` and `view` never move a number in
# memory, they only say again where the axes end. So split the height into (rows, P) and the width into (columns, P), which
# makes six axes; bring them into the order (image, row, column, channel, P, P); and only then join what belongs together.
#
# </details>

# %% exercise="patchify"

# %% visible="patchify"
run_tests("patchify", patchify)
# values: images of one channel.
# channels: images of several channels, and patches of a single pixel.
# edges: images that are no squares, and a ValueError where patches do not tile the image.

# %% [markdown]
# ## 2 Patch embedding
#
# Each patch becomes a token of width $D$ by one linear layer, the same for all patches. A convolution whose stride is as large as its
# kernel does both at once, cutting and projecting, and does it fast.
#
# <details><summary>Hint</summary>
#
# `nn.Conv2d` gives (B, D, rows, columns): a grid with the components in front. Tokens are (B, N, D). Which axes have to be joined, and which two
# have to change places?
#
# </details>

# %% exercise="PatchEmbedding"

# %% visible="PatchEmbedding"
run_tests("PatchEmbedding", PatchEmbedding)
# values: the tokens, for several sizes and channels.
# learning: gradients, the shapes of weight and bias, and that the images are left alone.
# edges: a ValueError for sizes that do not fit each other, and for images of another size.

# %% [markdown]
# ## 3 The model
#
# In front of the patches stands one more token, the **class token**, which is the same for all images and is learned. To every token a
# position is added, which is learned too. The encoder lets the tokens look at each other, and a linear layer reads the
# class scores, the logits, off the class token. You may use your `PatchEmbedding`; if it has a mistake, you do not pay for it twice.
#
# <details><summary>Hint</summary>
#
# How many tokens are there, and how many positions? `expand` repeats an axis of size 1 without a copy; `torch.cat` joins along an axis
# that exists. A tensor learns when it is an `nn.Parameter`. The scores are what cross-entropy expects: it takes the softmax itself.
#
# </details>

# %% exercise="ViT"

# %% visible="ViT"
run_tests("ViT", ViT)
# parts: the shapes of all parts, with and without arguments.
# reading: the head reads the class token.
# positions: every token has a position of its own, and no image sees another.
# values: the scores, equal to those of torchvision's VisionTransformer with the same parameters.
# learning: gradients, the number of learned numbers, and that the images are left alone.
# dropout: dropout acts on the tokens with their positions and in the encoder, and in training alone.

# %% [markdown]
# ## 4 An epoch, and an evaluation
#
# Two functions that you will use for years. They know nothing of ViTs: any model, any optimizer. What they return are means over *images*: the last
# batch is often smaller, and must not weigh more for that. The batches may come from a list or from a generator, which has no length and
# can be read once. `train_epoch` reports on each batch as the model met it, with the scores from before its step.
#
# <details><summary>Hint</summary>
#
# Three calls for each batch, in an order that matters: PyTorch *adds* to the gradients that are there. `F.cross_entropy` gives the mean
# over a batch: with how many images must it be weighted? An evaluation should leave no trace: which mode was the model in, and
# who puts it back? `with torch.no_grad():` builds no graph.
#
# </details>

# %% exercise="train_epoch"

# %% visible="train_epoch"
run_tests("train_epoch", train_epoch)
# steps: where the steps lead, the mode of the model, and whether a small net learns 64 images.
# means: loss and accuracy, with a smaller last batch, and with batches from a generator.

# %% exercise="evaluate"

# %% visible="evaluate"
run_tests("evaluate", evaluate)
# means: loss and accuracy, with a smaller last batch, and with batches from a generator.
# unchanged: parameters, buffers, gradients and mode are as they were, and no graph is built.

# %% [markdown]
# ## 5 Train it
#
# Train your ViT on MNIST, and submit what it has learned: **a file `vit.pt` next to this notebook**. The grader loads
# it into a `ViT()` of its own, and shows it MNIST's 10,000 test images, which are not in this notebook. What the file
# can do counts, and not what this notebook says of it. Code in it is not run.
#
# | what is asked for | points |
# | --- | --- |
# | `vit.pt` holds the weights of a `ViT()` with its defaults | 1 |
# | at least 90 % of the test images are recognised | 1 |
# | at least 95 % | 1 |
# | at least 97 % | 1 |
# | at least 98 % | 2 |
#
# The cells below are given. They use your `ViT`, `train_epoch` and `evaluate`; as long as one of these is not written,
# they say so, and nothing else is lost. On a GPU they train on 55,000 images, on a T4 in less than 3 minutes by our
# estimate. Without a GPU they run a small version by themselves, in less than 3 minutes too. It shows that all works.
#
# The last 5,000 training images are the **validation images**: by them you compare your choices. Who compares by the test
# images has none left for the end, for the best of many results on them promises more than the model can do.

# %%
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

GRADED = "GRADING" in os.environ  # then there is no network, and a few steps show that all runs


def load_images():
    """Return the images' name, images (B, 1, 28, 28) in [0, 1], their classes, and how many are to train on."""
    try:
        if GRADED:
            raise OSError("no network")
        import torchvision

        mnist = torchvision.datasets.MNIST(os.environ.get("MNIST_ROOT", "data"), download=True)
        return "MNIST", mnist.data[:, None] / 255, mnist.targets, 55_000
    except (OSError, RuntimeError) as error:
        print(f"Warning: MNIST cannot be had ({str(error).splitlines()[0]}).")
        print("1,450 digits of scikit-learn stand in for it: all figures differ.")
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))[:1450]  # the others are held out
    images = torch.tensor(digits.images[order] / 16, dtype=torch.float32)[:, None]  # (B, 1, 8, 8)
    images = F.interpolate(images, size=(28, 28), mode="bilinear")  # (B, 1, 28, 28)
    return "stand-in", images, torch.tensor(digits.target[order]), 1300


# %%
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    torch.set_num_threads(1)  # the arrays are small: more threads would wait for each other
NAME, images, labels, count = load_images()
images, labels = ((images - 0.1307) / 0.3081).to(DEVICE), labels.to(DEVICE)  # mean and std of MNIST's training images
TRAINING = images[:count], labels[:count]
VALIDATION = images[count:], labels[count:]
print(f"{NAME}: {count:,} images to train on and {len(labels) - count:,} to validate, on {DEVICE}.")


def batches(images, labels, size, shuffle=False):
    """Yield pairs of images and classes; the last may be smaller."""
    order = torch.randperm(len(labels)) if shuffle else torch.arange(len(labels))
    for some in order.to(labels.device).split(size):
        yield images[some], labels[some]


# %% [markdown]
# **Your choices.** These lines are yours to change. What does a rate do that is ten times as high, or as low? For how
# many epochs does the validation accuracy still grow? Change one thing at a time.
#
# The second line is for what chapter 9 has shown. `shift` moves each training image by up to so many pixels, another way in
# each epoch. `position_std` is the standard deviation of the positions at first; `None` leaves them as your `ViT` makes them.
# `optimizer` is the name of one in `torch.optim`.

# %%
CHOICES = dict(epochs=15, learning_rate=2e-3, batch_size=256, weight_decay=0.05, seed=0)
CHOICES |= dict(shift=0, position_std=None, optimizer="AdamW")
SMALL = DEVICE == "cpu" or NAME != "MNIST"  # False: all of it on a CPU too, which takes a quarter of an hour or more

# %% [markdown]
# **The training.** The learning rate rises over the first tenth of the steps, and falls back to 0 along a cosine. After
# each epoch all that is needed to go on is kept in a file. When Colab has ended the session, open the notebook again, run
# the cells up to here, and run these: they go on after the last epoch that was finished. For that the file must outlive
# the session, so **connect your Drive first**: the folder symbol at the left, then *Mount Drive*.

# %%
DRIVE = Path("/content/drive/MyDrive")
PLACE = DRIVE / "4_vit" if DRIVE.is_dir() else Path()
PLACE.mkdir(exist_ok=True)


def with_rate(batches, optimizer, step, steps, highest):
    """Pass batches on, and set the learning rate before each: up for a tenth of the steps, then down to 0."""
    for step, batch in enumerate(batches, step):
        rate = min((step + 1) / (0.1 * steps), 0.5 + 0.5 * math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = highest * rate
        yield batch


def moved(batches, most):
    """Pass batches on, each image moved by at most so many pixels along each axis; what comes in is black."""
    for images, classes in batches:
        down, right = torch.randint(2 * most + 1, (2, len(images), 1), device=images.device)  # (B, 1) each
        rows, columns = (start + torch.arange(28, device=images.device) for start in (down, right))  # (B, 28) each
        padded = F.pad(images, [most] * 4, value=-0.1307 / 0.3081)
        image = torch.arange(len(images), device=images.device)[:, None, None]
        yield padded[image, 0, rows[:, :, None], columns[:, None]][:, None], classes


def kept(path, choices):
    """Return the state that an earlier training with the same choices and the same ViT has left, if there is one."""
    state = torch.load(path, map_location=DEVICE, weights_only=True) if path.exists() else {}
    if state.get("choices") != choices:
        return {}
    model = ViT().to(DEVICE)
    try:
        model.load_state_dict(state["model"])
        now, then = evaluate(model, batches(*VALIDATION, 500))[1], state["history"][-1][2]
    except RuntimeError:  # other names or shapes
        now, then = 0.0, 1.0
    if abs(now - then) > 0.01:
        print("Your ViT has changed since it was trained: the training begins again.")
        return {}
    print(f"{path} holds {len(state['history'])} of {choices['epochs']} epochs; to begin again, delete it.")
    return state


# %%
def train(choices):
    """Train a ViT, and keep its state after every epoch. Return it, and loss and both accuracies by epoch."""
    path = PLACE / ("vit_training_small.pt" if "images" in choices else "vit_training.pt")
    state = kept(path, choices)
    torch.manual_seed(choices["seed"])
    model = ViT().to(DEVICE)
    if choices["position_std"] is not None:
        torch.nn.init.normal_(model.position_embedding, std=choices["position_std"])
    optimizer = getattr(torch.optim, choices["optimizer"])(model.parameters(), weight_decay=choices["weight_decay"])
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    history = state.get("history", [])
    chosen = [part[: choices.get("images")] for part in TRAINING]
    steps = math.ceil(len(chosen[1]) / choices["batch_size"])  # of an epoch
    for epoch in range(len(history), choices["epochs"]):
        torch.manual_seed(1000 * choices["seed"] + epoch)  # the same order of images after a break
        begun, shuffled = time.time(), batches(*chosen, choices["batch_size"], shuffle=True)
        shuffled = moved(shuffled, choices["shift"]) if choices["shift"] else shuffled
        rated = with_rate(shuffled, optimizer, epoch * steps, choices["epochs"] * steps, choices["learning_rate"])
        history.append((*train_epoch(model, rated, optimizer), evaluate(model, batches(*VALIDATION, 500))[1]))
        state = dict(choices=choices, model=model.state_dict(), optimizer=optimizer.state_dict(), history=history)
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        loss, right, validation = history[-1]
        seconds = time.time() - begun
        print(f"epoch {epoch + 1}: loss {loss:.4f}, right {right:.2%}; validation {validation:.2%}; {seconds:.0f} s")
    return model, history


# %%
def is_written():
    """Whether ViT, train_epoch and evaluate are more than what was given out."""
    two = [(torch.zeros(2, 1, 28, 28), torch.tensor([3, 5]))]
    try:
        model = ViT(depth=1)
        train_epoch(model, two, torch.optim.SGD(model.parameters(), lr=0.0))
        evaluate(model, two)
    except NotImplementedError as error:
        if error.args:  # not the template's own error
            raise
        return False
    return True


choices = dict(CHOICES)
if SMALL:
    choices |= dict(images=min(20_000, count), epochs=60_000 // min(20_000, count), batch_size=128)
if GRADED:
    choices |= dict(images=256, epochs=1)
    print("One short epoch shows that all runs. What counts is the vit.pt that was submitted.")
model, history = train(choices) if is_written() else (None, [])
if model is None:
    print("ViT, train_epoch or evaluate is not written yet, so nothing is trained. All else can go on.")

# %% [markdown]
# **The file.** `vit.pt` holds the weights and nothing else. On Colab your browser is asked to save it. It also lies below
# the folder symbol at the left or, if you connected your Drive, in its folder `4_vit`. **Submit two files: this notebook
# and `vit.pt`.** Do not rename it, and do not put it into an archive.

# %%
if model is not None:
    if (PLACE / "vit.pt").exists() and SMALL:
        print(f"{PLACE / 'vit.pt'} is there already. The small version leaves it alone; delete it to have a new one.")
    else:
        torch.save(model.state_dict(), PLACE / "vit.pt")
        print(f"{PLACE / 'vit.pt'} is written: {history[-1][2]:.2%} of the validation images are recognised.")
    if "google.colab" in sys.modules:
        sys.modules["google.colab"].files.download(str(PLACE / "vit.pt"))

# %% grade="checkpoint_loads" points=1 file="vit.pt"
# 1 point, judged after you submit: vit.pt holds the weights of a ViT().

# %% grade="checkpoint_90" points=1 file="vit.pt" least="0.90"
# 1 point, judged after you submit: with them it recognises at least 90 % of MNIST's test images.

# %% grade="checkpoint_95" points=1 file="vit.pt" least="0.95"
# 1 point, judged after you submit: at least 95 %.

# %% grade="checkpoint_97" points=1 file="vit.pt" least="0.97"
# 1 point, judged after you submit: at least 97 %.

# %% grade="checkpoint_98" points=2 file="vit.pt" least="0.98"
# 2 points, judged after you submit: at least 98 %.

# %% [markdown]
# ## 6 Where it looks
#
# Each block mixes the tokens by its attention. What reaches the class token at the end has gone through all of them, so one has to follow it through
# all of them. **Rollout** does: it averages the heads, counts for half of each token what attention brought and for half the
# stream that passed it by, and multiplies the blocks.
#
# **Given: the maps.** This function returns the weights of every block and head.

# %% given="attention_maps"

# %% [markdown]
# <details><summary>Hint</summary>
#
# Row $i$ of a matrix says what token $i$ is mixed from. Block 2 mixes what block 1 has made: on which side of the product does its matrix stand?
# Weights and unit matrix each have rows that sum to 1. Which sum must their mixture have?
#
# </details>

# %% exercise="attention_rollout"

# %% visible="attention_rollout"
run_tests("attention_rollout", attention_rollout)
# one_block: a single block.
# values: several blocks.
# edges: as many images as heads and blocks, two tokens, weights near 0 and 1.

# %% [markdown]
# ## 7 A figure of your own
#
# The cell below draws a few digits and, under each, the rollout over its patches. It is a beginning. Make a figure in its place that asks
# something: do the heads of one block differ? Does the map move when the image does? Where does the model look when it is wrong? How far apart are
# the tokens that look at each other, block by block? Label the axes, and say what the colours mean.

# %%
import matplotlib.pyplot as plt


def draw_rollout(model, images):
    """Draw images, (B, 1, 28, 28), and under each what its patches contribute to the class token."""
    rollout = attention_rollout(attention_maps(model, images))[:, 1:]  # (B, N)
    side = round(rollout.shape[1] ** 0.5)
    _, axes = plt.subplots(2, len(images), figsize=(1.5 * len(images), 3.2), squeeze=False, layout="constrained")
    for image, row, (above, below) in zip(images, rollout, axes.T):
        above.imshow(image[0].cpu(), cmap="gray")
        shown = below.imshow(row.unflatten(0, (side, side)).cpu(), vmin=0, vmax=float(rollout.max()), cmap="viridis")
        above.axis("off")
        below.set(xticks=[], yticks=[])
    axes[1, 0].set_ylabel("patches")
    plt.colorbar(shown, ax=axes, label="rollout of the class token")
    plt.show()


try:
    if model is not None:
        draw_rollout(model, VALIDATION[0][:6])
except NotImplementedError as error:
    if error.args:  # not the template's own error
        raise
    print("There is nothing to draw as long as attention_rollout is not written.")

# %% [markdown]
# Write in the cell below each question. Four to eight sentences each; a person reads them, and looks at your figure in the
# file that you submit.
#
# **7.1 (2 points)** Which question does your figure ask, and of which images, blocks and heads? What does it show? Name at
# least two things that can be seen in it, with a number each.

# %% [markdown] written="figure" points=2

# %% [markdown]
# **7.2 (2 points)** What does your figure *not* tell about why the model answers as it does? Name one other thing that you would
# measure, or change in the model, to find out, and say what each outcome would mean.

# %% [markdown] written="reading" points=2

# %% [markdown]
# ## Submit
#
# On Colab: *Runtime → Restart session and run all*, then *File → Download → Download .ipynb*, and submit two files: this notebook and
# `vit.pt`.
