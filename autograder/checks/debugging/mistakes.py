"""The known mistakes of assignment 5_debugging: what is wrong with a test, and the faults of the programs."""

from autograder.judging.mistake import Mistake, way

MISTAKES = (
    # ------------------------------------------------------------------------------------------------------ programs
    Mistake(
        "M183",
        "the labels are not those of the images",
        "The model gets images and labels that do not belong together. Do both go through the same order?",
        way("train_shuffled", "labels[chosen]", "labels[start : start + size]"),
        way("train_shuffled", "images[chosen]", "images[start : start + size]"),
    ),
    Mistake(
        "M184",
        "the gradients are gone before the step",
        "The parameters do not move. In which order come the gradients' zero, the backward pass, the clipping and the step?",
        way(
            "train_clipped",
            "        optimizer.zero_grad()\n        loss.backward()\n",
            "        loss.backward()\n        optimizer.zero_grad()\n",
        ),
        way(
            "train_shuffled",
            "        optimizer.zero_grad()\n        loss.backward()\n",
            "        loss.backward()\n        optimizer.zero_grad()\n",
        ),
    ),
    Mistake(
        "M53",
        way("train_clipped", "        optimizer.zero_grad()\n", ""),
        way("train_shuffled", "        optimizer.zero_grad()\n", ""),
    ),
    Mistake(
        "M56",
        way(
            "train_shuffled",
            "loss.item() * len(chosen)",
            "loss.item()",
            "total / len(order)",
            "total / math.ceil(len(order) / size)",
        ),
        way("train_clipped", "loss.item() * len(labels)", "loss.item()", "count += len(labels)", "count += 1"),
    ),
    Mistake("M40", way("initialise", "std=layer.in_features**-0.5", "std=1.0")),
    Mistake("M46", way("RowClassifier", "self.embedding(images) + self.position_embedding", "self.embedding(images)")),
    Mistake(
        "M94",
        way(
            "ResidualStack",
            "nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])",
            "[nn.Linear(width, width) for _ in range(depth)]",
        ),
    ),
    Mistake(
        "M38",
        way(
            "ResidualStack",
            "[nn.Linear(width, width) for _ in range(depth)]",
            "[nn.Linear(width, width)] * depth",
        ),
    ),
    Mistake(
        "M186",
        "the learning rate is 0 too early",
        "Nothing changes after a while. At which step does the learning rate reach 0, and how many steps are there?",
        way("learning_rate", "step / (epochs * steps_per_epoch)", "step / steps_per_epoch"),
        way("learning_rate", "step / (epochs * steps_per_epoch)", "step / epochs"),
    ),
    Mistake(
        "M29",
        way("DroppingHead", "F.dropout(mean, self.dropout, training=self.training)", "F.dropout(mean, self.dropout)"),
    ),
    Mistake(
        "M187",
        "there is no dropout",
        "Training and evaluation give the same. Where is the dropout?",
        way("DroppingHead", "F.dropout(mean, self.dropout, training=self.training)", "mean"),
    ),
    Mistake(
        "M188",
        "what training has seen is not kept",
        "In evaluation the means and variances are not those of training. Print the buffers after a few batches: do they move?",
        way(
            "Standardise",
            "self.mean.lerp_(mean.detach(), self.momentum)",
            "self.mean.lerp(mean.detach(), self.momentum)",
            "self.variance.lerp_(variance.detach(), self.momentum)",
            "self.variance.lerp(variance.detach(), self.momentum)",
        ),
        way("Standardise", "self.variance.lerp_(", "self.variance.lerp("),
        way("Standardise", "self.mean.lerp_(", "self.mean.lerp("),
    ),
    Mistake("M30", way("SkippedBranch", "branch * kept / (1 - self.skipped)", "branch * kept")),
    Mistake(
        "M189",
        "images are mixed where axes are joined",
        "For one image the result is right. Which axis comes first when axes are joined, and is it that of the images?",
        way("cut_patches", "cut.permute(0, 1, 3, 2, 4)", "cut.permute(1, 3, 0, 2, 4)"),
        way("pack_heads", "heads.permute(0, 2, 1, 3)", "heads.permute(2, 0, 1, 3)"),
    ),
    Mistake(
        "M190",
        "all images of a batch share one mean, or one deviation",
        "An image changes when another one joins the batch. Over which axes are mean and deviation taken?",
        way(
            "standardise_images",
            "images.mean(dim=(1, 2), keepdim=True)",
            "images.mean()",
            "centred.square().mean(dim=(1, 2), keepdim=True)",
            "centred.square().mean()",
        ),
        way("standardise_images", "images.mean(dim=(1, 2), keepdim=True)", "images.mean()"),
        way("standardise_images", "centred.square().mean(dim=(1, 2), keepdim=True)", "centred.square().mean()"),
    ),
    Mistake(
        "M191",
        "a loop over tokens in Python",
        "The numbers are right, and the work grows with every token. Which one product of tensors does all of it?",
        way(
            "similarities",
            "    return unit @ unit.mT  # (B, N, N)",
            "    rows = []\n"
            "    for query in unit.unbind(dim=1):\n"
            "        rows.append(torch.stack([(query * key).sum(dim=-1) for key in unit.unbind(dim=1)], dim=1))\n"
            "    return torch.stack(rows, dim=1)  # (B, N, N)",
        ),
    ),
    Mistake(
        "M52",
        way(
            "mean_loss",
            "    with torch.no_grad():\n        for images, labels in batches:\n            losses",
            "    for images, labels in batches:\n        losses",
        ),
        way("mean_loss", "    model.eval()\n", ""),
        way("loss_and_accuracy", "    model.eval()\n", ""),
    ),
    Mistake(
        "M192",
        "the model runs twice for one batch",
        "The numbers are right, and come in twice the time. How often does the model see a batch?",
        way("loss_and_accuracy", "(logits.argmax(dim=-1) == labels)", "(model(images).argmax(dim=-1) == labels)"),
    ),
    Mistake(
        "M185",
        "padding counts in a mean",
        "Without padding the mean is right. By what is the sum divided, and which terms are in it?",
        way("mean_of_existing", "(tokens * exists).sum(dim=1) / exists.sum(dim=1)", "(tokens * exists).mean(dim=1)"),
        way("mean_of_existing", "(tokens * exists).sum(dim=1)", "tokens.sum(dim=1)"),
        way("loss_of_existing", "losses[exists].mean()", "(losses * exists).mean()"),
        way("loss_of_existing", "losses[exists].mean()", "losses.mean()"),
    ),
    Mistake(
        "M18",
        way("pooled", "scores.masked_fill(~exists, -torch.inf).softmax(dim=-1)", "(scores * exists).softmax(dim=-1)"),
    ),
    Mistake(
        "M17",
        way("pooled", "scores.masked_fill(~exists, -torch.inf).softmax(dim=-1)", "scores.softmax(dim=-1) * exists"),
    ),
    Mistake("M16", way("pooled", "~exists", "exists")),
    # ---------------------------------------------------------------------------------------------------------- tests
    Mistake(
        "M180",
        "the test refuses what is right",
        "A right attention fails your test, so that none of its verdicts counts. Is it stricter than rounding allows, or does it "
        "ask for what the specification does not say?",
        way("test_attention", "torch.allclose(got, right, rtol=1e-3, atol=1e-5)", "torch.equal(got, right)"),
        way("test_attention", "except ValueError", "except TypeError"),
        way("test_attention", "expected.softmax(-1)", "expected.softmax(-2)"),
    ),
    Mistake(
        "M181",
        "the test lets everything through",
        "No wrong attention fails your test. Does it assert something, and does the assertion run?",
        way(
            "test_attention",
            "    generator = torch.Generator().manual_seed(0)\n",
            "    return\n    generator = torch.Generator().manual_seed(0)\n",
        ),
        way("test_attention", "((2, 3, 5, 7), (4, 4, 6, 3), (1, 1, 1, 2))", "()"),
    ),
    Mistake(
        "M182",
        "the test lets several mistakes through",
        "Your test is right, and sees too little. Which of the lines of the specification does it not ask about?",
        # the shapes alone; no large scores; no mask; the weights alone; one image and one head
        way("test_attention", "assert torch.allclose(got, right, rtol=1e-3, atol=1e-5), ", "assert True, "),
        way("test_attention", "(1.0, 30.0)", "(1.0,)"),
        way("test_attention", "((images, tokens), (images, tokens, tokens), (images, heads, tokens, tokens))", "()"),
        way("test_attention", "((weights, expected), (output, expected @ v))", "((weights, expected),)"),
        way("test_attention", "((2, 3, 5, 7), (4, 4, 6, 3), (1, 1, 1, 2))", "((1, 1, 5, 7),)"),
        way(
            "test_attention",
            "((images, tokens), (images, tokens, tokens), (images, heads, tokens, tokens))",
            "((images, tokens),)",
        ),
    ),
    Mistake(
        "M20",
        way("test_attention", "assert refused", "assert True"),
    ),
    Mistake("M86", way("test_attention", "((weights, expected), (output, expected @ v))", "((output, expected @ v),)")),
)
