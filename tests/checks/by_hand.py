"""Known mistakes, made by changing words of the answers.

Each row holds the exercise, words of the answer, the words that replace them, and the name of the mistake. The name is
None if the catalogue does not have the mistake.
The rows do not depend on the lists of mistakes, so a mistake with a wrong name is noticed.
"""

SHIFT, TOTAL = "scores - scores.max(axis=axis, keepdims=True)", "exponentials.sum(axis=axis, keepdims=True)"
SCALED, HIDE = " / np.sqrt(queries.shape[-1])  # (..., N_q, N_k)\n    if", "scores = np.where(mask, scores, -np.inf)"
ATTEND, OUTPUT = "weights = softmax(scores)", "return weights @ values, weights"
PROJECTED = "tokens @ w_query, tokens @ w_key, tokens @ w_value"
BACK = "(grad_weights - row_means) / np.sqrt(queries.shape[-1])"
OF_ATTENTION = [
    ("softmax", SHIFT, "np.clip(scores, 100, -100)", "M1"),
    (
        "attention_backward",
        "return grad_queries, grad_keys, grad_values",
        "return grad_values, grad_keys, grad_queries",
        "M193",
    ),
    ("softmax", SHIFT, "np.clip(scores, -100, 100)", "M2"),
    ("softmax", SHIFT, "scores", "M3"),
    ("softmax", SHIFT, "scores.max(axis=axis, keepdims=True) - scores", "M208"),
    ("softmax", TOTAL, "exponentials.sum(axis=1)", "M4"),
    ("softmax", TOTAL, "exponentials.sum()", "M5"),
    ("softmax", SHIFT, "scores - scores.max()", "M14"),
    ("softmax", TOTAL, "np.sum(np.exp(scores), axis, keepdims=True)", "M3"),
    ("attention", "-np.inf", "-1e4", "M18"),
    ("attention_backward", "-2) @ grad_output", "-2) @ grad_output * queries.shape[-1] ** -0.5", "M165"),
    (
        "softmax",
        "    shifted = " + SHIFT,
        "    scores -= scores.max(axis=axis, keepdims=True)\n    shifted = scores",
        "M15",
    ),
    ("attention", ATTEND, "weights = softmax(scores, axis=-2)", "M6"),
    ("attention", ATTEND, "weights = softmax(scores) / np.sqrt(queries.shape[-1])", "M7"),
    ("attention", SCALED, "\n    if", "M8"),
    ("attention", SCALED, " / np.sqrt(values.shape[-1])\n    if", "M9"),
    ("attention", SCALED, " / queries.shape[-1]\n    if", "M10"),
    ("attention", "queries @ np.swapaxes(keys, -1, -2)", "keys @ np.swapaxes(queries, -1, -2)", "M11"),
    ("attention", OUTPUT, "return weights @ keys, weights", "M13"),
    ("attention", HIDE, "scores = np.where(mask, -np.inf, scores)", "M16"),
    (
        "attention",
        f"        {HIDE}\n    {ATTEND}",
        f"        pass\n    {ATTEND} * (1 if mask is None else mask)",
        "M17",
    ),
    ("attention", HIDE, "scores = scores + mask", "M18"),
    ("attention", HIDE, "scores = np.where(mask[:, None] if mask.ndim == 3 else mask, scores, -np.inf)", "M19"),
    ("attention", "if not mask.any(axis=-1).all()", "if False", "M20"),
    ("attention", HIDE, "pass", "M71"),
    ("attention", HIDE, "scores = scores - np.inf * ~mask", "M163"),
    ("self_attention", PROJECTED, "tokens, tokens, tokens", "M12"),
    ("attention_backward", BACK, "(grad_weights - row_means)", "M65"),
    ("attention_backward", "(grad_weights - row_means)", "grad_weights", "M66"),
    ("attention_backward", "(weights * grad_weights).sum(axis=-1", "(weights * grad_weights).sum(axis=-2", "M67"),
    ("attention_backward", "np.swapaxes(grad_scores, -1, -2) @ queries", "grad_scores @ queries", "M68"),
    ("attention_backward", "np.swapaxes(weights, -1, -2) @ grad_output", "weights @ grad_output", "M69"),
    ("attention_backward", BACK, "(grad_weights - row_means) / queries.shape[-1]", "M70"),
    ("online_softmax", "rescale * total +", "total +", "M194"),
    ("online_softmax", "np.exp(largest - origin)", "np.exp(-(largest - origin))", "M195"),
    ("online_softmax", "np.maximum(largest, scores.max(axis=-1))", "scores.max(axis=-1)", "M196"),
    ("online_softmax", "np.where(np.isneginf(larger), 0, larger)", "larger", "M197"),
    ("online_softmax", "scores.max(axis=-1)", "scores.max(axis=-1, initial=0.0)", "M198"),
    ("online_softmax", "total, mixed\n", "total, mixed / total[..., None]\n", "M199"),
]

OF_MULTIHEAD = [
    ("matmul", '"ik,kj->ij"', '"ik,jk->ij"', "M72"),
    ("attend", "mask[:, None, None, :]", "mask.unsqueeze(1).unsqueeze(-1)", "M78"),
    ("attend", "-torch.inf", "-1e4", "M18"),
    ("matmul_transposed", '"ik,jk->ij"', '"ik,jk->ji"', "M73"),
    ("batched_trace", '"bnn->b"', '"bnm->b"', "M74"),
    ("bilinear", 'torch.einsum("bnd,de,bme->bnm", x, w, y)', 'torch.einsum("bne,bme->bnm", x, y)', "M76"),
    (
        "split_heads",
        "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)",
        "x.view(images, num_heads, tokens, width // num_heads)",
        "M21",
    ),
    ("split_heads", "num_heads, width // num_heads).transpose(1, 2)", "-1, num_heads).permute(0, 3, 1, 2)", "M81"),
    ("merge_heads", "x.transpose(1, 2).flatten(start_dim=2)", "x.reshape(x.shape[0], x.shape[2], -1)", "M22"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-2)", "M6"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=1)", "M25"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-1) / q.shape[-1] ** 0.5", "M7"),
    ("attend", "q, k) / q.shape[-1] ** 0.5", "q, k)", "M8"),
    ("attend", "q, k) / q.shape[-1] ** 0.5", "q, k) / (q.shape[1] * q.shape[3]) ** 0.5", "M9"),
    ("attend", "q, k) / q.shape[-1] ** 0.5", "q, k) / q.shape[-1]", "M10"),
    ("attend", '"bhid,bhjd->bhij", q, k', '"bhid,bhjd->bhij", k, q', "M11"),
    ("attend", '"bhij,bhjd->bhid", weights, v', '"bhij,bhjd->bhid", weights, k', "M13"),
    ("attend", "masked_fill(~mask, -torch.inf)", "masked_fill(mask, -torch.inf)", "M16"),
    ("attend", "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, 1e-9)", "M18"),
    ("attend", "scores.masked_fill(~mask, -torch.inf)", "scores + ~mask * -torch.inf", "M163"),
    ("attend", "mask = mask[:, None]  #", "pass  #", "M19"),
    ("attend", "if empty.any()", "if False", "M20"),
    ("attend", '"bhid,bhjd->bhij", q, k', '"bhid,bgjd->bhij", q, k', "M75"),
    ("attend", '"bhij,bhjd->bhid", weights, v', '"bhij,bhid->bhjd", weights, v', "M77"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-1).softmax(dim=-1)", "M80"),
    ("MultiHeadAttention", "q, k, v = (", "q, v, k = (", "M82"),
    ("MultiHeadAttention", "self.out(merge_heads(mixed))", "merge_heads(mixed)", "M24"),
    ("MultiHeadAttention", "self.out(merge_heads(mixed))", "self.out(merge_heads(mixed)) + x", "M84"),
    ("MultiHeadAttention", "self.qkv(x).chunk(3, dim=-1)", "(x, x, x)", "M12"),
    (
        "MultiHeadAttention",
        "(split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))",
        "self.qkv(x).unflatten(-1, (self.num_heads, 3, -1)).permute(3, 0, 2, 1, 4)",
        "M27",
    ),
    ("MultiHeadAttention", "self.dropout(weights)", "nn.functional.dropout(weights, self.dropout.p)", "M29"),
    (
        "MultiHeadAttention",
        "self.dropout(weights)",
        "weights * (torch.rand_like(weights) > self.dropout.p * self.training)",
        "M30",
    ),
    ("MultiHeadAttention", "self.dropout(weights)", "weights", "M85"),
    ("MultiHeadAttention", "3 * width)", "3 * width, bias=False)", "M83"),
    (
        "MultiHeadAttention",
        "self.num_heads = num_heads",
        "self.num_heads, self.bias = num_heads, nn.Parameter(torch.ones(1))",
        "M164",
    ),
    ("MultiHeadAttention", "(output, weights) if", "(output, weights.mean(dim=1)) if", "M86"),
    ("to_torch", "layer.in_proj_weight.copy_(mha.qkv.weight)", "pass", "M87"),
    ("to_torch", "    return layer", "    return mha", "M88"),
    ("to_torch", ", batch_first=True", "", "M89"),
]

VARIANCE, DROPOUT = "centred.square().mean(dim=-1, keepdim=True)", "self.dropout = nn.Dropout(dropout)"
ADD_ATTENTION = "x = x + self.dropout(self.attention(self.norm_attention(x), mask))"
ADD_NET = "return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))"
SWAPPED = (
    "x = x + self.dropout(self.attention(self.norm_feed_forward(x), mask))\n"
    "        return x + self.dropout(self.feed_forward(self.norm_attention(x)))"
)
BLOCKS = "EncoderBlock(width, num_heads, hidden_width, dropout)"
LIST = f"nn.ModuleList({BLOCKS} for _ in range(depth))"
NORMS = "block.norm_attention, block.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)"
OF_ENCODER = [
    ("LayerNorm", "x - x.mean(dim=-1, keepdim=True)", "x - x.mean(dim=1 if x.ndim > 1 else 0, keepdim=True)", None),
    ("LayerNorm", "x - x.mean(dim=-1, keepdim=True)", "x", "M91"),
    ("LayerNorm", VARIANCE, "x.var(dim=-1, keepdim=True)", "M35"),
    ("LayerNorm", VARIANCE, "centred.square().sum(dim=-1, keepdim=True) / x.shape[-1]", "M107"),
    ("LayerNorm", "torch.sqrt(variance + self.eps)", "torch.sqrt(variance)", "M105"),
    ("LayerNorm", "torch.sqrt(variance + self.eps)", "(variance + self.eps)", "M92"),
    ("LayerNorm", "self.shift = nn.Parameter(torch.zeros(width))", "self.shift = torch.zeros(width)", "M36"),
    ("FeedForward", "F.gelu", "F.relu", "M41"),
    ("FeedForward", "self.expand(x)", "self.expand(F.dropout(x, self.dropout.p, self.training))", "M166"),
    ("FeedForward", "F.gelu(self.expand(x))", "self.expand(x)", "M96"),
    ("FeedForward", "nn.Linear(hidden_width, width)", "nn.Linear(hidden_width, width, bias=False)", "M83"),
    ("FeedForward", "self.dropout(hidden)", "F.dropout(hidden, self.dropout.p)", "M29"),
    ("FeedForward", "nn.Dropout(dropout)", "nn.Dropout(1 - dropout if dropout else 0)", "M99"),
    ("EncoderBlock", DROPOUT, DROPOUT + "; [nn.init.zeros_(p) for p in self.feed_forward.parameters()]", "M160"),
    ("EncoderBlock", ADD_NET, "return self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))", None),
    ("EncoderBlock", ADD_ATTENTION, ADD_ATTENTION.replace("x = x + ", "x = "), "M37"),
    ("EncoderBlock", ADD_ATTENTION, ADD_ATTENTION.replace("x = x + ", "x += "), "M15"),
    ("EncoderBlock", f"{ADD_ATTENTION}  # (B, N, D)\n        {ADD_NET}", SWAPPED, "M161"),
    ("EncoderBlock", ADD_NET, ADD_NET.replace("x + ", "x.detach() + "), "M93"),
    ("EncoderBlock", ", mask))", "))", "M71"),
    ("EncoderBlock", "self.norm_attention(x), mask", "self.norm_attention(x).mT, mask", None),
    ("Encoder", LIST, f"[{BLOCKS} for _ in range(depth)]", "M94"),
    ("Encoder", LIST, LIST.replace("range(depth)", "range(depth - 1)"), "M102"),
    ("Encoder", LIST, LIST.replace(", dropout)", ")"), "M98"),
    ("Encoder", BLOCKS, "EncoderBlock(width, 1, hidden_width, dropout)", "M135"),
    ("Encoder", "return self.norm(x)", "return x", "M90"),
    ("repair", NORMS, "pass", "M32"),
    ("repair", NORMS, "block.norm_attention = block.norm_feed_forward = nn.LayerNorm(width)", "M38"),
    ("repair", "block.attention.batch_first = True", "pass", "M28"),
    ("repair", "parameter.requires_grad_(True)", "pass", "M120"),
    ("repair", "parameter.ndim == 2", "parameter.ndim == 2 and parameter.shape[0] > parameter.shape[1]", "M40"),
    ("rope", "x[..., 0::2], x[..., 1::2]", "x[..., : width // 2], x[..., width // 2 :]", "M200"),
    ("rope", "[first * cos - second * sin, first * sin +", "[first * cos + second * sin, -first * sin +", "M201"),
    ("rope", "positions[..., None]", "torch.arange(x.shape[-2]).unsqueeze(-1)", "M202"),
    ("rope", "torch.arange(0, width, 2) / width", "torch.arange(0, width // 2) / width", "M203"),
    ("rope", "base ** (-torch", "base ** (torch", "M204"),
    ("rope", "cos, sin =", "sin, cos =", "M205"),
    ("rope", "    turned =", "    first = first * cos - second * sin\n    turned =", None),
]

EYE, ENCODER = " + torch.eye(weights.shape[-1]).to(weights)", "Encoder(depth, width, num_heads, hidden_width, dropout)"
OF_VIT = [
    ("patchify", ".permute(0, 2, 4, 1, 3, 5)", ".permute(0, 4, 2, 1, 3, 5)", "M124"),
    ("patchify", ".permute(0, 2, 4, 1, 3, 5)", ".permute(0, 2, 4, 3, 5, 1)", "M45"),
    ("patchify", ".flatten(3).flatten(1, 2)", ".flatten(1, 2)", "M127"),
    ("PatchEmbedding", ".flatten(2).transpose(1, 2)", ".flatten(2)", "M125"),
    ("PatchEmbedding", ", stride=patch_size", "", "M129"),
    ("ViT", "[class_token, patches]", "[patches, class_token]", "M49"),
    ("ViT", " + self.position_embedding", "", "M46"),
    ("ViT", "self.dropout(tokens)", "tokens", "M134"),
    ("ViT", " + self.position_embedding", ".mul(self.position_embedding)", "M169"),
    ("ViT", "tokens[:, 0]", "F.dropout(tokens[:, 0], self.dropout.p, self.training)", "M167"),
    ("PatchEmbedding", "stride=patch_size", "stride=patch_size, groups=1 if width % channels else channels", "M154"),
    ("train_epoch", "model.train()", "optimizer = torch.optim.SGD(model.train().parameters(), 0.01)", "M168"),
    ("ViT", ENCODER, ENCODER.replace(", dropout", ""), "M98"),
    ("ViT", ENCODER, ENCODER.replace("depth", "6"), "M102"),
    ("ViT", "nn.Parameter(torch.zeros(1, 1, width))", "torch.zeros(1, 1, width)", "M50"),
    ("ViT", "self.head(tokens[:, 0])", "self.head(tokens[:, 0]).softmax(dim=-1)", "M51"),
    ("train_epoch", "        optimizer.zero_grad()\n", "", "M53"),
    ("train_epoch", "        optimizer.step()\n", "", "M136"),
    ("train_epoch", "loss.detach() * len(labels)", "loss.detach()", "M63"),
    ("train_epoch", "float(right) / count", "100 * float(right) / count", "M141"),
    ("evaluate", "    model.eval()\n", "", "M52"),
    ("evaluate", "    model.train(training)\n", "", "M144"),
    ("attention_rollout", "block @ rollout", "rollout @ block", "M150"),
    ("attention_rollout", f"{EYE}) / 2", ")", "M148"),
    ("attention_rollout", f"{EYE}) / 2", f"{EYE})", "M149"),
    ("attention_rollout", "rollout[:, 0]", "rollout[:, :, 0]", "M151"),
]

BY_HAND = {"attention": OF_ATTENTION, "multihead": OF_MULTIHEAD, "encoder": OF_ENCODER, "vit": OF_VIT}
