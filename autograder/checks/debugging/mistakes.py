"""The known mistakes of assignment 5_debugging: what is wrong with a test, and the faults of the programs."""

from autograder.judge.mistake import Mistake, all_and_each, variant, variants

ABOUT = "Programs to fix, and tests of attention"  # the heading of these mistakes in the book

MISTAKES = (
    # ------------------------------------------------------------------------------------------------------ programs
    Mistake(
        "M184",
        "the gradients are gone before the step, or there is no step",
        "The parameters do not change. In which order do zero_grad, backward, clipping and step run?",
        variant("train_clipped", "        optimizer.step()\n", ""),
    ),
    Mistake("M51", variant("train_clipped", "model(images)", "model(images).softmax(-1)")),
    Mistake("M55", variant("train_clipped", "return total / count", "return loss.item()")),
    Mistake("M53", variant("train_clipped", "        optimizer.zero_grad()\n", "")),
    Mistake(
        "M136",
        variant("train_clipped", "        optimizer.step()\n", "        optimizer.step()\n        optimizer.step()\n"),
    ),
    Mistake("M140", variant("train_clipped", "loss.item()", "F.cross_entropy(model(images), labels).item()")),
    Mistake(
        "M56",
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
    Mistake("M99", variant("DroppingHead", "F.dropout(mean, self.dropout,", "F.dropout(mean, 1 - self.dropout,")),
    Mistake(
        "M30",
        variant(
            "DroppingHead",
            "F.dropout(mean, self.dropout, training=self.training)",
            "mean * (torch.rand_like(mean) >= self.dropout * self.training)",
        ),
    ),
    Mistake("M92", variant("standardise_images", ".sqrt()", "")),
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
        "M190",
        "all images of a batch share one mean, or one deviation",
        "An image changes when another image joins the batch. Over which axes do you take the mean and the standard "
        "deviation?",
        *all_and_each(
            "standardise_images",
            ("images.mean(dim=(1, 2), keepdim=True)", "images.mean()"),
            ("centred.square().mean(dim=(1, 2), keepdim=True)", "centred.square().mean()"),
        ),
    ),
    Mistake(
        "M52",
        variant("train_clipped", "    model.train()\n", ""),
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
    Mistake("M16", variant("pooled", "~exists", "exists")),
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
