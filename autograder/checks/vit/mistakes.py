"""The known mistakes of assignment 4_vit. Each replaces some words (pieces of code) of `solutions/vit.py` by others."""

from autograder.judge.mistake import Mistake, all_and_each, variant, variants

ABOUT = "Patches, the Vision Transformer and its training"  # the heading of these mistakes in the book
LOOPS = ("train_epoch", "evaluate")

# AFTER_… are comments at the end of a line. The words that replace such a comment act on the result of the line, even
# if another mistake changes the line. So two mistakes can be made at once.

# Words of patchify
REFUSED = 'raise ValueError(f"patches of {patch_size}×{patch_size} do not tile images of {height}×{width}")'
CUT = "images.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))"
ORDER, JOINED = "(0, 2, 4, 1, 3, 5)", ".flatten(3).flatten(1, 2)"
PATCHES = f"rows.permute{ORDER}{JOINED}"
AFTER_PATCHES = "  # (B, N, C·P·P)"
# Words of PatchEmbedding and ViT
TOKENS = "self.projection(images).flatten(2).transpose(1, 2)"
UNSCALED = "tokens * (torch.rand_like(tokens) >= self.dropout.p)"
AFTER_TOKENS, AFTER_SCORES = "  # (B, D, rows, columns) -> (B, N, D)", "  # (B, number of classes)"
CLASS_TOKEN = "nn.Parameter(torch.zeros(1, 1, width))"
POSITIONS = "nn.Parameter(0.02 * torch.randn(1, 1 + patches, width))"
# Words of train_epoch and evaluate
STEP = "optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()"
MEAN_LOSS, ACCURACY = "float(loss_sum) / count", "float(right) / count"
NO_GRAPH, SUM = "with torch.no_grad():", ', reduction="sum"'
# Words that make the loss of a batch a sum over its images, and their replacement
SUMMED_LOSS = {"train_epoch": (" * len(labels)", ""), "evaluate": (SUM, "")}
SUMMED = f"F.cross_entropy(scores, labels{SUM})"
SUMMED_WITHOUT_GRAPH = f"{SUMMED}.detach()"
BATCHES_COUNTED = (
    "loss_sum, right, count = 0.0, 0, 0",
    "loss_sum, right, count, batches_met = 0.0, 0, 0, 0",
    "count += len(labels)",
    "count, batches_met = count + len(labels), batches_met + 1",
)
LAST_LOSS = "loss_sum += ", "loss_sum = ", MEAN_LOSS, "float(loss_sum)"
LAST_ACCURACY = "right += ", "right = ", ACCURACY, "float(right) / len(labels)"
# Words of attention_rollout
UNIT = "torch.eye(weights.shape[-1]).to(weights)"
AFTER_ROW = "  # (B, 1 + N)"
ROWS_TO_ONE = "\n    mixing = mixing / mixing.sum(dim=-1, keepdim=True)"
EMBEDDING = "PatchEmbedding"
POSITIONED = " + self.position_embedding"

MISTAKES = (
    Mistake(
        "M15",
        variant("patchify", "rows = ", "images -= images.mean()\n    rows = "),
        variant(EMBEDDING, "        if images", "        images -= 0.5\n        if images"),
        variant("ViT", "patches = self", "images -= 0.5\n        patches = self"),
        variant("attention_rollout", "mixing = (", "weights /= 2\n    mixing = (2 * "),
    ),
    Mistake("M28", variant("ViT", "self.dropout(tokens))", "self.dropout(tokens).transpose(0, 1)).transpose(0, 1)")),
    Mistake(
        "M29",
        variant("ViT", "self.dropout(tokens)", "F.dropout(tokens, self.dropout.p)"),
        variant("ViT", "self.dropout(tokens)", "F.dropout(tokens, self.dropout.p, not self.training)"),
    ),
    Mistake(
        "M30",
        variant("ViT", "self.dropout(tokens)", f"{UNSCALED} if self.training else tokens"),
        variant("ViT", "self.dropout(tokens)", f"{UNSCALED} if self.training else tokens * (1 - self.dropout.p)"),
    ),
    Mistake(
        "M42",
        "the image is one token",
        "Your image is a single token, so attention has nothing to choose from. Are your patches P×P pixels large?",
        variant("patchify", PATCHES, "images.flatten(1).unsqueeze(1)"),
        variant(EMBEDDING, "kernel_size=patch_size, stride=patch_size", "kernel_size=image_size, stride=image_size"),
        variant("ViT", "super().__init__()", "super().__init__()\n        patch_size = image_size"),
    ),
    Mistake(
        "M43",
        "a part of the image is cut off",
        "Some pixels are in no patch. Do you crop the image, by a slice, a negative pad, or a window that does not "
        "fit?",
        variant(
            "patchify", REFUSED, "images = images[..., : height - height % patch_size, : width - width % patch_size]"
        ),
        # The last row of patches is cut off.
        variant("patchify", "rows = ", "images = images[:, :, : max(patch_size, height - patch_size)]\n    rows = "),
        # reshape takes pixels in their order in memory, and a slice keeps three quarters of them, as in coursework.
        variant(
            "patchify",
            PATCHES,
            "images.reshape(len(images), -1, images.shape[1] * patch_size**2)"
            "[:, : max(1, rows.shape[2] * rows.shape[4] * 3 // 4)]",
        ),
    ),
    Mistake(
        "M44",
        "patches hold pixels of whole rows",
        "Your patches hold pixels from the whole row of the image. Do you first split each side into patches, then swap "
        "the axes, and only then merge axes?",
        variant("patchify", PATCHES, "images.reshape(len(images), -1, images.shape[1] * patch_size**2)"),
        variant(
            "patchify",
            CUT,
            "images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)",
            PATCHES,
            "rows.reshape(len(images), -1, images.shape[1] * patch_size**2)",
        ),
    ),
    Mistake(
        "M45",
        "another order of the pixels inside a patch",
        "Each patch has the right pixels, in a wrong order. Is the order channel by channel, and row by row within a "
        "channel, as in the kernel of a convolution?",
        variant("patchify", ORDER, "(0, 2, 4, 3, 5, 1)"),  # (P, P, C)
        *variants("patchify", ORDER, "(0, 2, 4, 3, 1, 5)", "(0, 2, 4, 1, 5, 3)"),  # each patch is transposed
        variant("patchify", ORDER, "(0, 2, 4, 5, 3, 1)"),
        # The rows of patchify have the order (P, P, C), and the weight has (C, P, P).
        variant(
            EMBEDDING,
            TOKENS,
            "F.linear(\n"
            "            patchify(images, self.projection.stride[0])\n"
            "            .unflatten(2, self.projection.weight.shape[1:])\n"
            "            .permute(0, 1, 3, 4, 2)\n"
            "            .flatten(2),\n"
            "            self.projection.weight.flatten(1),\n"
            "            self.projection.bias,\n"
            "        )",
        ),
        variant(
            EMBEDDING,
            "self.projection(images)",
            "F.conv2d(images, self.projection.weight.mT, self.projection.bias, self.projection.stride)",
        ),
    ),
    Mistake(
        "M46",
        "no positions, or the same for all tokens",
        "If tokens change places, your logits do not change. Where does each token get its own position embedding?",
        *variants("ViT", POSITIONED, "", " + self.position_embedding[:, :1]"),
        variant(
            "ViT",
            "self.class_token.expand",
            "(self.class_token + self.position_embedding[:, :1]).expand",
            POSITIONED,
            "",
        ),
    ),
    Mistake(
        "M47",
        "the positions do not match the tokens (the class token is first)",
        "Some token has no position, or the position of its neighbour. Are there 1 + N positions, the first for the "
        "class token? Do you add them after you put the class token first?",
        variant(
            "ViT",
            "1 + patches, width",
            "patches, width",
            "patches], dim=1) + self.position_embedding",
            "patches + self.position_embedding], dim=1)",
        ),
        variant(
            "ViT", "patches], dim=1) + self.position_embedding", "patches + self.position_embedding[:, 1:]], dim=1)"
        ),
        variant(
            "ViT", "patches], dim=1) + self.position_embedding", "patches + self.position_embedding[:, :-1]], dim=1)"
        ),
    ),
    Mistake(
        "M48",
        "positions are indexed by the image, not by the token",
        "All tokens of an image get the same position, and different images get different ones. Along which axis "
        "does position_embedding broadcast?",
        variant("ViT", POSITIONED, " + self.position_embedding[:, : len(images)].transpose(0, 1)"),
    ),
    Mistake(
        "M49",
        "the class token is not first, or another token is read",
        "Your classifier does not read the class token, or the class token has the position of another token. Where "
        "do you put it, and which token do you read?",
        variant("ViT", "[class_token, patches]", "[patches, class_token]"),
        variant("ViT", "[class_token, patches]", "[patches, class_token]", "tokens[:, 0]", "tokens[:, -1]"),
        *variants("ViT", "tokens[:, 0]", "tokens[:, -1]", "tokens[:, 1]"),
    ),
    Mistake(
        "M50",
        "class token or positions do not learn",
        "An optimizer does not find your class token or your positions. Is each an nn.Parameter that you make in "
        "__init__? Do you use the parameter itself, not its .data?",
        *all_and_each(
            "ViT", (CLASS_TOKEN, "torch.zeros(1, 1, width)"), (POSITIONS, "torch.zeros(1, 1 + patches, width)")
        ),
        variant("ViT", CLASS_TOKEN, "nn.Parameter(torch.zeros(1, 1, width), requires_grad=False)"),
        variant("ViT", POSITIONS, "nn.Parameter(torch.zeros(1, 1 + patches, width), requires_grad=False)"),
        variant("ViT", "self.class_token.expand", "self.class_token.detach().expand"),
        variant("ViT", POSITIONED, " + self.position_embedding.data"),
    ),
    Mistake(
        "M51",
        "the cross-entropy does not get the logits",
        "F.cross_entropy computes a softmax and its logarithm itself. Is there another softmax, sigmoid or logarithm "
        "in the model or before the loss?",
        *variants("ViT", AFTER_SCORES, ".softmax(dim=-1)", ".log_softmax(dim=-1)", ".sigmoid()"),
        variant(LOOPS, "F.cross_entropy(scores", "F.cross_entropy(scores.softmax(dim=-1)"),
    ),
    Mistake(
        "M52",
        "the mode is wrong, or evaluation builds a graph",
        "Dropout and batch norm depend on the mode of the model, and evaluation needs no graph. Which mode do you "
        "set, train() or eval()? Do you evaluate under no_grad?",
        variant("train_epoch", "model.train()", "model.eval()"),
        variant("evaluate", NO_GRAPH, "if True:", SUMMED, SUMMED_WITHOUT_GRAPH),
        variant("evaluate", "    model.eval()\n", "", NO_GRAPH, "if True:", SUMMED, SUMMED_WITHOUT_GRAPH),
        variant("evaluate", "model.eval()", "model.train()"),
    ),
    Mistake(
        "M53",
        "gradients are never set to zero",
        "Every step follows the sum of the gradients of all batches so far. Where do you set the gradients to zero?",
        variant("train_epoch", "        optimizer.zero_grad()\n", ""),
    ),
    Mistake(
        "M55",
        "the last batch is reported for the whole epoch",
        "You return the result of the last batch only. Do you add up the results of all batches?",
        # The loss, the accuracy, or both come from the last batch only.
        *(variant(loop, *LAST_LOSS, *words) for loop, words in SUMMED_LOSS.items()),
        variant(LOOPS, *LAST_ACCURACY),
        *(variant(loop, *LAST_LOSS, *words, *LAST_ACCURACY) for loop, words in SUMMED_LOSS.items()),
    ),
    Mistake(
        "M56",
        "batches of unequal size have equal weight",
        "An image of a small last batch counts more than other images. Do you sum over images, and divide by the "
        "number of images?",
        # The accuracy, the loss, or both are means over batches.
        variant(LOOPS, *BATCHES_COUNTED, ".sum()", ".double().mean()", ACCURACY, "float(right) / batches_met"),
        *(
            variant(loop, *BATCHES_COUNTED, *words, MEAN_LOSS, "float(loss_sum) / batches_met")
            for loop, words in SUMMED_LOSS.items()
        ),
        *(
            variant(loop, *words, ".sum()", ".double().mean()", "count += len(labels)", "count += 1")
            for loop, words in SUMMED_LOSS.items()
        ),
    ),
    Mistake(
        "M63",
        "a sum is reported as the mean loss",
        "Your loss depends on the number of batches or images. Is it the sum over all images, divided once by their "
        "number?",
        *(variant(loop, *words, MEAN_LOSS, "float(loss_sum)") for loop, words in SUMMED_LOSS.items()),
        variant(LOOPS, MEAN_LOSS, "float(loss_sum)"),
        *(variant(loop, *words) for loop, words in SUMMED_LOSS.items()),
    ),
    Mistake("M83", variant(EMBEDDING, "(channels, width", "(channels, width, bias=False")),
    Mistake("M90", variant("ViT", "self.encoder(", "self.encoder.blocks(")),
    Mistake(
        "M93",
        variant(EMBEDDING, AFTER_TOKENS, ".detach()"),
        variant(EMBEDDING, "self.projection(images)", "self.projection(images.detach())"),
        *variants(
            "ViT", "patch_embedding(images)", "patch_embedding(images).detach()", "patch_embedding(images.detach())"
        ),
    ),
    Mistake(
        "M98",
        variant("ViT", "nn.Dropout(dropout)", "nn.Dropout(0.0)", ", dropout)", ")"),
        variant("ViT", ", dropout)", ")"),
    ),
    Mistake(
        "M99",
        *variants(
            "ViT", "nn.Dropout(dropout)", "nn.Dropout(1 - dropout if dropout else 0.0)", "nn.Dropout(1 - dropout)"
        ),
        variant("ViT", ", dropout)", ", 1 - dropout if dropout else 0.0)"),
    ),
    Mistake(
        "M102",
        *variants("ViT", "Encoder(depth", "Encoder(6", "Encoder(depth - 1"),
        variant(
            "ViT",
            "self.encoder(self.dropout(tokens))",
            "self.encoder.norm(self.encoder.blocks[:-1](self.dropout(tokens)))",
        ),
    ),
    Mistake("M108", *variants("ViT", ", hidden_width", ", 4 * width", ", width", ", 128")),
    Mistake(
        "M120",
        variant(EMBEDDING, "    def forward", "        self.projection.requires_grad_(False)\n\n    def forward"),
    ),
    Mistake(
        "M123",
        "sizes that the patches do not tile raise no error",
        "An image that patches do not tile, or an image of another size, raised no error. Where do you raise a "
        "ValueError?",
        variant("patchify", REFUSED, "images = F.pad(images, (0, -width % patch_size, 0, -height % patch_size))"),
        *all_and_each(
            EMBEDDING,
            ("image_size % patch_size", "False"),
            ("images.shape[-2:] != (self.image_size, self.image_size)", "False"),
        ),
    ),
    Mistake(
        "M124",
        "the patches are in another order",
        "Your patches run down the columns. In reading order, which of the two axes of the grid changes faster?",
        *variants("patchify", ORDER, "(0, 4, 2, 1, 3, 5)", "(0, 4, 2, 1, 5, 3)"),  # the whole image is transposed
        variant("patchify", ORDER, "(0, 4, 2, 3, 5, 1)"),
        variant(EMBEDDING, ".flatten(2)", ".mT.flatten(2)"),
        variant(EMBEDDING, "self.projection(images)", "self.projection(images.mT)"),
    ),
    Mistake(
        "M125",
        "the axes of the tokens and of their components are not swapped",
        "Each token should be one row of its components. Do you swap the last two axes, or only reshape them?",
        variant("patchify", AFTER_PATCHES, ".mT"),
        variant("patchify", "return ", "patches = ", AFTER_PATCHES, "\n    return patches.mT.reshape(patches.shape)"),
        variant(EMBEDDING, ".transpose(1, 2)", ""),
        variant(EMBEDDING, ".flatten(2).transpose(1, 2)", ".reshape(len(images), -1, self.projection.out_channels)"),
    ),
    Mistake(
        "M126",
        "each channel makes its own patches",
        "A patch contains the pixels of all channels. Which axes do you merge into N, and which into C·P·P?",
        variant("patchify", f"{ORDER}{JOINED}", "(0, 1, 2, 4, 3, 5).flatten(4).flatten(1, 3)"),
        variant("patchify", JOINED, ".flatten(4).flatten(1, 3)"),
        variant("patchify", f"{ORDER}{JOINED}", "(0, 1, 2, 4, 3, 5).flatten(4).flatten(2, 3)"),
    ),
    Mistake(
        "M127",
        "some axes are not merged into one",
        "The numbers are right, but the shape has too many axes. Do you merge rows and columns into N, and channels "
        "and pixels into one axis?",
        variant("patchify", JOINED, ""),
        variant("patchify", ".flatten(3)", ""),
        variant("patchify", ".flatten(1, 2)", ""),
        variant(EMBEDDING, ".flatten(2).transpose(1, 2)", ".permute(0, 2, 3, 1)"),
    ),
    Mistake(
        "M128",
        "a patch takes pixels at equal distances",
        "Your patch is spread over the whole image. When you split a side into (patches, P), which of the two comes "
        "first?",
        variant(
            "patchify",
            CUT,
            "images.unflatten(3, (patch_size, -1)).unflatten(2, (patch_size, -1))",
            ORDER,
            "(0, 3, 5, 1, 2, 4)",
        ),
    ),
    Mistake(
        "M129",
        "the patches overlap, or have a border",
        "There are too many patches. By how many pixels does your window move, and do you use padding?",
        variant("patchify", PATCHES, "F.unfold(images, patch_size, stride=max(1, patch_size // 2)).mT"),
        variant("patchify", PATCHES, "F.unfold(images, patch_size, stride=patch_size, padding=patch_size).mT"),
        *variants(EMBEDDING, "stride=patch_size", "stride=1", "stride=patch_size, padding=patch_size"),
    ),
    Mistake(
        "M130",
        "patches of several images are mixed up",
        "One row holds patches of different images. Is the batch the first axis in every stack, concatenation and "
        "reshape?",
        variant("patchify", AFTER_PATCHES, ".transpose(0, 1)"),
        variant(
            "patchify",
            "return ",
            "patches = ",
            AFTER_PATCHES,
            "\n    return patches.transpose(0, 1).reshape(patches.shape)",
        ),
        variant(EMBEDDING, ".flatten(2).transpose(1, 2)", ".flatten(2).permute(2, 0, 1)"),
        variant(
            EMBEDDING,
            "return ",
            "tokens = ",
            AFTER_TOKENS,
            "\n        return tokens.transpose(0, 1).reshape(tokens.shape)",
        ),
    ),
    Mistake(
        "M131",
        "one step too many: a norm, an activation, a factor, a sum",
        "Your model has a step that the specification does not have. Is it a norm, an activation, a factor or a "
        "residual? The encoder already ends with its own norm.",
        variant(EMBEDDING, AFTER_TOKENS, ".relu()"),
        variant(EMBEDDING, AFTER_TOKENS, " * self.projection.out_channels**0.5"),
        variant(
            EMBEDDING,
            "self.projection = ",
            "self.norm = nn.LayerNorm(width)\n        self.projection = ",
            "return ",
            "tokens = ",
            AFTER_TOKENS,
            "\n        return self.norm(tokens)",
        ),
        *variants("ViT", "tokens[:, 0]", "F.layer_norm(tokens[:, 0], tokens.shape[-1:])", "tokens[:, 0].tanh()"),
        variant("ViT", "tokens[:, 0]", "F.gelu(tokens[:, 0])"),
        variant(
            "ViT",
            "self.head = ",
            "self.norm = nn.LayerNorm(width)\n        self.head = ",
            "tokens[:, 0]",
            "self.norm(tokens)[:, 0]",
        ),
        variant("ViT", "patch_embedding(images)", "patch_embedding(images) * self.class_token.shape[-1] ** 0.5"),
        variant("ViT", "patch_embedding(images)", "patch_embedding(images).relu()"),
        # Tokens are scaled before the positions are added, as in the first transformers.
        variant("ViT", "dim=1)", "dim=1) * patches.shape[-1] ** 0.5"),
        variant(
            "ViT",
            "tokens = self.encoder(self.dropout(tokens))",
            "tokens = self.dropout(tokens)\n        tokens = tokens + self.encoder(tokens)",
        ),
    ),
    Mistake(
        "M132",
        "the classifier reads the pooled tokens instead of the class token",
        "Your logits depend on the final state of all tokens. Which token should the classifier read?",
        *variants("ViT", "tokens[:, 0]", "tokens.mean(dim=1)", "tokens[:, 1:].mean(dim=1)", "tokens.amax(dim=1)"),
        variant("ViT", "tokens[:, 0]", "tokens.sum(dim=1)"),
        variant(
            "ViT",
            CLASS_TOKEN,
            "None",
            "1 + patches, width",
            "patches, width",
            "        class_token = self.class_token.expand(len(images), -1, -1)  # (B, 1, D)\n",
            "",
            "torch.cat([class_token, patches], dim=1)",
            "patches",
            "tokens[:, 0]",
            "tokens.mean(dim=1)",
        ),
    ),
    Mistake(
        "M133",
        "the class token is added to the patches instead of placed before them",
        "There are N tokens, but there should be 1 + N. Is your class token a separate token?",
        variant(
            "ViT",
            "torch.cat([class_token, patches], dim=1) + self.position_embedding",
            "patches + self.class_token + self.position_embedding[:, 1:]",
        ),
    ),
    Mistake(
        "M134",
        "dropout does not act on the tokens with their positions",
        "Dropout never sets a position to 0. Does your dropout act on the tokens after their positions are added?",
        variant("ViT", "self.dropout(tokens)", "tokens"),
        variant("ViT", POSITIONED, "", "self.dropout(tokens)", "self.dropout(tokens) + self.position_embedding"),
    ),
    Mistake("M135", *variants("ViT", "width, num_heads", "width, 1", "width, width")),
    Mistake(
        "M136",
        "zero_grad, backward and step run in another order, or not exactly once each",
        "The parameters differ from those after one step per batch. In which order do zero_grad, backward and step "
        "run, and how often?",
        variant("train_epoch", STEP, "loss.backward()\n        optimizer.zero_grad()\n        optimizer.step()"),
        variant("train_epoch", STEP, "optimizer.step()\n        optimizer.zero_grad()\n        loss.backward()"),
        variant("train_epoch", "        optimizer.step()\n", ""),
        variant("train_epoch", "optimizer.step()", "optimizer.step()\n        optimizer.step()"),
    ),
    Mistake(
        "M137",
        "one step for the epoch, not for each batch",
        "Your model takes only one step. Is the step inside the loop over the batches?",
        variant(
            "train_epoch",
            "model.train()",
            "model.train()\n    optimizer.zero_grad()",
            "        optimizer.zero_grad()\n",
            "",
            "        optimizer.step()\n",
            "",
            "    return",
            "    optimizer.step()\n    return",
        ),
    ),
    Mistake(
        "M138",
        "the step follows the sum of the losses, not their mean",
        "Your steps are larger when a batch has more images. Do you call backward on the mean loss of the batch? "
        "Multiply only the reported loss by the number of images.",
        variant("train_epoch", "loss.backward()", "(loss * len(labels)).backward()"),
    ),
    Mistake(
        "M139",
        "another loss than cross-entropy",
        "Your loss is not the cross-entropy of the logits. Which function do you use, with which settings?",
        variant(
            "train_epoch",
            "cross_entropy(scores, labels)",
            "mse_loss(scores, F.one_hot(labels, scores.shape[-1]).to(scores))",
        ),
        variant(
            "evaluate",
            'F.cross_entropy(scores, labels, reduction="sum")',
            "len(labels) * F.mse_loss(scores, F.one_hot(labels, scores.shape[-1]).to(scores))",
        ),
        variant(LOOPS, "cross_entropy", "nll_loss"),
        variant(
            "train_epoch",
            "cross_entropy(scores, labels)",
            "binary_cross_entropy_with_logits(scores, F.one_hot(labels, scores.shape[-1]).to(scores))",
        ),
        variant(LOOPS, "(scores, labels", "(scores, labels, label_smoothing=0.1"),
    ),
    Mistake(
        "M140",
        "loss or accuracy is measured after the step",
        "Your loss is lower than the loss before the step. Do loss and accuracy come from the logits before the step?",
        variant(
            "train_epoch",
            "loss_sum += ",
            "scores = model(images)\n        loss = F.cross_entropy(scores, labels)\n        loss_sum += ",
        ),
    ),
    Mistake(
        "M141",
        "the accuracy is not a share of the images",
        "The accuracy is the number of right answers divided by the number of images, between 0 and 1. Is yours a "
        "count, or a percentage?",
        *variants(LOOPS, ACCURACY, f"100 * {ACCURACY}", "float(right)"),
    ),
    Mistake(
        "M142",
        "softmax or argmax runs along the batch",
        "The answer for one image depends on the other images in its batch. Do softmax and argmax run over the "
        "classes?",
        variant(LOOPS, "scores.argmax", "scores.softmax(dim=0).argmax"),
    ),
    Mistake(
        "M143",
        "some batches are left out",
        "Your result does not include all images. Is a return or break inside the loop, or do you skip a batch?",
        *variants(LOOPS, "in batches", "in list(batches)[:1]", "in (every := list(batches))[:-1] or every"),
    ),
    Mistake(
        "M144",
        "the model is left in another mode",
        "You leave the model in a wrong mode. In which mode was it before, and in which mode should it be when you "
        "return?",
        variant("train_epoch", "    return", "    model.eval()\n    return"),
        variant("evaluate", "    model.train(training)\n", ""),
        variant("evaluate", "model.train(training)", "model.train()"),
    ),
    Mistake(
        "M145",
        "an evaluation changes gradients or parameters",
        "An evaluation must not change the model. Do you call backward, zero_grad or step?",
        variant(
            "evaluate",
            NO_GRAPH,
            "if True:",
            f"loss_sum += {SUMMED}",
            "loss = F.cross_entropy(scores, labels)\n"
            "            loss.backward()\n"
            "            loss_sum += loss.detach() * len(labels)",
        ),
        variant("evaluate", "scores = model(images)", "model.zero_grad()\n            scores = model(images)"),
    ),
    Mistake(
        "M146",
        "gradients stay switched off",
        "After your evaluation, gradients stay switched off. Are they switched on again automatically, as after "
        "`with torch.no_grad()`?",
        variant("evaluate", NO_GRAPH, "torch.set_grad_enabled(False)\n    if True:"),
        variant("evaluate", "model.eval()", "model.eval().requires_grad_(False)"),
    ),
    Mistake(
        "M147",
        "the weights are not averaged over the heads",
        "Each block needs one matrix: the mean of the weights of all its heads. How do you combine the heads, and over "
        "which axis?",
        variant("attention_rollout", "mean(dim=2)", "amax(dim=2)"),
        variant("attention_rollout", "mean(dim=2)", "amax(dim=2)", " / 2", ROWS_TO_ONE),
        variant("attention_rollout", "mean(dim=2)", "amin(dim=2)", " / 2", ROWS_TO_ONE),
        *variants("attention_rollout", "mean(dim=2)", "amin(dim=2)", "sum(dim=2)"),
        *variants("attention_rollout", "weights.mean(dim=2)", "weights[:, :, 0]", "weights[:, :, -1]"),
    ),
    Mistake(
        "M148",
        "the residual stream is left out",
        "Half of each token comes from the residual stream. Where do you add the identity matrix?",
        variant("attention_rollout", f" + {UNIT}) / 2", ")"),
        variant("attention_rollout", UNIT, "1", " / 2", ROWS_TO_ONE),
        variant("attention_rollout", UNIT, "1"),
    ),
    Mistake(
        "M149",
        "the rows do not sum to 1",
        "The weights plus the identity have rows that sum to 2. How do you make the rows of each block sum to 1 again?",
        *variants("attention_rollout", " / 2", "", "\n    mixing = mixing / mixing.sum(dim=-2, keepdim=True)"),
    ),
    Mistake(
        "M150",
        "the blocks are multiplied in the wrong order",
        "A later block mixes the outputs of the earlier blocks. On which side of the product is the later block?",
        variant("attention_rollout", "block @ rollout", "rollout @ block"),
    ),
    Mistake(
        "M151",
        "the result is another row than that of the class token, or a column",
        "Your result is not the row of the class token. Which axis is that of the queries, and which index has "
        "the class token?",
        *variants("attention_rollout", "rollout[:, 0]", "rollout[:, :, 0]", "rollout.mean(dim=1)", "rollout[:, -1]"),
        variant("attention_rollout", "rollout[:, 0]", "rollout"),
    ),
    Mistake(
        "M152",
        "the blocks are not multiplied",
        "Two blocks, one after the other, mix the tokens like the product of their matrices. Do you multiply the "
        "matrices of all blocks?",
        # The rollout uses only the mean of all blocks, only the last block, or only the first.
        variant("attention_rollout", "mixing[0]", "mixing.mean(dim=0)", "mixing[1:]", "[]"),
        variant("attention_rollout", "mixing[0]", "mixing[-1]", "mixing[1:]", "[]"),
        variant("attention_rollout", "mixing[1:]", "[]"),
        *variants("attention_rollout", "block @ rollout", "block * rollout", "block + rollout"),
        # The first block is left out, or the last.
        variant("attention_rollout", "mixing[0]", "torch.eye(weights.shape[-1]).to(weights).expand_as(mixing[0])"),
        variant("attention_rollout", "mixing[1:]", "mixing[1:-1]"),
    ),
    Mistake(
        "M153",
        "the class token's own share is left out or rescaled",
        "The result is a row over all N tokens that sums to 1. Do you drop or rescale something at the end?",
        variant("attention_rollout", AFTER_ROW, "[:, 1:]"),
        variant(
            "attention_rollout",
            "return ",
            "row = ",
            AFTER_ROW,
            "[:, 1:]\n    return row / row.sum(dim=-1, keepdim=True)",
        ),
        variant(
            "attention_rollout", "return ", "row = ", AFTER_ROW, "\n    return row / row.amax(dim=-1, keepdim=True)"
        ),
    ),
    Mistake(
        "M154",
        "the projection is not a convolution over all channels",
        "An nn.Conv2d from C to D channels with a P×P kernel has a weight of another shape. What is your projection, "
        "and does it use groups?",
        variant(
            EMBEDDING,
            "nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size)",
            "nn.Linear(channels * patch_size**2, width)\n        self.patch_size = patch_size",
            TOKENS,
            "self.projection(patchify(images, self.patch_size))",
        ),
        # The convolution looks at each channel separately.
        variant(EMBEDDING, "stride=patch_size", "stride=patch_size, groups=channels if width % channels == 0 else 1"),
    ),
    Mistake(
        "M155",
        "the classifier has another shape",
        "The classifier maps the D components of one token to the classes. Which two sizes does your `head` have, "
        "and does it have a bias?",
        variant(
            "ViT",
            "nn.Linear(width, num_classes)",
            "nn.Linear((1 + patches) * width, num_classes)",
            "tokens[:, 0]",
            "tokens.flatten(1)",
        ),
        variant("ViT", "nn.Linear(width, num_classes)", "nn.Linear(width, 10)"),
        variant("ViT", "nn.Linear(width, num_classes)", "nn.Linear(width, num_classes, bias=False)"),
    ),
    Mistake(
        "M167",
        "dropout acts after the encoder",
        "Dropout acts on the tokens after their positions are added, and in the encoder. Where else does your dropout "
        "act?",
        variant("ViT", "self.head(tokens[:, 0])", "self.head(self.dropout(tokens[:, 0]))"),
        variant("ViT", "self.encoder(self.dropout(tokens))", "self.dropout(self.encoder(tokens))"),
    ),
    Mistake(
        "M168",
        "the steps are not those of the given optimizer",
        "The model does not move as the given optimizer would move it. Do you make your own optimizer, or never call "
        "step?",
        *(
            variant("train_epoch", "model.train()", f"model.train()\n    optimizer = {made}")
            for made in (
                "torch.optim.SGD(model.parameters(), lr=0.01)",
                "torch.optim.Adam(model.parameters(), lr=1e-3)",
            )
        ),
    ),
    Mistake(
        "M169",
        "positions are multiplied, not added",
        "Where a position is 0, your token becomes 0. How do you combine tokens and positions?",
        variant("ViT", "patches], dim=1) + self", "patches], dim=1) * self"),
        variant(
            "ViT", "patches], dim=1) + self.position_embedding", "patches], dim=1) * (1 + self.position_embedding)"
        ),
    ),
    Mistake(
        "M207",
        "the output of the encoder is not used",
        "Your logits come from tokens that no block has changed. Does a module change its argument, or return a "
        "result? Where do you use this result?",
        variant("ViT", "tokens = self.encoder(self.dropout(tokens))", "self.encoder(self.dropout(tokens))"),
    ),
)
