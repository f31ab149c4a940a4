"""The known mistakes of assignment 5_debugging: what is wrong with a test, and the faults of the programs."""

from autograder.judge.mistake import Mistake, variant, variants

ABOUT = "Programs to fix, and tests of attention"  # the heading of these mistakes in the book
TRAINING = ("train_shuffled", "train_clipped")

MISTAKES = (
    # ------------------------------------------------------------------------------------------------------ programs
    Mistake(
        "M183",
        "the labels are not those of the images",
        "The model gets images and labels that do not belong together. Do both have the same order?",
        variant("train_shuffled", "labels[chosen]", "labels[start : start + size]"),
        variant("train_shuffled", "images[chosen]", "images[start : start + size]"),
    ),
    Mistake(
        "M184",
        "the gradients are gone before the step, or there is no step",
        "The parameters do not change. In which order do zero_grad, backward, clipping and step run?",
        variant(TRAINING, "        optimizer.step()\n", ""),
    ),
    Mistake("M53", variant(TRAINING, "        optimizer.zero_grad()\n", "")),
    Mistake("M51", variant("train_shuffled", "model(images[chosen])", "model(images[chosen]).softmax(-1)")),
    Mistake("M55", variant("train_shuffled", "return total / len(order)", "return loss.item()")),
    Mistake(
        "M136", variant(TRAINING, "        optimizer.step()\n", "        optimizer.step()\n        optimizer.step()\n")
    ),
    Mistake(
        "M138",
        variant(
            "train_shuffled",
            "labels[chosen])",
            "labels[chosen], reduction='sum')",
            "loss.item() * len(chosen)",
            "loss.item()",
        ),
    ),
    Mistake(
        "M140",
        variant("train_shuffled", "loss.item()", "F.cross_entropy(model(images[chosen]), labels[chosen]).item()"),
        variant("train_clipped", "loss.item()", "F.cross_entropy(model(images), labels).item()"),
    ),
    Mistake("M143", variant("train_shuffled", "range(0, len(order), size)", "range(size, len(order) + size, size)")),
    Mistake(
        "M56",
        variant(
            "train_shuffled",
            "loss.item() * len(chosen)",
            "loss.item()",
            "total / len(order)",
            "total / math.ceil(len(order) / size)",
        ),
        variant("train_clipped", "loss.item() * len(labels)", "loss.item()", "count += len(labels)", "count += 1"),
        variant(
            "loss_and_accuracy",
            ', reduction="sum"',
            "",
            "+= (logits",
            "+= 1 / len(labels) * (logits",
            "len(labels)\n",
            "1\n",
        ),
    ),
    Mistake(
        "M120",
        variant("ResidualStack", "for _ in range(depth)])", "for _ in range(depth)]).requires_grad_(False)"),
    ),
    Mistake("M37", variant("ResidualStack", "x + F.gelu(layer(x))", "F.gelu(layer(x))")),
    Mistake("M41", variant("ResidualStack", "F.gelu(", "F.relu(")),
    Mistake("M96", variant("ResidualStack", "F.gelu(layer(x))", "layer(x)")),
    Mistake("M102", variant("ResidualStack", "range(depth)", "range(depth - 1)")),
    Mistake("M112", *variants("ResidualStack", "x + F.gelu(layer(x))", "F.gelu(x + layer(x))", "x + layer(F.gelu(x))")),
    Mistake(
        "M94",
        variant(
            "ResidualStack",
            "nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])",
            "[nn.Linear(width, width) for _ in range(depth)]",
        ),
    ),
    Mistake(
        "M38",
        variant(
            "ResidualStack", "[nn.Linear(width, width) for _ in range(depth)]", "[nn.Linear(width, width)] * depth"
        ),
    ),
    Mistake(
        "M186",
        "the learning rate is 0 too early",
        "After a while nothing changes any more. At which step does the learning rate reach 0, and how many steps "
        "are there?",
        *variants("learning_rate", "step / (epochs * steps_per_epoch)", "step / steps_per_epoch", "step / epochs"),
    ),
    Mistake(
        "M29",
        variant(
            "DroppingHead", "F.dropout(mean, self.dropout, training=self.training)", "F.dropout(mean, self.dropout)"
        ),
    ),
    Mistake(
        "M187",
        "there is no dropout",
        "Training and evaluation give the same result. Where is the dropout?",
        variant("DroppingHead", "F.dropout(mean, self.dropout, training=self.training)", "mean"),
    ),
    Mistake(
        "M166",
        variant(
            "DroppingHead",
            "tokens.mean(dim=1)",
            "F.dropout(tokens, self.dropout, training=self.training).mean(dim=1)",
            "F.dropout(mean, self.dropout, training=self.training)",
            "mean",
        ),
    ),
    Mistake(
        "M99",
        variant("DroppingHead", "F.dropout(mean, self.dropout,", "F.dropout(mean, 1 - self.dropout,"),
    ),
    Mistake(
        "M188",
        "the statistics of training are not kept, or not used",
        "In evaluation, the means and variances are not those of training. Print the buffers after a few batches: do "
        "they change, and does evaluation use them?",
        variant(
            "Standardise",
            "self.mean.lerp_(mean.detach(), self.momentum)",
            "self.mean.lerp(mean.detach(), self.momentum)",
            "self.variance.lerp_(variance.detach(), self.momentum)",
            "self.variance.lerp(variance.detach(), self.momentum)",
        ),
        variant("Standardise", "self.variance.lerp_(", "self.variance.lerp("),
        variant("Standardise", "self.mean.lerp_(", "self.mean.lerp("),
    ),
    Mistake(
        "M30",
        variant(
            "DroppingHead",
            "F.dropout(mean, self.dropout, training=self.training)",
            "mean * (torch.rand_like(mean) >= self.dropout * self.training)",
        ),
    ),
    Mistake(
        "M92",
        variant("Standardise", "(x - self.mean) / self.variance.sqrt()", "(x - self.mean) / self.variance"),
        variant("standardise_images", ".sqrt()", ""),
    ),
    Mistake(
        "M21",
        variant("pack_heads", "heads.permute(0, 2, 1, 3)", "heads"),
    ),
    Mistake(
        "M81",
        variant(
            "pack_heads",
            "num_heads, width // num_heads)",
            "width // num_heads, num_heads)",
            "heads.permute(0, 2, 1, 3)",
            "heads.permute(0, 3, 1, 2)",
        ),
    ),
    Mistake("M91", variant("standardise_images", "return centred /", "return images /")),
    Mistake(
        "M35",
        variant(
            "standardise_images",
            "centred.square().mean(dim=(1, 2), keepdim=True).sqrt()",
            "images.std(dim=(1, 2), keepdim=True)",
        ),
    ),
    Mistake(
        "M189",
        "images are mixed when axes are merged",
        "For one image the result is right. When you merge axes, which axis comes first? Is it the axis of the images?",
        variant("pack_heads", "heads.permute(0, 2, 1, 3)", "heads.permute(2, 0, 1, 3)"),
    ),
    Mistake(
        "M190",
        "all images of a batch share one mean, or one deviation",
        "An image changes when another image joins the batch. Over which axes do you take the mean and the standard "
        "deviation?",
        variant(
            "standardise_images",
            "images.mean(dim=(1, 2), keepdim=True)",
            "images.mean()",
            "centred.square().mean(dim=(1, 2), keepdim=True)",
            "centred.square().mean()",
        ),
        variant("standardise_images", "images.mean(dim=(1, 2), keepdim=True)", "images.mean()"),
        variant("standardise_images", "centred.square().mean(dim=(1, 2), keepdim=True)", "centred.square().mean()"),
    ),
    Mistake(
        "M191",
        "too much work for many tokens",
        "The numbers are right, but the work grows with every token. Which single product of tensors does all of this "
        "work?",
        variant(
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
        variant(TRAINING, "    model.train()\n", ""),
        variant("loss_and_accuracy", "    model.eval()\n", ""),
        variant("loss_and_accuracy", "with torch.no_grad()", "if True"),
    ),
    Mistake(
        "M146",
        variant(
            "loss_and_accuracy", "    with torch.no_grad():\n", "    torch.set_grad_enabled(False)\n    if True:\n"
        ),
    ),
    Mistake(
        "M192",
        "the model runs more than once for one batch",
        "The numbers are right, but they take too long. How often do you call the model for a batch?",
        variant("loss_and_accuracy", "(logits.argmax(dim=-1) == labels)", "(model(images).argmax(dim=-1) == labels)"),
    ),
    Mistake("M141", *variants("loss_and_accuracy", "right / count", "100 * right / count", "right")),
    Mistake(
        "M185",
        "padding counts in a mean",
        "Without padding the mean is right. Which terms do you add, and by which number do you divide the sum?",
        variant(
            "mean_of_existing", "(tokens * exists).sum(dim=1) / exists.sum(dim=1)", "(tokens * exists).mean(dim=1)"
        ),
        variant("mean_of_existing", "(tokens * exists).sum(dim=1)", "tokens.sum(dim=1)"),
        variant("mean_of_existing", "(tokens * exists).sum(dim=1) / exists.sum(dim=1)", "tokens.mean(dim=1)"),
    ),
    Mistake(
        "M18",
        variant(
            "pooled", "scores.masked_fill(~exists, -torch.inf).softmax(dim=-1)", "(scores * exists).softmax(dim=-1)"
        ),
        *(variant("pooled", "-torch.inf", number) for number in ("-1.0", "-10.0", "-100.0", "-10_000.0")),
    ),
    Mistake(
        "M17",
        variant("pooled", "scores.masked_fill(~exists, -torch.inf).softmax(dim=-1)", "scores.softmax(dim=-1) * exists"),
    ),
    Mistake(
        "M16",
        variant("pooled", "~exists", "exists"),
        variant("mean_of_existing", "exists[..., None]", "~exists[..., None]"),
    ),
    Mistake("M71", variant("pooled", "scores.masked_fill(~exists, -torch.inf)", "scores")),
    Mistake("M8", variant("pooled", " / query.shape[-1] ** 0.5", "")),
    Mistake("M10", variant("pooled", "query.shape[-1] ** 0.5", "query.shape[-1]")),
    Mistake(
        "M3", variant("pooled", ".softmax(dim=-1)", ".exp()\n    weights = weights / weights.sum(dim=-1, keepdim=True)")
    ),
    Mistake(
        "M14",
        variant(
            "pooled",
            "scores.masked_fill(~exists, -torch.inf).softmax(dim=-1)",
            "(scores - scores.max()).exp() * exists\n    weights = weights / weights.sum(dim=-1, keepdim=True)",
        ),
    ),
    Mistake("M80", variant("pooled", "softmax(dim=-1)", "softmax(dim=-1).softmax(dim=-1)")),
    # ---------------------------------------------------------------------------------------------------------- tests
    Mistake(
        "M180",
        "the test refuses a right attention function",
        "Your test refuses a right attention function, so it gets no points. Is it stricter than rounding allows, or "
        "does it test something that the specification does not say?",
        variant("test_attention", "torch.allclose(got, right, rtol=1e-3, atol=1e-3)", "torch.equal(got, right)"),
        variant("test_attention", "except ValueError", "except TypeError"),
        variant("test_attention", "expected.softmax(-1)", "expected.softmax(-2)"),
    ),
    Mistake(
        "M181",
        "the test lets every mistake through",
        "Your test refuses no wrong attention function. Does it assert something, and does the assertion run? "
        "A test that returns False refuses nothing.",
        variant(
            "test_attention",
            "    generator = torch.Generator().manual_seed(0)\n",
            "    return\n    generator = torch.Generator().manual_seed(0)\n",
        ),
        variant("test_attention", "((2, 3, 5, 7), (4, 4, 6, 3), (1, 1, 1, 2))", "()"),
    ),
    Mistake(
        "M182",
        "the test lets several mistakes through",
        "Your test is right, but it misses several mistakes. Which lines of the specification does it not test?",
        # The first variant tests only shapes. The others have no large scores, no mask, only weights, only one image with one
        # head, or only one shape of a mask.
        variant("test_attention", "assert torch.allclose(got, right, rtol=1e-3, atol=1e-3), ", "assert True, "),
        variant("test_attention", "(1.0, 30.0)", "(1.0,)"),
        variant(
            "test_attention", "((images, tokens), (images, tokens, tokens), (images, heads, tokens, tokens))", "()"
        ),
        variant("test_attention", "((weights, expected), (output, expected @ v))", "((weights, expected),)"),
        variant("test_attention", "((2, 3, 5, 7), (4, 4, 6, 3), (1, 1, 1, 2))", "((1, 1, 5, 7),)"),
        variant(
            "test_attention",
            "((images, tokens), (images, tokens, tokens), (images, heads, tokens, tokens))",
            "((images, tokens),)",
        ),
    ),
    Mistake("M20", variant("test_attention", "assert refused", "assert True")),
    Mistake(
        "M86", variant("test_attention", "((weights, expected), (output, expected @ v))", "((output, expected @ v),)")
    ),
)
