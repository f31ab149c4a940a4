# %% [markdown]
# # Exercise 4: a Vision Transformer on MNIST
#
# You cut images into patches, build a model that reads them, train it, and see where it looks.
# Nearly every mistake on the way keeps all shapes, and with many mistakes the model still learns to read digits.
# The tests below tell you which mistake you made.
# The chapters [Patches](book/patches.md), [Training](book/training.md) and [Looking inside](book/looking_inside.md)
# explain everything that you need.
#
# | exercise | points | minutes | difficulty |
# | --- | --- | --- | --- |
# | 1 `patchify` | 3 | 10 | easy |
# | 2 `PatchEmbedding` | 3 | 15 | easy |
# | 3 `ViT` | 6 | 35 | medium |
# | 4 `train_epoch`, `evaluate` | 4 | 30 | medium |
# | 5 train it, and submit `vit.pt` | 6 | 25 | easy |
# | 6 `attention_rollout` | 3 | 20 | medium |
# | 7 your own figure, written questions | 4 | 30 | hard |
#
# **How to work.** Run the cells from top to bottom.
# Replace `raise NotImplementedError()` with your code.
# Then run the test cell below it.
# The test compares your results with those of PyTorch's and torchvision's own functions and models.
# It names the likely mistake.
# You get the points after you submit: then the same kind of test runs on other sizes and inputs.
#
# **Rules.** Keep the names and arguments, and the names under *Attributes*: the tests load parameters into these parts.
# You may use PyTorch's layers and functions, and you may add methods to a class.
# An `__init__` begins with `super().__init__()`.
# Do not delete cells; you may add your own cells.
# Before you submit, choose *Runtime → Restart session and run all*, and check that every test passes.

# %% setup="vit"

# %% [markdown]
# ## 0 What you have
#
# A GPU makes the training in section 5 faster; nothing else needs one.
# On Colab, choose *Runtime → Change runtime type → T4 GPU*, and run the cells again from the top.
# The cell below says whether you have a GPU, and how long the training takes with it.

# %%
if torch.cuda.is_available():
    print(f"There is a GPU, {torch.cuda.get_device_name()}. Section 5 trains on all of MNIST.")
    print("On a T4 that takes less than 3 minutes, by our estimate.")
else:
    print("There is no GPU. Everything runs; section 5 trains a small version, in less than 3 minutes.")
    print("The small version does not reach 98 %, so choose a GPU before you submit.")
    print("If Colab gives you none, set SMALL = False in section 5: the training then takes 15 minutes or more.")

# %% [markdown]
# **Given: the encoder.** You wrote encoder blocks in exercise 3.
# The `Encoder` below uses PyTorch's own blocks instead: pre-norm, with GELU, and with a norm after the last block.

# %% given="Encoder"

# %% [markdown]
# ## 1 Patches
#
# A transformer reads a sequence of tokens, but an image is a grid of pixels.
# Cut the image into squares of $P \times P$ pixels in reading order; the squares cover the image without overlap.
# Write the pixels of each square in one row: first all of channel 0, row by row, then channel 1.
#
# <details><summary>Hint</summary>
#
# Number the pixels of a 4×4 image from 0 to 15: the first patch of size 2 holds 0, 1, 4, 5.
# `reshape` and `view` never change the order of the numbers; they only group them into other axes.
# So split the height into (rows, P) and the width into (columns, P): this makes six axes.
# Bring them into the order (image, row, column, channel, P, P).
# Merge axes only after that.
#
# </details>
#
# <details><summary>The first lines, with gaps</summary>
#
# Replace each `____`:
#
# ```python
# B, C, height, width = images.shape
# if ____:
#     raise ValueError("the patches do not tile the image")
# rows, columns = height // patch_size, width // patch_size
# cut = images.reshape(B, C, rows, patch_size, columns, patch_size)
# ordered = cut.permute(____)  # (B, rows, columns, C, P, P)
# return ordered.reshape(____)  # (B, N, C·P·P)
# ```
#
# </details>

# %% exercise="patchify"

# %% visible="patchify"
run_tests("patchify", patchify)
# values: images of one channel.
# channels: images with several channels, and patches of a single pixel.
# edges: images that are not square, and a ValueError if the patches do not tile the image.

# %% [markdown]
# ## 2 Patch embedding
#
# One linear layer turns each patch into a token of width $D$; the layer is the same for all patches.
# A convolution whose stride equals its kernel size cuts and projects in one fast step.
#
# <details><summary>Hint</summary>
#
# `nn.Conv2d` returns (B, D, rows, columns): the axis of the components comes before the two axes of the grid.
# Tokens are (B, N, D).
# Which axes do you have to merge, and which two do you have to swap?
#
# </details>

# %% exercise="PatchEmbedding"

# %% visible="PatchEmbedding"
run_tests("PatchEmbedding", PatchEmbedding)
# values: the tokens, for several sizes and channels.
# learning: gradients, the shapes of weight and bias, and that the images are unchanged.
# edges: a ValueError if the patches do not tile the image, and if the images have another size.

# %% [markdown]
# ## 3 The model
#
# One more token comes before the patches: the **class token**, which is learned and is the same for all images.
# A position embedding is added to every token; it is learned too.
# The encoder lets the tokens look at each other.
# The classifier, a linear layer called `head`, computes the logits from the class token.
# You may use your `PatchEmbedding`.
# If it has a mistake, you do not lose points for it again here.
#
# <details><summary>Hint</summary>
#
# How many tokens are there, and how many position embeddings?
# `expand` repeats an axis of size 1 without a copy; `torch.cat` concatenates along an existing axis.
# A tensor learns if it is an `nn.Parameter`.
# Return the logits: cross-entropy computes the softmax itself.
#
# </details>

# %% exercise="ViT"

# %% visible="ViT"
run_tests("ViT", ViT)
# parts: the shapes of all parts, with and without arguments.
# reading: the classifier reads the class token.
# positions: every token has its own position embedding, and no image sees another image.
# values: the logits equal those of torchvision's VisionTransformer with the same parameters.
# learning: gradients, the number of learned parameters, and that the images are unchanged.
# dropout: dropout acts on the tokens plus their positions and in the encoder, only in training.

# %% [markdown]
# ## 4 An epoch, and an evaluation
#
# You will use these two functions for years, because they work with any model and any optimizer.
# They return means over *images*: the last batch is often smaller, and must count less.
# The batches may come from a list or from a generator, which has no length and can be read only once.
# `train_epoch` measures each batch with the logits that it computed before the step on this batch.
#
# <details><summary>Hint</summary>
#
# Each batch needs three calls, and their order matters.
# PyTorch *adds* new gradients to the gradients that are already there.
# `F.cross_entropy` returns the mean over a batch: by which number must you multiply this mean before you add it?
# An evaluation must not change the model: in which mode was the model before, and who restores it?
# Inside `with torch.no_grad():`, PyTorch builds no graph: it keeps nothing for `backward`.
#
# </details>

# %% exercise="train_epoch"

# %% visible="train_epoch"
run_tests("train_epoch", train_epoch)
# steps: the parameters after the steps, the mode of the model, and whether a small network learns 64 images.
# means: loss and accuracy, with a smaller last batch, and with batches from a generator.

# %% exercise="evaluate"

# %% visible="evaluate"
run_tests("evaluate", evaluate)
# means: loss and accuracy, with a smaller last batch, and with batches from a generator.
# unchanged: parameters, buffers, gradients and mode do not change, and no graph is built.

# %% [markdown]
# ## 5 Train it
#
# Train your ViT on MNIST, and submit its weights: **a file `vit.pt` next to this notebook**.
# The grader loads the file into its own `ViT()`.
# Then it shows this model MNIST's 10,000 test images, which are not in this notebook.
# The grader measures what the file can do; it ignores what this notebook prints about it.
# Code in the file is not run.
#
# | what is asked for | points |
# | --- | --- |
# | `vit.pt` holds the weights of a `ViT()` with its defaults | 1 |
# | at least 90 % of the test images are recognised | 1 |
# | at least 95 % | 1 |
# | at least 97 % | 1 |
# | at least 98 % | 2 |
#
# The cells below are given.
# They use your `ViT`, `train_epoch` and `evaluate`.
# If one of these is not written yet, the cells say so, and the rest of the notebook still runs.
# On a GPU they train on 55,000 images, by our estimate in less than 3 minutes on a T4.
# Without a GPU they train a small version, also in less than 3 minutes; it shows that everything works.
#
# The last 5,000 training images are the **validation images**: use them to compare your choices.
# Do not compare choices on the test images.
# The best of many test results is higher than what the model achieves on new images.
# After such a comparison, no unused image is left for the final test.
# MNIST's test images are a little harder: our models recognised 0 to 0.6 percentage points less of them than of the validation images.

# %%
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

GRADED = "GRADING" in os.environ  # the grader has no network; it runs a few steps to show that everything runs


def load_images():
    """Return a name, images (B, 1, 28, 28) in [0, 1], their labels, and how many of them are for training."""
    try:
        if GRADED:
            raise OSError("no network")
        import torchvision

        mnist = torchvision.datasets.MNIST(os.environ.get("MNIST_ROOT", "data"), download=True)
        return "MNIST", mnist.data[:, None] / 255, mnist.targets, 55_000
    except (OSError, RuntimeError) as error:
        print(f"Warning: MNIST is not available ({str(error).splitlines()[0]}).")
        print("1,450 digits of scikit-learn are used instead: all numbers differ.")
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))[:1450]  # the grader tests with the others
    images = torch.tensor(digits.images[order] / 16, dtype=torch.float32)[:, None]  # (B, 1, 8, 8)
    images = F.interpolate(images, size=(28, 28), mode="bilinear")  # (B, 1, 28, 28)
    return "stand-in", images, torch.tensor(digits.target[order]), 1300


# %%
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    torch.set_num_threads(1)  # the arrays are small, so more threads would only wait for each other
NAME, images, labels, count = load_images()
images, labels = ((images - 0.1307) / 0.3081).to(DEVICE), labels.to(DEVICE)  # mean and std of MNIST's training images
TRAINING = images[:count], labels[:count]
VALIDATION = images[count:], labels[count:]
print(f"{NAME}: {count:,} training images and {len(labels) - count:,} validation images, on {DEVICE}.")


def batches(images, labels, size, shuffle=False):
    """Yield pairs of images and labels; the last pair may be smaller."""
    order = torch.randperm(len(labels)) if shuffle else torch.arange(len(labels))
    for some in order.to(labels.device).split(size):
        yield images[some], labels[some]


# %% [markdown]
# **Your choices.** You may change these lines.
# A new training replaces `vit.pt`, even if the result is worse, so keep a copy of your best file.
# What happens if the learning rate is ten times as high, or ten times as low?
# After how many epochs does the validation accuracy stop growing?
# Change one thing at a time.
#
# The second line has three options from the chapter on [training](book/training.md).
# `shift` moves each training image by up to this many pixels, differently in each epoch.
# `position_std` is the initial standard deviation of the position embeddings; `None` keeps those of your `ViT`.
# `optimizer` is a name such as `"AdamW"`, `"Adam"` or `"SGD"`; PyTorch's `"Muon"` accepts only matrices, so it fails here.
#
# We trained a right ViT with several seeds on a GPU.
# The table only shows what you can expect: compare your own choices on the validation images.
#
# | choices | test images recognised |
# | --- | --- |
# | `shift=0` | 97.9 to 98.3 % (8 seeds) |
# | `shift=1`, as below | 98.8 to 98.9 % (4 seeds) |
# | `shift=1` and `position_std=0.5` | 99.0 to 99.1 % (4 seeds) |

# %%
CHOICES = dict(epochs=15, learning_rate=2e-3, batch_size=256, weight_decay=0.05, seed=0)
CHOICES |= dict(shift=1, position_std=None, optimizer="AdamW")
SMALL = DEVICE == "cpu" or NAME != "MNIST"  # with False, a CPU trains on all images too, in 15 minutes or more

# %% [markdown]
# **The training.** The learning rate rises during the first tenth of the steps, and then falls to 0 along a cosine.
# After each epoch, a file stores everything that is needed to continue.
# If Colab ends the session, open the notebook again, run the cells up to here, and then the cells below.
# The training continues after the last finished epoch.
# The file must survive the session, so **connect your Drive first**: the folder symbol at the left, then *Mount Drive*.

# %%
DRIVE = Path("/content/drive/MyDrive")
PLACE = DRIVE / "4_vit" if DRIVE.is_dir() else Path()
PLACE.mkdir(exist_ok=True)


def with_rate(batches, optimizer, step, steps, highest):
    """Yield the batches. Before each, set the learning rate: it rises for a tenth of the steps, then falls to 0."""
    for step, batch in enumerate(batches, step):
        rate = min((step + 1) / (0.1 * steps), 0.5 + 0.5 * math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = highest * rate
        yield batch


def moved(batches, most):
    """Yield the batches with each image moved by at most this many pixels along each axis; new pixels are black."""
    for images, classes in batches:
        down, right = torch.randint(2 * most + 1, (2, len(images), 1), device=images.device)  # (B, 1) each
        rows, columns = (start + torch.arange(28, device=images.device) for start in (down, right))  # (B, 28) each
        padded = F.pad(images, [most] * 4, value=-0.1307 / 0.3081)
        image = torch.arange(len(images), device=images.device)[:, None, None]
        yield padded[image, 0, rows[:, :, None], columns[:, None]][:, None], classes


def kept(path, choices):
    """Return the state of an earlier training with the same choices and the same ViT; {} if there is none."""
    state = torch.load(path, map_location=DEVICE, weights_only=True) if path.exists() else {}
    if state.get("choices") != choices:
        return {}
    model = ViT().to(DEVICE)
    try:
        model.load_state_dict(state["model"])
        now, then = evaluate(model, batches(*VALIDATION, 500))[1], state["history"][-1][2]
    except RuntimeError:  # the stored parameters have other names or shapes
        now, then = 0.0, 1.0
    if abs(now - then) > 0.01:
        print("Your ViT has changed since it was trained, so the training starts again.")
        return {}
    print(f"{path} holds {len(state['history'])} of {choices['epochs']} epochs; delete it to start again.")
    return state


# %%
def train(choices):
    """Train a ViT and save its state after every epoch. Return the model, and each epoch's loss and two accuracies."""
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
    steps = math.ceil(len(chosen[1]) / choices["batch_size"])  # per epoch
    for epoch in range(len(history), choices["epochs"]):
        torch.manual_seed(1000 * choices["seed"] + epoch)  # after a break, the order of the images is the same
        begun, shuffled = time.time(), batches(*chosen, choices["batch_size"], shuffle=True)
        shuffled = moved(shuffled, choices["shift"]) if choices["shift"] else shuffled
        rated = with_rate(shuffled, optimizer, epoch * steps, choices["epochs"] * steps, choices["learning_rate"])
        history.append((*train_epoch(model, rated, optimizer), evaluate(model, batches(*VALIDATION, 500))[1]))
        state = dict(choices=choices, model=model.state_dict(), optimizer=optimizer.state_dict(), history=history)
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        loss, right, validation = history[-1]
        seconds = time.time() - begun
        print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {right:.2%}; validation {validation:.2%}; {seconds:.0f} s")
    return model, history


# %%
def is_written():
    """Return whether ViT, train_epoch and evaluate are written; say so if one is not."""
    two = [(torch.zeros(2, 1, 28, 28), torch.tensor([3, 5]))]
    try:
        model = ViT(depth=1)
        train_epoch(model, two, torch.optim.SGD(model.parameters(), lr=0.0))
        evaluate(model, two)
    except NotImplementedError as error:
        print("ViT, train_epoch or evaluate is not written yet, so nothing is trained.", *error.args)
        print("You can run the other cells.")
        return False
    return True


choices = dict(CHOICES)
if SMALL:
    choices |= dict(images=min(20_000, count), epochs=60_000 // min(20_000, count), batch_size=128)
if GRADED:
    choices |= dict(images=256, epochs=1)
    print("One short epoch shows that everything runs. The points are for the submitted vit.pt.")
model, history = train(choices) if is_written() else (None, [])

# %% [markdown]
# **The file.** `vit.pt` holds only the weights.
# On Colab, your browser asks you to save it.
# You also find it under the folder symbol at the left; if you connected your Drive, it is in its folder `4_vit`.
# **Submit two files: this notebook and `vit.pt`.**
# If your browser calls the file `vit (1).pt`, submit it with this name, but only the newest one.
# Do not put it into an archive.

# %%
if model is not None:
    if (PLACE / "vit.pt").exists() and SMALL:
        print(f"{PLACE / 'vit.pt'} exists already. The small version does not replace it; delete it to get a new one.")
    else:
        torch.save(model.state_dict(), PLACE / "vit.pt")
        print(f"{PLACE / 'vit.pt'} is written. It recognises {history[-1][2]:.2%} of the validation images.")
    if "google.colab" in sys.modules:
        sys.modules["google.colab"].files.download(str(PLACE / "vit.pt"))

# %% grade="checkpoint_loads" points=1 file="vit.pt"
# 1 point, judged after you submit: vit.pt holds the weights of a ViT().

# %% grade="checkpoint_90" points=1 file="vit.pt" least="0.90"
# 1 point, judged after you submit: the model recognises at least 90 % of MNIST's test images.

# %% grade="checkpoint_95" points=1 file="vit.pt" least="0.95"
# 1 point, judged after you submit: at least 95 %.

# %% grade="checkpoint_97" points=1 file="vit.pt" least="0.97"
# 1 point, judged after you submit: at least 97 %.

# %% grade="checkpoint_98" points=2 file="vit.pt" least="0.98"
# 2 points, judged after you submit: at least 98 %.

# %% [markdown]
# ## 6 Where it looks
#
# Each block mixes the tokens by its attention.
# The class token at the end has information that went through all blocks, so we have to follow it through all of them.
# **Rollout** does this.
# It averages the attention weights of a block over its heads.
# It adds the identity, for the residual stream, and halves the sum, so that there is one matrix for each block.
# Then it multiplies the matrices of all blocks.
#
# **Given: the maps.** This function returns the attention weights of every block and head.

# %% given="attention_maps"

# %% [markdown]
# <details><summary>Hint</summary>
#
# Row $i$ of a matrix says which tokens are mixed into token $i$.
# Block 2 mixes the output of block 1: on which side of the product is its matrix?
# The weights and the identity each have rows that sum to 1.
# To which number must each row of their mixture sum?
#
# </details>

# %% exercise="attention_rollout"

# %% visible="attention_rollout"
run_tests("attention_rollout", attention_rollout)
# one_block: the rollout through one block.
# values: the rollout through several blocks.
# edges: as many images as heads and blocks, two tokens, weights near 0 and 1.

# %% [markdown]
# ## 7 Your own figure
#
# The cell below draws a few digits and, under each digit, the rollout over its patches.
# Replace this figure with your own figure, which answers a question.
# Do the heads of one block differ?
# Does the map move when the image moves?
# Where does the model look when it is wrong?
# How far apart are the tokens that look at each other, block by block?
# Label the axes, and say what the colours mean.

# %%
import matplotlib.pyplot as plt


def draw_rollout(model, images):
    """Draw images, (B, 1, 28, 28), and under each image how much its patches contribute to the class token."""
    rollout = attention_rollout(attention_maps(model, images).cpu())[:, 1:]  # (B, N)
    side = round(rollout.shape[1] ** 0.5)
    _, axes = plt.subplots(2, len(images), figsize=(1.5 * len(images), 3.2), squeeze=False, layout="constrained")
    for image, row, (above, below) in zip(images, rollout, axes.T):
        above.imshow(image[0].cpu(), cmap="gray")
        shown = below.imshow(row.unflatten(0, (side, side)), vmin=0, vmax=float(rollout.max()), cmap="viridis")
        above.axis("off")
        below.set(xticks=[], yticks=[])
    axes[1, 0].set_ylabel("patches")
    plt.colorbar(shown, ax=axes, label="rollout of the class token")
    plt.show()


try:
    if model is not None:
        draw_rollout(model, VALIDATION[0][:6])
except NotImplementedError as error:
    print("Write attention_rollout first.", *error.args)

# %% [markdown]
# Write your answer in the cell below each question, four to eight sentences each.
# A person reads them, and looks at your figure in the file that you submit.
#
# **7.1 (2 points)** Which question does your figure ask, and about which images, blocks and heads?
# What does it show?
# Name at least two things that can be seen in it, each with a number.

# %% [markdown] written="figure" points=2

# %% [markdown]
# **7.2 (2 points)** What does your figure *not* tell about why the model answers as it does?
# Name one other thing that you would measure, or change in the model, to find out.
# Say what each outcome would mean.

# %% [markdown] written="reading" points=2

# %% [markdown]
# ## Submit
#
# On Colab, choose *Runtime → Restart session and run all*.
# Then choose *File → Download → Download .ipynb*, and submit two files: this notebook and `vit.pt`.
