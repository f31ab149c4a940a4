"""The known mistakes of assignment 2_multihead: the answer in `solutions/multihead.py` with a few words changed.

M31, projections over the flattened sequence, cannot be made here: the constructor does not know the number of tokens.
"""

from autograder.judge.mistake import Mistake, way

ABOUT = "Heads and einsum"  # what they are called on the page of mistakes
INSIDE = ("attend", "MultiHeadAttention")  # the layer shows what happens inside attend
CUT = ("split_heads", "MultiHeadAttention")
MERGED = ("merge_heads", "MultiHeadAttention")

MISTAKES = (
    Mistake(
        "M2",
        way(
            "attend",
            "scores.softmax(dim=-1)",
            "torch.where(scores.isinf(), scores, scores.clamp(-50, 50)).softmax(dim=-1)",
        ),
        way(
            "attend",
            "scores.softmax(dim=-1)",
            "torch.where(scores.isinf(), scores, scores.clamp(-10, 10)).softmax(dim=-1)",
        ),
    ),
    Mistake(
        "M3",
        way("attend", "scores.softmax(dim=-1)", "scores.exp() / scores.exp().sum(-1, keepdim=True)"),
        way("attend", "scores.softmax(dim=-1)", "(scores.exp() / scores.exp().sum(-1, keepdim=True)).nan_to_num()"),
    ),
    Mistake(
        "M5",
        way(INSIDE, "scores.softmax(dim=-1)", "scores.flatten().softmax(0).reshape(scores.shape)"),
        way(INSIDE, "scores.softmax(dim=-1)", "scores.flatten(1).softmax(1).reshape(scores.shape)"),
        way(INSIDE, "scores.softmax(dim=-1)", "scores.flatten(2).softmax(2).reshape(scores.shape)"),
    ),
    Mistake(
        "M6",
        way(INSIDE, "scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
        way(INSIDE, "scores.softmax(dim=-1)", "scores.softmax(dim=0)"),
    ),
    Mistake(
        "M7",
        way(INSIDE, "scores.softmax(dim=-1)", "scores.softmax(dim=-1) / q.shape[-1] ** 0.5"),
        way(
            INSIDE,
            "q, k) / q.shape[-1] ** 0.5",
            "q, k)",
            "scores.softmax(dim=-1)",
            "scores.softmax(dim=-1) / q.shape[-1] ** 0.5",
        ),
        way(
            "attend",
            "q, k) / q.shape[-1] ** 0.5",
            "q, k)",
            "weights, v), weights",
            "weights, v) / q.shape[-1] ** 0.5, weights",
        ),
        way(
            "MultiHeadAttention",
            "q, k) / q.shape[-1] ** 0.5",
            "q, k)",
            "self.dropout(weights), v)",
            "self.dropout(weights), v) / q.shape[-1] ** 0.5",
        ),
    ),
    Mistake("M8", way(INSIDE, "q, k) / q.shape[-1] ** 0.5", "q, k)")),
    Mistake(
        "M9",
        way(INSIDE, "/ q.shape[-1] ** 0.5", "* (q.shape[1] * q.shape[-1]) ** -0.5"),
        way(INSIDE, "/ q.shape[-1] ** 0.5", "* q.shape[1] ** -0.5"),
        way(INSIDE, "/ q.shape[-1] ** 0.5", "* q.shape[2] ** -0.5"),
        way(INSIDE, "/ q.shape[-1] ** 0.5", "* q.shape[0] ** -0.5"),
    ),
    Mistake(
        "M10",
        way(INSIDE, "/ q.shape[-1] ** 0.5", "/ q.shape[-1]"),
        way(INSIDE, "/ q.shape[-1] ** 0.5", "/ q.shape[-1] ** 1 / 2"),
        way(INSIDE, "/ q.shape[-1] ** 0.5", "/ (q.shape[-1] ** 1 / 2)"),
        way(INSIDE, "/ q.shape[-1] ** 0.5", "* q.shape[-1] ** 0.5"),
        way(INSIDE, "/ q.shape[-1] ** 0.5", "* q.shape[-1] ** -0.25"),
    ),
    Mistake(
        "M11",
        way("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bkd->bkq"'),
        way("pairwise_dot", '"bqd,bkd->bqk", q, k', '"bqd,bkd->bqk", k, q'),
        way(INSIDE, '"bhid,bhjd->bhij"', '"bhid,bhjd->bhji"'),
        way("attend", '"bhid,bhjd->bhij", q, k', '"bhid,bhjd->bhij", k, q'),
        way("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-1).mT"),
        way("MultiHeadAttention", "q, k, v = (", "k, q, v = ("),
        way(
            "to_torch",
            "copy_(mha.qkv.weight)",
            "copy_(torch.cat([mha.qkv.weight.chunk(3)[part] for part in (1, 0, 2)]))",
            "copy_(mha.qkv.bias)",
            "copy_(torch.cat([mha.qkv.bias.chunk(3)[part] for part in (1, 0, 2)]))",
        ),
    ),
    Mistake(
        "M12",
        way("MultiHeadAttention", "self.qkv(x).chunk(3, dim=-1)", "(x, x, x)"),
        way("MultiHeadAttention", "self.qkv(x).chunk(3, dim=-1)", "self.qkv(x).chunk(3, dim=-1)[:1] * 3"),
        way("MultiHeadAttention", "attend(q, k, v, mask)", "attend(q, q, v, mask)"),
    ),
    Mistake(
        "M13",
        way("attend", "weights, v), weights", "weights, k), weights"),
        way("attend", "weights, v), weights", "weights, q), weights"),
        way("MultiHeadAttention", "self.dropout(weights), v)", "self.dropout(weights), k)"),
        way("MultiHeadAttention", "self.dropout(weights), v)", "self.dropout(weights), q)"),
        way(
            "MultiHeadAttention",
            "_, weights = attend(q, k, v, mask)",
            "v = k\n        _, weights = attend(q, k, v, mask)",
        ),
        way("MultiHeadAttention", "self.qkv(x).chunk(3, dim=-1)", "(*self.qkv(x).chunk(3, dim=-1)[:2], x)"),
    ),
    Mistake(
        "M14",
        way(
            "attend",
            "weights = scores.softmax(dim=-1)",
            "exponentials = (scores - scores.max()).exp()\n    weights = exponentials / exponentials.sum(-1, keepdim=True)",
        ),
    ),
    Mistake(
        "M15",
        way("attend", "    if mask is not None:", "    q.div_(q.shape[-1] ** 0.5)\n    if mask is not None:"),
        way("attend", "    if mask is not None:", "    k.div_(k.shape[-1] ** 0.5)\n    if mask is not None:"),
    ),
    Mistake(
        "M16",
        way(INSIDE, "masked_fill(~mask, -torch.inf)", "masked_fill(mask, -torch.inf)"),
        way(INSIDE, "masked_fill(~mask, -torch.inf)", "masked_fill(mask, -1e9)"),
    ),
    Mistake(
        "M17",
        way(
            INSIDE,
            "scores = scores.masked_fill(~mask, -torch.inf)",
            "pass",
            "scores.softmax(dim=-1)",
            "scores.softmax(dim=-1) * (1 if mask is None else mask)",
        ),
    ),
    Mistake(
        "M18",
        way(INSIDE, "scores.masked_fill(~mask, -torch.inf)", "scores + mask"),
        way(INSIDE, "scores.masked_fill(~mask, -torch.inf)", "scores - (~mask).float()"),
        way(INSIDE, "scores.masked_fill(~mask, -torch.inf)", "scores * mask"),
        way(INSIDE, "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, 1e-9)"),
        way(INSIDE, "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, -10.0)"),
        way(INSIDE, "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, -100.0)"),
        way(INSIDE, "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, -10_000.0)"),
        way(INSIDE, "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, torch.finfo(scores.dtype).tiny)"),
    ),
    Mistake(
        "M19",
        way(INSIDE, "mask[:, None, None, :]", "mask", "mask[:, None]", "mask"),
        way(INSIDE, "mask[:, None, None, :]", "mask[:, None]", "mask[:, None]", "mask"),
        way(INSIDE, "mask[:, None]", "mask"),
        way(INSIDE, "mask[:, None, None, :]", "mask[:, None]"),
        way(INSIDE, "mask[:, None, None, :]", "mask"),
        # a mask of pairs that is transposed once no row of it is empty; only a mask of keys has one row
        way(INSIDE, "masked_fill(~mask, ", "masked_fill(~(mask if mask.shape[2] == 1 else mask.mT), "),
    ),
    Mistake(
        "M20",
        way("attend", "if empty.any()", "if False"),
        way("attend", "if empty.any()", "if False", "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, -1e9)"),
        # not for a mask of keys, and not for a mask in each head
        way("attend", "if empty.any()", "if mask.shape[2] > 1 and empty.any()"),
        way("attend", "if empty.any()", "if mask.shape[1] == 1 and empty.any()"),
        way("attend", "if empty.any()", "if False", "scores.softmax(dim=-1)", "scores.softmax(dim=-1).nan_to_num()"),
    ),
    Mistake(
        "M21",
        "heads are split without swapping the axes of tokens and heads",
        "Your heads mix tokens with components, because view and reshape never swap axes. Do you split the width "
        "into heads and components first, and then swap tokens and heads?",
        way(
            CUT,
            "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)",
            "x.reshape(images, num_heads, tokens, -1)",
        ),
        way(
            "split_heads",
            "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)",
            "x.mT.reshape(images, num_heads, tokens, -1)",
        ),
        way(
            "split_heads",
            "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)",
            "x.reshape(images, num_heads, -1, tokens).mT",
        ),
        way(
            "split_heads",
            "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)",
            "x.transpose(0, 1).reshape(images, num_heads, tokens, -1)",
        ),
        way("split_heads", "width // num_heads).transpose(1, 2)", "width // num_heads)"),
        way(
            "MultiHeadAttention",
            "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)",
            "x.reshape(images, num_heads, tokens, -1)",
            "x.transpose(1, 2).flatten(start_dim=2)",
            "x.reshape(x.shape[0], x.shape[2], -1)",
        ),
        way(
            "MultiHeadAttention",
            "width // num_heads).transpose(1, 2)",
            "width // num_heads)",
            "x.transpose(1, 2).flatten(start_dim=2)",
            "x.flatten(start_dim=2)",
        ),
        # the packed result is viewed as (3, B, H, N, d) at once, which mixes all of these axes
        way(
            "MultiHeadAttention",
            "(split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))",
            "self.qkv(x).reshape(3, x.shape[0], self.num_heads, x.shape[1], -1)",
        ),
    ),
    Mistake(
        "M22",
        "heads are merged without swapping the axes back",
        "Your merged tokens mix tokens with components. Do you swap the axes of heads and tokens back before you "
        "merge heads and components?",
        way(MERGED, "x.transpose(1, 2).flatten(start_dim=2)", "x.reshape(x.shape[0], x.shape[2], -1)"),
        way(MERGED, "x.transpose(1, 2).flatten(start_dim=2)", "x.mT.reshape(x.shape[0], x.shape[2], -1)"),
        way(
            "merge_heads",
            "x.transpose(1, 2).flatten(start_dim=2)",
            "x.transpose(0, 2).reshape(x.shape[0], x.shape[2], -1)",
        ),
        way(
            "merge_heads",
            "x.transpose(1, 2).flatten(start_dim=2)",
            "x.transpose(0, 1).reshape(x.shape[0], x.shape[2], -1)",
        ),
    ),
    Mistake(
        "M23",
        "each head projects its own slice of the token",
        "Each head sees only a part of the token. Do you project the whole token first, and split queries, keys and "
        "values into heads after that?",
        # of each weight matrix only the blocks on the diagonal are used
        way(
            "MultiHeadAttention",
            "q, k, v = (",
            "width = x.shape[-1] // self.num_heads\n"
            "        blocks = torch.block_diag(*[torch.ones(width, width)] * self.num_heads)\n"
            "        q, k, v = (",
            "self.qkv(x)",
            "nn.functional.linear(x, self.qkv.weight * blocks.repeat(3, 1), self.qkv.bias)",
        ),
        way(
            "MultiHeadAttention",
            "nn.Linear(width, 3 * width)",
            "nn.Linear(width // num_heads, 3 * (width // num_heads))",
            "(split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))",
            "self.qkv(split_heads(x, self.num_heads)).chunk(3, dim=-1)",
        ),
    ),
    Mistake(
        "M24",
        "no output projection",
        "Your result is the merged heads. Where does the layer `out` mix them?",
        way("MultiHeadAttention", "self.out(merge_heads(mixed))", "merge_heads(mixed)"),
        way(
            "MultiHeadAttention",
            "nn.Linear(width, width)",
            "nn.Identity()",
            "self.out(merge_heads(mixed))",
            "merge_heads(mixed)",
        ),
    ),
    Mistake(
        "M25",
        "the softmax runs over the heads",
        "In your result the weights of the heads sum to 1, but the weights of the keys should. Does your softmax "
        "name its axis (dim=-1)? Without dim, PyTorch takes axis 1 of four.",
        way(INSIDE, "scores.softmax(dim=-1)", "scores.softmax(dim=1)"),
    ),
    Mistake(
        "M26",
        "all heads share one projection, or each has the full width",
        "Your heads do not differ as they should. Does each head use its own d = D / H rows of the projections of "
        "queries, keys and values?",
        way(
            "MultiHeadAttention",
            "split_heads(part, self.num_heads)",
            "split_heads(part, self.num_heads)[:, :1].repeat(1, self.num_heads, 1, 1)",
        ),
        way(
            "MultiHeadAttention",
            "nn.Linear(width, 3 * width)",
            "nn.Linear(width, 3 * (width // num_heads))",
            "split_heads(part, self.num_heads)",
            "part[:, None].repeat(1, self.num_heads, 1, 1)",
        ),
        way(
            "MultiHeadAttention",
            "nn.Linear(width, 3 * width)",
            "nn.Linear(width, 3 * width * num_heads)",
            "nn.Linear(width, width)",
            "nn.Linear(width * num_heads, width)",
        ),
    ),
    Mistake(
        "M27",
        "the packed rows are unpacked as (h qkv d)",
        "qkv is packed as in nn.MultiheadAttention: all queries, then all keys, then all values. Do you cut its "
        "result into three before you split into heads?",
        way(
            "MultiHeadAttention",
            "(split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))",
            "self.qkv(x).unflatten(-1, (self.num_heads, 3, -1)).permute(3, 0, 2, 1, 4)",
        ),
        way(
            "MultiHeadAttention",
            "(split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))",
            "self.qkv(x).unflatten(-1, (self.num_heads, -1, 3)).permute(4, 0, 2, 1, 3)",
        ),
        way(
            "to_torch",
            "copy_(mha.qkv.weight)",
            "copy_(mha.qkv.weight.unflatten(0, (3, mha.num_heads, -1)).transpose(0, 1).flatten(0, 2))",
            "copy_(mha.qkv.bias)",
            "copy_(mha.qkv.bias.unflatten(0, (3, mha.num_heads, -1)).transpose(0, 1).flatten(0, 2))",
        ),
    ),
    Mistake(
        "M28",
        "images and tokens are swapped",
        "Tokens of one image look at tokens of other images. Is the batch always your first axis (batch_first)?",
        way(
            "MultiHeadAttention",
            "self.qkv(x)",
            "self.qkv(x.transpose(0, 1))",
            "self.out(merge_heads(mixed))",
            "self.out(merge_heads(mixed)).transpose(0, 1)",
        ),
    ),
    Mistake(
        "M29",
        "dropout acts in evaluation too",
        "Your result is random in evaluation. Does dropout know whether the module is in training? F.dropout always "
        "acts, unless it gets training=self.training.",
        way("MultiHeadAttention", "self.dropout(weights)", "nn.functional.dropout(weights, self.dropout.p)"),
        way(
            "MultiHeadAttention",
            "self.dropout(weights)",
            "nn.functional.dropout(weights, self.dropout.p, not self.training)",
        ),
    ),
    Mistake(
        "M30",
        "dropout does not rescale",
        "In training, the weights that are kept are not multiplied by 1 / (1 - dropout), so the sums are too small. "
        "Do you use PyTorch's dropout, or rescale yourself?",
        way(
            "MultiHeadAttention",
            "self.dropout(weights)",
            "weights * (torch.rand_like(weights) > self.dropout.p) if self.training else weights",
        ),
    ),
    Mistake("M71", way(INSIDE, "scores = scores.masked_fill(~mask, -torch.inf)", "pass")),
    Mistake(
        "M72",
        "a matrix is transposed that should not be, or the other way round",
        "One matrix is transposed and should not be, or the other way round. Does each letter name the axis that the "
        "specification gives it?",
        way("matmul", '"ik,kj->ij"', '"ik,jk->ij"'),
        way("matmul", '"ik,kj->ij"', '"ki,kj->ij"'),
        way("matmul", '"ik,kj->ij"', '"ki,jk->ij"'),
        way("matmul_transposed", '"ik,jk->ij"', '"ik,kj->ij"'),
        way("matmul_transposed", '"ik,jk->ij"', '"ki,kj->ij"'),
        way("matmul_transposed", '"ik,jk->ij"', '"ki,jk->ij"'),
        way("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bdk->bqk"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"bnd,ed,bme->bnm"'),
        way("to_torch", "copy_(mha.out.weight)", "copy_(mha.out.weight.T)"),
    ),
    Mistake(
        "M73",
        "the axes of the result are in another order",
        "The numbers are right, but in a wrong order. Are the letters right of the arrow in the order of the shape "
        "that is asked for?",
        way("matmul", '"ik,kj->ij"', '"ik,kj->ji"'),
        way("matmul_transposed", '"ik,jk->ij"', '"ik,jk->ji"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"bnd,de,bme->bmn"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"bmd,de,bne->bnm"'),
        way("split_heads", "transpose(1, 2)", "permute(2, 0, 1, 3)"),
        way("merge_heads", "x.transpose(1, 2).flatten(start_dim=2)", "x.transpose(1, 2)"),
        way("merge_heads", "flatten(start_dim=2)", "flatten(start_dim=2).transpose(0, 1)"),
    ),
    Mistake(
        "M74",
        "too many or too few axes are summed",
        "Einsum sums over each letter that is left of the arrow but not right of it. Are those the axes that you "
        "want to sum?",
        way("matmul", '"ik,kj->ij"', '"ij,ij->ij"'),
        way("matmul", '"ik,kj->ij"', '"ik,kj->ikj"'),
        way("matmul", '"ik,kj->ij"', '"ik,kj->i"'),
        way("matmul", '"ik,kj->ij"', '"ik,kj->ik"'),
        way("matmul", '"ik,kj->ij"', '"ik,kj->"'),
        way("matmul", '"ik,kj->ij"', '"ik,lj->ij"'),
        way("matmul_transposed", '"ik,jk->ij"', '"ij,ij->ij"'),
        way("matmul_transposed", '"ik,jk->ij"', '"ik,jk->i"'),
        way("matmul_transposed", '"ik,jk->ij"', '"ik,jk->"'),
        way("matmul_transposed", '"ik,jk->ij"', '"ik,jl->ij"'),
        way("batched_trace", '"bnn->b"', '"bij->b"'),
        way("batched_trace", '"bnn->b"', '"bnn->bn"'),
        way("batched_trace", '"bnn->b"', '"bij->bi"'),
        way("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bkd->bq"'),
        way("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bkd->bqkd"'),
        way("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bke->bqk"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"bnd,de,bmf->bnm"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"bnd,ef,bmf->bnm"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"bnd,de,bme->bn"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"bnd,dd,bmd->bnm"'),
    ),
    Mistake(
        "M75",
        "other images or heads are summed in",
        "An image or a head sees numbers of other images or heads. Does one axis have the same letter everywhere, "
        "and is this letter also right of the arrow?",
        way("batched_trace", '"bnn->b"', '"bnn->"'),
        way("batched_trace", '"bnn->b"', '"bnn->n"'),
        way("batched_trace", 'torch.einsum("bnn->b", a)', 'torch.einsum("bnn->", a).expand(a.shape[0])'),
        way("batched_trace", 'torch.einsum("bnn->b", a)', "a.diagonal().sum(-1)"),
        way(
            "batched_trace",
            'torch.einsum("bnn->b", a)',
            "torch.trace(a.sum(dim=0)).expand(a.shape[0]) / a.shape[0]",
        ),
        way("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,ckd->bqk"'),
        way("pairwise_dot", '"bqd,bkd->bqk"', '"cqd,bkd->bqk"'),
        way("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bkd->qk"'),
        way("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,ckd->bcqk"'),
        way("pairwise_dot", 'torch.einsum("bqd,bkd->bqk", q, k)', "torch.tensordot(q, k, dims=([2], [2]))"),
        way("bilinear", '"bnd,de,bme->bnm"', '"bnd,de,cme->bnm"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"cnd,de,bme->bnm"'),
        way("bilinear", '"bnd,de,bme->bnm"', '"bnd,de,bme->nm"'),
        way(INSIDE, '"bhid,bhjd->bhij"', '"bhid,bgjd->bhij"'),
        way(INSIDE, '"bhid,bhjd->bhij"', '"bgid,bhjd->bhij"'),
        way(INSIDE, '"bhid,bhjd->bhij"', '"bhid,chjd->bhij"'),
        way(INSIDE, '"bhij,bhjd->bhid"', '"bhij,bgjd->bhid"'),
        way(INSIDE, '"bhij,bhjd->bhid"', '"bgij,bhjd->bhid"'),
        way(INSIDE, '"bhij,bhjd->bhid"', '"bhij,chjd->bhid"'),
    ),
    Mistake(
        "M76",
        "the matrix between the two is left out",
        "Your result does not depend on w. Where do you use w?",
        way("bilinear", 'torch.einsum("bnd,de,bme->bnm", x, w, y)', "x @ y.mT"),
    ),
    Mistake(
        "M77",
        "the values are mixed with the transposed weights",
        "The weights are right, but each row should mix the values of the keys. Does the letter that you sum over "
        "name the keys, in the weights and in the values?",
        way(INSIDE, '"bhij,bhjd->bhid"', '"bhij,bhid->bhjd"'),
    ),
    Mistake(
        "M78",
        "a mask of keys hides queries",
        "A mask of shape (B, N) says which keys exist. Does yours hide columns of the scores (the last axis), or rows?",
        # the mask is turned once no row of it is empty; only a mask of keys has one row
        way(INSIDE, "masked_fill(~mask, ", "masked_fill(~(mask.mT if mask.shape[2] == 1 else mask), "),
        way(
            INSIDE,
            "masked_fill(~mask, -torch.inf)",
            "masked_fill(~(mask.mT if mask.shape[2] == 1 else mask), -1e9)",
        ),
        way(INSIDE, "masked_fill(~mask, ", "masked_fill(~(mask & mask.mT if mask.shape[2] == 1 else mask), "),
        # A mask of keys is turned before its empty rows are looked for: each hidden key is one.
        way(INSIDE, "mask[:, None, None, :]", "mask[:, None, :, None]"),
    ),
    Mistake(
        "M79",
        "one mask is used for all images or heads",
        "Every image has its own mask, and a mask with four axes differs for every head. Do you use all of them?",
        way(INSIDE, "masked_fill(~mask, ", "masked_fill(~mask[:1], "),
        way(INSIDE, "masked_fill(~mask, ", "masked_fill(~mask[:, :1], "),
        way(INSIDE, "masked_fill(~mask, ", "masked_fill(~mask.any(1, keepdim=True), "),
        way(INSIDE, "masked_fill(~mask, ", "masked_fill(~mask.any(0, keepdim=True), "),
    ),
    Mistake(
        "M80",
        "the softmax is taken twice",
        "Your rows are nearly uniform. Do you apply a second softmax?",
        way(INSIDE, "scores.softmax(dim=-1)", "scores.softmax(dim=-1).softmax(dim=-1)"),
    ),
    Mistake(
        "M81",
        "a head takes every H-th component",
        "Head 0 should hold the first d components, head 1 the next d. Do you split the width into (H, d), with the "
        "heads first, or into (d, H)?",
        way(
            CUT,
            "num_heads, width // num_heads).transpose(1, 2)",
            "width // num_heads, num_heads).permute(0, 3, 1, 2)",
        ),
        way(MERGED, "x.transpose(1, 2).flatten(start_dim=2)", "x.permute(0, 2, 3, 1).flatten(start_dim=2)"),
        way(
            "MultiHeadAttention",
            "num_heads, width // num_heads).transpose(1, 2)",
            "width // num_heads, num_heads).permute(0, 3, 1, 2)",
            "x.transpose(1, 2).flatten(start_dim=2)",
            "x.permute(0, 2, 3, 1).flatten(start_dim=2)",
        ),
    ),
    Mistake(
        "M82",
        "queries, keys and values are packed in another order",
        "The rows of qkv are the queries, then the keys, then the values. Do you take them in this order?",
        way("MultiHeadAttention", "q, k, v = (", "q, v, k = ("),
        way("MultiHeadAttention", "q, k, v = (", "v, k, q = ("),
        way("MultiHeadAttention", "q, k, v = (", "v, q, k = ("),
        way("MultiHeadAttention", "q, k, v = (", "k, v, q = ("),
        way(
            "to_torch",
            "copy_(mha.qkv.weight)",
            "copy_(torch.cat([mha.qkv.weight.chunk(3)[part] for part in (0, 2, 1)]))",
            "copy_(mha.qkv.bias)",
            "copy_(torch.cat([mha.qkv.bias.chunk(3)[part] for part in (0, 2, 1)]))",
        ),
        way(
            "to_torch",
            "copy_(mha.qkv.weight)",
            "copy_(torch.cat([mha.qkv.weight.chunk(3)[part] for part in (2, 1, 0)]))",
            "copy_(mha.qkv.bias)",
            "copy_(torch.cat([mha.qkv.bias.chunk(3)[part] for part in (2, 1, 0)]))",
        ),
        way(
            "to_torch",
            "copy_(mha.qkv.weight)",
            "copy_(torch.cat([mha.qkv.weight.chunk(3)[part] for part in (2, 0, 1)]))",
            "copy_(mha.qkv.bias)",
            "copy_(torch.cat([mha.qkv.bias.chunk(3)[part] for part in (2, 0, 1)]))",
        ),
    ),
    Mistake(
        "M83",
        "a bias is left out",
        "One of the biases has no effect. Does every layer have a bias, and does it reach the result?",
        way("MultiHeadAttention", "self.qkv(x)", "nn.functional.linear(x, self.qkv.weight)"),
        way(
            "MultiHeadAttention",
            "self.out(merge_heads(mixed))",
            "nn.functional.linear(merge_heads(mixed), self.out.weight)",
        ),
        way("MultiHeadAttention", "nn.Linear(width, 3 * width)", "nn.Linear(width, 3 * width, bias=False)"),
        way("MultiHeadAttention", "nn.Linear(width, width)", "nn.Linear(width, width, bias=False)"),
        way(
            "MultiHeadAttention",
            "nn.Linear(width, 3 * width)",
            "nn.Linear(width, 3 * width, bias=False)",
            "nn.Linear(width, width)",
            "nn.Linear(width, width, bias=False)",
        ),
        way(
            "to_torch",
            "# (3 D, D)\n        layer.in_proj_bias.copy_(mha.qkv.bias)",
            "",
            "# (D, D)\n        layer.out_proj.bias.copy_(mha.out.bias)",
            "",
        ),
        way("to_torch", "# (3 D, D)\n        layer.in_proj_bias.copy_(mha.qkv.bias)", ""),
        way("to_torch", "# (D, D)\n        layer.out_proj.bias.copy_(mha.out.bias)", ""),
        way(
            "to_torch",
            "batch_first=True",
            "bias=False, batch_first=True",
            "layer.in_proj_bias.copy_(mha.qkv.bias)",
            "pass",
            "layer.out_proj.bias.copy_(mha.out.bias)",
            "pass",
        ),
    ),
    Mistake(
        "M84",
        "the layer holds more than attention",
        "Your layer does something in addition to attention. Residual connections, norms and activations belong to "
        "the block. Is `out` the last step of your layer?",
        way("MultiHeadAttention", "self.out(merge_heads(mixed))", "self.out(merge_heads(mixed)) + x"),
        way("MultiHeadAttention", "self.out(merge_heads(mixed))", "self.out(merge_heads(mixed) + x)"),
        way(
            "MultiHeadAttention",
            "self.out(merge_heads(mixed))",
            "nn.functional.layer_norm(self.out(merge_heads(mixed)) + x, x.shape[-1:])",
        ),
        way(
            "MultiHeadAttention",
            "self.out(merge_heads(mixed))",
            "nn.functional.layer_norm(self.out(merge_heads(mixed)), x.shape[-1:])",
        ),
        way("MultiHeadAttention", "self.out(merge_heads(mixed))", "nn.functional.gelu(self.out(merge_heads(mixed)))"),
        way("MultiHeadAttention", "self.out(merge_heads(mixed))", "self.out(merge_heads(mixed)).relu()"),
    ),
    Mistake(
        "M85",
        "dropout does not act on the weights, or not only on them",
        "In training, dropout sets weights to 0 after the softmax, before the values are mixed. Where does yours act?",
        way("MultiHeadAttention", "self.dropout(weights)", "weights"),
        way(
            "MultiHeadAttention",
            "v: Tensor, mask: Tensor | None = None",
            "v: Tensor, mask: Tensor | None = None, dropout: nn.Module | None = None",
            "scores.softmax(dim=-1)",
            "dropout(scores).softmax(dim=-1)",
            "attend(q, k, v, mask)",
            "attend(q, k, v, mask, self.dropout)",
            "self.dropout(weights)",
            "weights",
        ),
        way(
            "MultiHeadAttention",
            "self.dropout(weights)",
            "weights",
            "self.out(merge_heads(mixed))",
            "self.dropout(self.out(merge_heads(mixed)))",
        ),
        way("MultiHeadAttention", "self.out(merge_heads(mixed))", "self.dropout(self.out(merge_heads(mixed)))"),
        way("MultiHeadAttention", "self.dropout(weights), v)", "weights, self.dropout(v))"),
    ),
    Mistake(
        "M86",
        "the returned weights are not those of each head",
        "Return the weights of every head, (B, H, N, N), as the softmax gives them. What do you return?",
        way("attend", "weights, v), weights", "weights, v), weights.mean(dim=1)"),
        way("attend", "weights, v), weights", "weights, v), scores"),
        way("attend", "weights, v), weights", "weights, v), weights.log()"),
        way("attend", "weights, v), weights", "weights, v), weights[0]"),
        way("MultiHeadAttention", "(output, weights) if", "(output, weights.mean(dim=1)) if"),
        way(
            "MultiHeadAttention",
            "weights, v), weights",
            "weights, v), weights, scores",
            "_, weights = attend(",
            "_, weights, scores = attend(",
            "(output, weights) if",
            "(output, scores) if",
        ),
        way("MultiHeadAttention", "(output, weights) if", "(output, weights.log()) if"),
        way("MultiHeadAttention", "(output, weights) if", "(output, weights[0]) if"),
        way("MultiHeadAttention", "(output, weights) if", "(output, self.dropout(weights)) if"),
    ),
    Mistake(
        "M87",
        "parameters are not copied",
        "Some parameters still have the random values from PyTorch. Do you copy all four, weights and biases?",
        way(
            "to_torch",
            "layer.in_proj_weight.copy_(mha.qkv.weight)",
            "pass",
            "layer.in_proj_bias.copy_(mha.qkv.bias)",
            "pass",
            "layer.out_proj.weight.copy_(mha.out.weight)",
            "pass",
            "layer.out_proj.bias.copy_(mha.out.bias)",
            "pass",
        ),
        way(
            "to_torch",
            "layer.out_proj.weight.copy_(mha.out.weight)",
            "pass",
            "layer.out_proj.bias.copy_(mha.out.bias)",
            "pass",
        ),
        way(
            "to_torch",
            "layer.in_proj_weight.copy_(mha.qkv.weight)",
            "pass",
            "layer.in_proj_bias.copy_(mha.qkv.bias)",
            "pass",
        ),
        # these two overlap with a bias that is left out, M83, as the ways above do: both together are one of these
        way("to_torch", "layer.in_proj_weight.copy_(mha.qkv.weight)  # (3 D, D)", "pass"),
        way("to_torch", "layer.out_proj.weight.copy_(mha.out.weight)  # (D, D)", "pass"),
    ),
    Mistake(
        "M88",
        "not PyTorch's layer",
        "Your result is not an nn.MultiheadAttention. Do you make one, and return it?",
        way("to_torch", "return layer", "return mha"),
        # our own layer behind PyTorch's way of calling
        way(
            "to_torch",
            "return layer",
            """class Wrapped(nn.Module):
        def __init__(self, mha: nn.Module):
            super().__init__()
            self.mha = mha

        def forward(self, query, key, value, average_attn_weights=False):
            return self.mha(query, return_weights=True)

    return Wrapped(mha)""",
        ),
        way("to_torch", "return layer", "return nn.Sequential(layer)"),
    ),
    Mistake(
        "M89",
        "PyTorch's layer is set up differently",
        "The parameters are right, but the layer uses them differently. Does it know the number of heads, and "
        "batch_first=True?",
        way("to_torch", ", batch_first=True", ""),
        way("to_torch", "mha.num_heads", "1"),
    ),
    Mistake(
        "M99",
        way("MultiHeadAttention", "nn.Dropout(dropout)", "nn.Dropout(1 - dropout if dropout else 0.0)"),
        way("MultiHeadAttention", "nn.Dropout(dropout)", "nn.Dropout(1 - dropout)"),
    ),
    Mistake(
        "M163",
        "0 is multiplied by infinity",
        "With a mask, results are NaN although a key may be looked at. What is 0 · ∞? Do you multiply anything by "
        "infinity?",
        way(INSIDE, "scores.masked_fill(~mask, -torch.inf)", "scores + (~mask) * -torch.inf"),
        way(
            INSIDE,
            "scores.masked_fill(~mask, -torch.inf)",
            "torch.where(mask, scores, -torch.inf) * torch.where(mask, 1, 0)",
        ),
    ),
    Mistake(
        "M164",
        "there are more parameters than those asked for",
        "Your layer has a parameter in addition to those of qkv and out. What is it for?",
        way(
            "MultiHeadAttention",
            "self.num_heads = num_heads",
            "self.num_heads = num_heads\n        self.temperature = nn.Parameter(torch.ones(1))",
        ),
    ),
)
