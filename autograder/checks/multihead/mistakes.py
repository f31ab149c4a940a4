"""The known mistakes of assignment 2_multihead. Each replaces words (pieces of code) of `solutions/multihead.py`.

M31, projections over the flattened sequence, cannot be made here: the constructor does not know the number of tokens.
"""

from autograder.judge.mistake import Mistake, variant, variants

ABOUT = "Heads and einsum"  # the heading of these mistakes in the book
INSIDE = ("attend", "MultiHeadAttention")  # the layer shows what happens inside attend
CUT = ("split_heads", "MultiHeadAttention")
MERGED = ("merge_heads", "MultiHeadAttention")
LAYER = "MultiHeadAttention"
SOFTMAX = "scores.softmax(dim=-1)"
SCALED = "q, k) / q.shape[-1] ** 0.5"
SPLIT = "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)"
MERGE = "x.transpose(1, 2).flatten(start_dim=2)"
HEADS = "(split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))"
QKV = "nn.Linear(width, 3 * width)"
OUT = "nn.Linear(width, width)"
DROPPED = "self.dropout(weights)"
RETURNED = "self.out(merge_heads(mixed))"
COPIED_IN = "layer.in_proj_weight.copy_(mha.qkv.weight)", "layer.in_proj_bias.copy_(mha.qkv.bias)"
COPIED_OUT = "layer.out_proj.weight.copy_(mha.out.weight)", "layer.out_proj.bias.copy_(mha.out.bias)"
QKV_WEIGHT = "copy_(mha.qkv.weight)"
QKV_BIAS = "copy_(mha.qkv.bias)"
HIDE = "masked_fill(~mask, -torch.inf)"
HIDDEN = f"scores.{HIDE}"


def packed(order):
    """Return the words that copy weights and biases, each followed by words that copy q, k and v in another order."""
    each = f".chunk(3)[part] for part in {order}]))"
    return QKV_WEIGHT, f"copy_(torch.cat([mha.qkv.weight{each}", QKV_BIAS, f"copy_(torch.cat([mha.qkv.bias{each}"


MISTAKES = (
    Mistake(
        "M2",
        variant("attend", SOFTMAX, "torch.where(scores.isinf(), scores, scores.clamp(-50, 50)).softmax(dim=-1)"),
        variant("attend", SOFTMAX, "torch.where(scores.isinf(), scores, scores.clamp(-10, 10)).softmax(dim=-1)"),
    ),
    Mistake(
        "M3",
        variant("attend", SOFTMAX, "scores.exp() / scores.exp().sum(-1, keepdim=True)"),
        variant("attend", SOFTMAX, "(scores.exp() / scores.exp().sum(-1, keepdim=True)).nan_to_num()"),
    ),
    Mistake(
        "M5",
        variant(INSIDE, SOFTMAX, "scores.flatten().softmax(0).reshape(scores.shape)"),
        variant(INSIDE, SOFTMAX, "scores.flatten(1).softmax(1).reshape(scores.shape)"),
        variant(INSIDE, SOFTMAX, "scores.flatten(2).softmax(2).reshape(scores.shape)"),
    ),
    Mistake("M6", *variants(INSIDE, SOFTMAX, "scores.softmax(dim=-2)", "scores.softmax(dim=0)")),
    Mistake(
        "M7",
        variant(INSIDE, SOFTMAX, "scores.softmax(dim=-1) / q.shape[-1] ** 0.5"),
        variant(INSIDE, SCALED, "q, k)", SOFTMAX, "scores.softmax(dim=-1) / q.shape[-1] ** 0.5"),
        variant("attend", SCALED, "q, k)", "weights, v), weights", "weights, v) / q.shape[-1] ** 0.5, weights"),
        variant(LAYER, SCALED, "q, k)", "self.dropout(weights), v)", "self.dropout(weights), v) / q.shape[-1] ** 0.5"),
    ),
    Mistake("M8", variant(INSIDE, SCALED, "q, k)")),
    Mistake(
        "M9",
        *variants(INSIDE, "/ q.shape[-1] ** 0.5", "* (q.shape[1] * q.shape[-1]) ** -0.5", "* q.shape[1] ** -0.5"),
        *variants(INSIDE, "/ q.shape[-1] ** 0.5", "* q.shape[2] ** -0.5", "* q.shape[0] ** -0.5"),
    ),
    Mistake(
        "M10",
        *variants(
            INSIDE, "/ q.shape[-1] ** 0.5", "/ q.shape[-1]", "/ q.shape[-1] ** 1 / 2", "/ (q.shape[-1] ** 1 / 2)"
        ),
        *variants(INSIDE, "/ q.shape[-1] ** 0.5", "* q.shape[-1] ** 0.5", "* q.shape[-1] ** -0.25"),
    ),
    Mistake(
        "M11",
        variant("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bkd->bkq"'),
        variant(INSIDE, '"bhid,bhjd->bhij"', '"bhid,bhjd->bhji"'),
        variant("attend", '"bhid,bhjd->bhij", q, k', '"bhid,bhjd->bhij", k, q'),
        variant("attend", SOFTMAX, "scores.softmax(dim=-1).mT"),
        variant(LAYER, "q, k, v = (", "k, q, v = ("),
        variant("to_torch", *packed("(1, 0, 2)")),
    ),
    Mistake(
        "M12",
        *variants(LAYER, "self.qkv(x).chunk(3, dim=-1)", "(x, x, x)", "self.qkv(x).chunk(3, dim=-1)[:1] * 3"),
        variant(LAYER, "attend(q, k, v, mask)", "attend(q, q, v, mask)"),
    ),
    Mistake(
        "M13",
        *variants("attend", "weights, v), weights", "weights, k), weights", "weights, q), weights"),
        *variants(LAYER, "self.dropout(weights), v)", "self.dropout(weights), k)", "self.dropout(weights), q)"),
        variant(LAYER, "_, weights = attend(q, k, v, mask)", "v = k\n        _, weights = attend(q, k, v, mask)"),
        variant(LAYER, "self.qkv(x).chunk(3, dim=-1)", "(*self.qkv(x).chunk(3, dim=-1)[:2], x)"),
    ),
    Mistake(
        "M14",
        variant(
            "attend",
            "weights = scores.softmax(dim=-1)",
            "exponentials = (scores - scores.max()).exp()\n    weights = exponentials / exponentials.sum(-1, keepdim=True)",
        ),
    ),
    Mistake(
        "M15",
        variant("attend", "    if mask is not None:", "    q.div_(q.shape[-1] ** 0.5)\n    if mask is not None:"),
        variant("attend", "    if mask is not None:", "    k.div_(k.shape[-1] ** 0.5)\n    if mask is not None:"),
    ),
    Mistake("M16", *variants(INSIDE, HIDE, "masked_fill(mask, -torch.inf)", "masked_fill(mask, -1e9)")),
    Mistake(
        "M17",
        variant(
            INSIDE,
            f"scores = {HIDDEN}",
            "pass",
            SOFTMAX,
            "scores.softmax(dim=-1) * (1 if mask is None else mask)",
        ),
    ),
    Mistake(
        "M18",
        *variants(INSIDE, HIDDEN, "scores + mask", "scores - (~mask).float()"),
        variant(INSIDE, HIDDEN, "scores * mask"),
        *variants(INSIDE, HIDE, "masked_fill(~mask, 1e-9)", "masked_fill(~mask, -10.0)", "masked_fill(~mask, -100.0)"),
        *variants(INSIDE, HIDE, "masked_fill(~mask, -10_000.0)", "masked_fill(~mask, torch.finfo(scores.dtype).tiny)"),
    ),
    Mistake(
        "M19",
        variant(INSIDE, "mask[:, None, None, :]", "mask", "mask[:, None]", "mask"),
        variant(INSIDE, "mask[:, None, None, :]", "mask[:, None]", "mask[:, None]", "mask"),
        variant(INSIDE, "mask[:, None]", "mask"),
        *variants(INSIDE, "mask[:, None, None, :]", "mask[:, None]", "mask"),
        # A mask of pairs is transposed after the check for empty rows; a mask of keys has one row, and stays as it is.
        variant(INSIDE, "masked_fill(~mask, ", "masked_fill(~(mask if mask.shape[2] == 1 else mask.mT), "),
    ),
    Mistake(
        "M20",
        variant("attend", "if empty.any()", "if False"),
        variant("attend", "if empty.any()", "if False", HIDE, "masked_fill(~mask, -1e9)"),
        # The error is missing for a mask of keys, or for a mask in each head.
        variant("attend", "if empty.any()", "if mask.shape[2] > 1 and empty.any()"),
        variant("attend", "if empty.any()", "if mask.shape[1] == 1 and empty.any()"),
        variant("attend", "if empty.any()", "if False", SOFTMAX, "scores.softmax(dim=-1).nan_to_num()"),
    ),
    Mistake(
        "M21",
        "tokens and heads are not swapped when heads are split",
        "Your heads mix tokens with components, as if tokens and heads were never swapped. Which of your lines "
        "swaps these two axes, after the width is split? view and reshape swap no axes.",
        variant(CUT, SPLIT, "x.reshape(images, num_heads, tokens, -1)"),
        variant("split_heads", SPLIT, "x.mT.reshape(images, num_heads, tokens, -1)"),
        variant("split_heads", SPLIT, "x.reshape(images, num_heads, -1, tokens).mT"),
        variant("split_heads", SPLIT, "x.transpose(0, 1).reshape(images, num_heads, tokens, -1)"),
        variant("split_heads", "width // num_heads).transpose(1, 2)", "width // num_heads)"),
        variant(
            LAYER, SPLIT, "x.reshape(images, num_heads, tokens, -1)", MERGE, "x.reshape(x.shape[0], x.shape[2], -1)"
        ),
        variant(LAYER, "width // num_heads).transpose(1, 2)", "width // num_heads)", MERGE, "x.flatten(start_dim=2)"),
        # The packed result is viewed as (3, B, H, N, d) at once, which mixes all of these axes.
        variant(LAYER, HEADS, "self.qkv(x).reshape(3, x.shape[0], self.num_heads, x.shape[1], -1)"),
    ),
    Mistake(
        "M22",
        "heads and tokens are not swapped back when heads are merged",
        "Your merged tokens mix tokens with components. Which of your lines swaps the axes of heads and tokens "
        "back before heads and components are merged?",
        *variants(MERGED, MERGE, "x.reshape(x.shape[0], x.shape[2], -1)", "x.mT.reshape(x.shape[0], x.shape[2], -1)"),
        variant("merge_heads", MERGE, "x.transpose(0, 2).reshape(x.shape[0], x.shape[2], -1)"),
        variant("merge_heads", MERGE, "x.transpose(0, 1).reshape(x.shape[0], x.shape[2], -1)"),
    ),
    Mistake(
        "M23",
        "each head projects its own slice of the token",
        "Each head sees only a part of the token. Do you project the whole token first, and split queries, keys and "
        "values into heads after that?",
        # Only the blocks on the diagonal of each weight matrix are used.
        variant(
            LAYER,
            "q, k, v = (",
            "width = x.shape[-1] // self.num_heads\n"
            "        blocks = torch.block_diag(*[torch.ones(width, width)] * self.num_heads)\n"
            "        q, k, v = (",
            "self.qkv(x)",
            "nn.functional.linear(x, self.qkv.weight * blocks.repeat(3, 1), self.qkv.bias)",
        ),
        variant(
            LAYER,
            QKV,
            "nn.Linear(width // num_heads, 3 * (width // num_heads))",
            HEADS,
            "self.qkv(split_heads(x, self.num_heads)).chunk(3, dim=-1)",
        ),
    ),
    Mistake(
        "M24",
        "no output projection",
        "Your result is the merged heads. Where does the layer `out` mix them?",
        variant(LAYER, RETURNED, "merge_heads(mixed)"),
        variant(LAYER, OUT, "nn.Identity()", RETURNED, "merge_heads(mixed)"),
    ),
    Mistake(
        "M25",
        "the softmax runs over the heads",
        "In your result the weights of the heads sum to 1, but the weights of the keys should. Over which axis "
        "does your softmax run? F.softmax without dim uses axis 1 if there are four axes.",
        variant(INSIDE, SOFTMAX, "scores.softmax(dim=1)"),
    ),
    Mistake(
        "M26",
        "all heads share one projection, or each has the full width",
        "Your heads do not differ as they should. Does each head use its own d = D / H rows of the projections of "
        "queries, keys and values?",
        variant(
            LAYER,
            "split_heads(part, self.num_heads)",
            "split_heads(part, self.num_heads)[:, :1].repeat(1, self.num_heads, 1, 1)",
        ),
        variant(
            LAYER,
            QKV,
            "nn.Linear(width, 3 * (width // num_heads))",
            "split_heads(part, self.num_heads)",
            "part[:, None].repeat(1, self.num_heads, 1, 1)",
        ),
        variant(LAYER, QKV, "nn.Linear(width, 3 * width * num_heads)", OUT, "nn.Linear(width * num_heads, width)"),
    ),
    Mistake(
        "M27",
        "the packed rows are unpacked as (h qkv d)",
        "qkv is packed as in nn.MultiheadAttention: all queries, then all keys, then all values. Do you cut the result "
        "of qkv into three parts before you split it into heads?",
        variant(LAYER, HEADS, "self.qkv(x).unflatten(-1, (self.num_heads, 3, -1)).permute(3, 0, 2, 1, 4)"),
        variant(LAYER, HEADS, "self.qkv(x).unflatten(-1, (self.num_heads, -1, 3)).permute(4, 0, 2, 1, 3)"),
        variant(
            "to_torch",
            QKV_WEIGHT,
            "copy_(mha.qkv.weight.unflatten(0, (3, mha.num_heads, -1)).transpose(0, 1).flatten(0, 2))",
            QKV_BIAS,
            "copy_(mha.qkv.bias.unflatten(0, (3, mha.num_heads, -1)).transpose(0, 1).flatten(0, 2))",
        ),
    ),
    Mistake(
        "M28",
        "attention runs over the images, not over the tokens",
        "Tokens of one image look at tokens of other images. Is the batch always your first axis (batch_first)?",
        variant(
            LAYER,
            "self.qkv(x)",
            "self.qkv(x.transpose(0, 1))",
            RETURNED,
            "self.out(merge_heads(mixed)).transpose(0, 1)",
        ),
    ),
    Mistake(
        "M29",
        "the result is random in evaluation",
        "Your result is random in evaluation. Does dropout know whether the module is in training? F.dropout always "
        "acts, unless it gets training=self.training.",
        variant(LAYER, DROPPED, "nn.functional.dropout(weights, self.dropout.p)"),
        variant(LAYER, DROPPED, "nn.functional.dropout(weights, self.dropout.p, not self.training)"),
    ),
    Mistake(
        "M30",
        "dropout does not rescale",
        "In training, the numbers that are kept are not multiplied by 1 / (1 - dropout), so the sums are too small. "
        "Do you use PyTorch's dropout, or rescale yourself?",
        variant(LAYER, DROPPED, "weights * (torch.rand_like(weights) > self.dropout.p) if self.training else weights"),
    ),
    Mistake("M71", variant(INSIDE, f"scores = {HIDDEN}", "pass")),
    Mistake(
        "M72",
        "a matrix is transposed but should not be, or the other way round",
        "One matrix is transposed but should not be, or the other way round. Which axis of each matrix is summed?",
        *variants("matmul", '"ik,kj->ij"', '"ik,jk->ij"', '"ki,kj->ij"', '"ki,jk->ij"'),
        *variants("matmul_transposed", '"ik,jk->ij"', '"ik,kj->ij"', '"ki,kj->ij"', '"ki,jk->ij"'),
        variant("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bdk->bqk"'),
        variant("bilinear", '"bnd,de,bme->bnm"', '"bnd,ed,bme->bnm"'),
        variant("to_torch", "copy_(mha.out.weight)", "copy_(mha.out.weight.T)"),
    ),
    Mistake(
        "M73",
        "the axes of the result are in another order",
        "The numbers are right, but in a wrong order. Which axis comes first in your result, and which in the "
        "shape that is asked for?",
        variant("matmul", '"ik,kj->ij"', '"ik,kj->ji"'),
        variant("matmul_transposed", '"ik,jk->ij"', '"ik,jk->ji"'),
        variant("bilinear", '"bnd,de,bme->bnm"', '"bnd,de,bme->bmn"'),
        variant("split_heads", "transpose(1, 2)", "permute(2, 0, 1, 3)"),
        variant("merge_heads", MERGE, "x.transpose(1, 2)"),
        variant("merge_heads", "flatten(start_dim=2)", "flatten(start_dim=2).transpose(0, 1)"),
    ),
    Mistake(
        "M74",
        "too many or too few axes are summed",
        "Your result is a sum over other axes than those that the specification sums. Which axes of each argument "
        "are not in the result?",
        *variants("matmul", '"ik,kj->ij"', '"ij,ij->ij"', '"ik,kj->ikj"', '"ik,kj->i"', '"ik,kj->ik"', '"ik,kj->"'),
        variant("matmul", '"ik,kj->ij"', '"ik,lj->ij"'),
        *variants("matmul_transposed", '"ik,jk->ij"', '"ij,ij->ij"', '"ik,jk->i"', '"ik,jk->"', '"ik,jl->ij"'),
        *variants("batched_trace", '"bnn->b"', '"bij->b"', '"bnn->bn"', '"bij->bi"'),
        *variants("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,bkd->bq"', '"bqd,bkd->bqkd"', '"bqd,bke->bqk"'),
        *variants("bilinear", '"bnd,de,bme->bnm"', '"bnd,de,bmf->bnm"', '"bnd,ef,bmf->bnm"', '"bnd,de,bme->bn"'),
        variant("bilinear", '"bnd,de,bme->bnm"', '"bnd,dd,bmd->bnm"'),
    ),
    Mistake(
        "M75",
        "the sum includes other images or heads",
        "An image or a head sees numbers of other images or heads. Which axis is that of the images, or of the "
        "heads? Is it separate in every step, up to the result?",
        *variants("batched_trace", '"bnn->b"', '"bnn->"', '"bnn->n"'),
        variant("batched_trace", 'torch.einsum("bnn->b", a)', 'torch.einsum("bnn->", a).expand(a.shape[0])'),
        variant("batched_trace", 'torch.einsum("bnn->b", a)', "a.diagonal().sum(-1)"),
        variant(
            "batched_trace", 'torch.einsum("bnn->b", a)', "torch.trace(a.sum(dim=0)).expand(a.shape[0]) / a.shape[0]"
        ),
        *variants(
            "pairwise_dot", '"bqd,bkd->bqk"', '"bqd,ckd->bqk"', '"cqd,bkd->bqk"', '"bqd,bkd->qk"', '"bqd,ckd->bcqk"'
        ),
        variant("pairwise_dot", 'torch.einsum("bqd,bkd->bqk", q, k)', "torch.tensordot(q, k, dims=([2], [2]))"),
        *variants("bilinear", '"bnd,de,bme->bnm"', '"bnd,de,cme->bnm"', '"cnd,de,bme->bnm"', '"bnd,de,bme->nm"'),
        *variants(INSIDE, '"bhid,bhjd->bhij"', '"bhid,bgjd->bhij"', '"bgid,bhjd->bhij"', '"bhid,chjd->bhij"'),
        *variants(INSIDE, '"bhij,bhjd->bhid"', '"bhij,bgjd->bhid"', '"bgij,bhjd->bhid"', '"bhij,chjd->bhid"'),
    ),
    Mistake(
        "M76",
        "the matrix between x and y is left out",
        "Your result does not depend on w. Where do you use w?",
        variant("bilinear", 'torch.einsum("bnd,de,bme->bnm", x, w, y)', "x @ y.mT"),
    ),
    Mistake(
        "M77",
        "the values are mixed with the transposed weights",
        "The weights are right, but each of their rows should mix the values of the keys. Over which axis of the "
        "weights, and of the values, do you sum?",
        variant(INSIDE, '"bhij,bhjd->bhid"', '"bhij,bhid->bhjd"'),
    ),
    Mistake(
        "M78",
        "a mask of keys hides queries",
        "A mask of shape (B, N) says which keys exist. Does your mask hide columns of the scores (the last axis), or "
        "rows?",
        # The mask is transposed after the check for empty rows; only a mask of keys has one row.
        variant(INSIDE, "masked_fill(~mask, ", "masked_fill(~(mask.mT if mask.shape[2] == 1 else mask), "),
        variant(INSIDE, HIDE, "masked_fill(~(mask.mT if mask.shape[2] == 1 else mask), -1e9)"),
        variant(INSIDE, "masked_fill(~mask, ", "masked_fill(~(mask & mask.mT if mask.shape[2] == 1 else mask), "),
        # A mask of keys is transposed before the check for empty rows: each hidden key is an empty row.
        variant(INSIDE, "mask[:, None, None, :]", "mask[:, None, :, None]"),
    ),
    Mistake(
        "M79",
        "one mask is used for all images or heads",
        "Every image has its own mask, and a mask with four axes differs for every head. Do you use all of them?",
        *variants(INSIDE, "masked_fill(~mask, ", "masked_fill(~mask[:1], ", "masked_fill(~mask[:, :1], "),
        variant(INSIDE, "masked_fill(~mask, ", "masked_fill(~mask.any(1, keepdim=True), "),
        variant(INSIDE, "masked_fill(~mask, ", "masked_fill(~mask.any(0, keepdim=True), "),
    ),
    Mistake(
        "M80",
        "the softmax is taken twice",
        "Your rows are nearly uniform. Do you apply a second softmax?",
        variant(INSIDE, SOFTMAX, "scores.softmax(dim=-1).softmax(dim=-1)"),
    ),
    Mistake(
        "M81",
        "a head takes every H-th component",
        "Head 0 should have the first d components, and head 1 the next d. Do you split the width into (H, d), with "
        "the heads first, or into (d, H)?",
        variant(
            CUT, "num_heads, width // num_heads).transpose(1, 2)", "width // num_heads, num_heads).permute(0, 3, 1, 2)"
        ),
        variant(MERGED, MERGE, "x.permute(0, 2, 3, 1).flatten(start_dim=2)"),
        variant(
            LAYER,
            "num_heads, width // num_heads).transpose(1, 2)",
            "width // num_heads, num_heads).permute(0, 3, 1, 2)",
            MERGE,
            "x.permute(0, 2, 3, 1).flatten(start_dim=2)",
        ),
    ),
    Mistake(
        "M82",
        "queries, keys and values are packed in another order",
        "The rows of qkv are the queries, then the keys, then the values. Do you take them in this order?",
        *variants(LAYER, "q, k, v = (", "q, v, k = (", "v, k, q = (", "v, q, k = (", "k, v, q = ("),
        variant("to_torch", *packed("(0, 2, 1)")),
        variant("to_torch", *packed("(2, 1, 0)")),
        variant("to_torch", *packed("(2, 0, 1)")),
    ),
    Mistake(
        "M83",
        "a bias is left out",
        "One of the biases has no effect. Does every layer have a bias, and does it reach the result?",
        variant(LAYER, "self.qkv(x)", "nn.functional.linear(x, self.qkv.weight)"),
        variant(LAYER, RETURNED, "nn.functional.linear(merge_heads(mixed), self.out.weight)"),
        variant(LAYER, QKV, "nn.Linear(width, 3 * width, bias=False)"),
        variant(LAYER, OUT, "nn.Linear(width, width, bias=False)"),
        variant(LAYER, QKV, "nn.Linear(width, 3 * width, bias=False)", OUT, "nn.Linear(width, width, bias=False)"),
        variant(
            "to_torch",
            "# (3 D, D)\n        layer.in_proj_bias.copy_(mha.qkv.bias)",
            "",
            "# (D, D)\n        layer.out_proj.bias.copy_(mha.out.bias)",
            "",
        ),
        variant("to_torch", "# (3 D, D)\n        layer.in_proj_bias.copy_(mha.qkv.bias)", ""),
        variant("to_torch", "# (D, D)\n        layer.out_proj.bias.copy_(mha.out.bias)", ""),
    ),
    Mistake(
        "M84",
        "the layer does more than attention",
        "Your layer does something in addition to attention. Residual connections, norms and activations belong to "
        "the block. Is `out` the last step of your layer?",
        *variants(LAYER, RETURNED, "self.out(merge_heads(mixed)) + x", "self.out(merge_heads(mixed) + x)"),
        variant(LAYER, RETURNED, "nn.functional.layer_norm(self.out(merge_heads(mixed)) + x, x.shape[-1:])"),
        variant(LAYER, RETURNED, "nn.functional.layer_norm(self.out(merge_heads(mixed)), x.shape[-1:])"),
        variant(LAYER, RETURNED, "nn.functional.gelu(self.out(merge_heads(mixed)))"),
        variant(LAYER, RETURNED, "self.out(merge_heads(mixed)).relu()"),
    ),
    Mistake(
        "M85",
        "dropout does not act on the weights, or not only on them",
        "In training, dropout sets weights to 0 after the softmax, before the values are mixed. Where does your "
        "dropout act?",
        variant(LAYER, DROPPED, "weights"),
        variant(LAYER, RETURNED, "self.dropout(self.out(merge_heads(mixed)))"),
        variant(LAYER, "self.dropout(weights), v)", "weights, self.dropout(v))"),
    ),
    Mistake(
        "M86",
        "the returned weights are not those of each head",
        "Return the weights of every head, (B, H, N, N), as the softmax gives them. What do you return?",
        *variants("attend", "weights, v), weights", "weights, v), weights.mean(dim=1)", "weights, v), scores"),
        *variants("attend", "weights, v), weights", "weights, v), weights.log()", "weights, v), weights[0]"),
        variant(LAYER, "(output, weights) if", "(output, weights.mean(dim=1)) if"),
        variant(
            LAYER,
            "weights, v), weights",
            "weights, v), weights, scores",
            "_, weights = attend(",
            "_, weights, scores = attend(",
            "(output, weights) if",
            "(output, scores) if",
        ),
        *variants(LAYER, "(output, weights) if", "(output, weights.log()) if", "(output, weights[0]) if"),
        variant(LAYER, "(output, weights) if", "(output, self.dropout(weights)) if"),
    ),
    Mistake(
        "M87",
        "parameters are not copied",
        "Some parameters still have the random values from PyTorch. Do you copy all four: two weights and two biases?",
        *(
            variant("to_torch", *(words for line in lines for words in (line, "pass")))
            for lines in ((*COPIED_IN, *COPIED_OUT), COPIED_OUT, COPIED_IN)
        ),
        # The words of these two variants overlap with the words of M83, which leaves out a bias. So tests do not
        # combine these variants with M83: the result would still be this mistake.
        variant("to_torch", "layer.in_proj_weight.copy_(mha.qkv.weight)  # (3 D, D)", "pass"),
        variant("to_torch", "layer.out_proj.weight.copy_(mha.out.weight)  # (D, D)", "pass"),
    ),
    Mistake(
        "M88",
        "the result is not PyTorch's layer",
        "Your result is not an nn.MultiheadAttention. Do you make one, and return it?",
        variant("to_torch", "return layer", "return mha"),
    ),
    Mistake(
        "M89",
        "PyTorch's layer is set up differently",
        "The parameters are right, but the layer uses them differently. Do you give it the number of heads, and "
        "batch_first=True?",
        variant("to_torch", ", batch_first=True", ""),
        variant("to_torch", "mha.num_heads", "1"),
    ),
    Mistake(
        "M99",
        variant(LAYER, "nn.Dropout(dropout)", "nn.Dropout(1 - dropout if dropout else 0.0)"),
    ),
    Mistake(
        "M163",
        "NaN although a key is visible",
        "With a mask, results are NaN although a key is visible. What is 0 · ∞? Do you multiply anything by infinity?",
        variant(INSIDE, HIDDEN, "scores + (~mask) * -torch.inf"),
        variant(INSIDE, HIDDEN, "torch.where(mask, scores, -torch.inf) * torch.where(mask, 1, 0)"),
    ),
    Mistake(
        "M164",
        "there are more parameters than those asked for",
        "Your layer has a parameter in addition to those of qkv and out. What is it for?",
        variant(
            LAYER,
            "self.num_heads = num_heads",
            "self.num_heads = num_heads\n        self.temperature = nn.Parameter(torch.ones(1))",
        ),
    ),
)
