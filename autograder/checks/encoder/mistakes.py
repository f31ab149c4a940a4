"""The known mistakes of assignment 3_encoder. Each replaces some words (pieces of code) of the answer by others."""

from autograder.judge.mistake import Mistake, all_and_each, variant, variants

ABOUT = "Encoder blocks"  # the heading of these mistakes in the book
PARTS = ("FeedForward", "EncoderBlock")  # in both, the last line of __init__ makes the dropout
BLOCKS = ("EncoderBlock", "Encoder")

# __init__ makes all matrices before it reaches these words. So a mistake can insert another initialisation here.
DROPOUT = "self.dropout = "
LAST_NORM = "self.norm = "
KEPT = "1 - dropout if dropout else 0.0"
EACH_MATRIX = """for parameter in self.parameters():
            if parameter.ndim > 1:
                """

BEGIN = "super().__init__()"
WITH_DROPOUT = "super().__init__()\n        self.dropout = nn.Dropout(dropout)"

# Words of LayerNorm, FeedForward, EncoderBlock, Encoder, repair and rope.
VARIANCE = "centred.square().mean(dim=-1, keepdim=True)"
ATTENTION = "self.dropout(self.attention(self.norm_attention(x), mask))"
NET = "self.dropout(self.feed_forward(self.norm_feed_forward(x)))"
STACK = "nn.ModuleList(EncoderBlock(width, num_heads, hidden_width, dropout) for _ in range(depth))"
LOOP = "for block in self.blocks:"
NORMS = "nn.LayerNorm(width), nn.LayerNorm(width)"
DRAW = "nn.init.xavier_uniform_(parameter)"
PAIRS = "x[..., 0::2], x[..., 1::2]"
FIRST_NORM = "norm_attention = LayerNorm(width)"
SECOND_NORM = "norm_feed_forward = LayerNorm(width)"
FIRST = "self.norm_attention(x)"
SECOND = "self.norm_feed_forward(x)"
MEAN = "x.mean(dim=-1"
SQUARES = "square().mean(dim=-1"
EXPAND = "nn.Linear(width, hidden_width)"
CONTRACT = "nn.Linear(hidden_width, width)"
SCALE = "nn.Parameter(torch.ones(width))"
SHIFT = "nn.Parameter(torch.zeros(width))"
ROOT = "torch.sqrt(variance + self.eps)"


def norms(made):
    """Return the words that make each of the two norms of a block, each followed by the words that replace them."""
    return FIRST_NORM, f"norm_attention = {made}", SECOND_NORM, f"norm_feed_forward = {made}"


def over(axes):
    """Return the words for the axis of the mean and of the variance, each followed by the same words for other axes."""
    return MEAN, f"x.mean(dim={axes}", SQUARES, f"square().mean(dim={axes}"


MISTAKES = (
    Mistake(
        "M15",
        variant(
            "LayerNorm",
            "centred = x - x.mean(dim=-1, keepdim=True)",
            "x -= x.mean(dim=-1, keepdim=True)\n        centred = x",
        ),
        variant("FeedForward", "hidden = ", "x.clamp_(min=-0.5)\n        hidden = "),
        variant("EncoderBlock", "x = x + ", "x += "),
        variant("Encoder", LOOP, f"x.mul_(1.01)\n        {LOOP}"),
        variant("rope", "return turned.flatten(-2)", "return x.copy_(turned.flatten(-2))"),
    ),
    Mistake("M16", variant(BLOCKS, ", mask)", ", None if mask is None else ~mask)")),
    Mistake(
        "M28",
        variant(
            "EncoderBlock",
            "self.attention(self.norm_attention(x), mask)",
            "self.attention(self.norm_attention(x).transpose(0, 1)).transpose(0, 1)",
        ),
        variant("repair", "batch_first = True", "batch_first = False"),
    ),
    Mistake(
        "M29",
        variant(PARTS, "nn.Dropout(dropout)", "lambda x: F.dropout(x, dropout)"),
        variant("FeedForward", "nn.Dropout(dropout)", "lambda x: F.dropout(x, dropout, not self.training)"),
    ),
    Mistake(
        "M30",
        variant(PARTS, "nn.Dropout(dropout)", "lambda x: x * (torch.rand_like(x) >= dropout) if self.training else x"),
        # Dropout follows the paper of 2014: training does not rescale, and evaluation multiplies all numbers.
        variant(
            PARTS,
            "nn.Dropout(dropout)",
            "lambda x: x * (torch.rand_like(x) >= dropout) if self.training else x * (1 - dropout)",
        ),
    ),
    Mistake(
        "M32",
        "the norm is missing",
        "A sub-layer reads the stream without a norm. Do attention and the feed-forward network each read the output "
        "of their own norm?",
        *all_and_each("EncoderBlock", (FIRST, "x"), (SECOND, "x")),
        *all_and_each(
            "EncoderBlock",
            (FIRST_NORM, "norm_attention = nn.Identity()"),
            (SECOND_NORM, "norm_feed_forward = nn.Identity()"),
        ),
        *variants("repair", NORMS, "nn.Identity(), nn.Identity()", "nn.LayerNorm(width), nn.Identity()"),
        variant("repair", NORMS, "nn.Identity(), nn.LayerNorm(width)"),
    ),
    Mistake(
        "M33",
        "post-norm instead of pre-norm",
        "Pre-norm is x + part(norm(x)). Does your norm run before the sub-layer, or after the sum?",
        variant(
            "EncoderBlock",
            f"x + {ATTENTION}",
            "self.norm_attention(x + self.dropout(self.attention(x, mask)))",
            f"x + {NET}",
            "self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))",
        ),
        variant(
            "EncoderBlock",
            f"x + {ATTENTION}",
            "x + self.norm_attention(self.dropout(self.attention(x, mask)))",
            f"x + {NET}",
            "x + self.norm_feed_forward(self.dropout(self.feed_forward(x)))",
        ),
    ),
    Mistake(
        "M34",
        "the norm runs over the wrong axis",
        "Your norm mixes tokens or images. Do mean and variance run over the components of one token, the last axis?",
        variant("LayerNorm", *over("-2 if x.ndim > 1 else -1")),
        variant("LayerNorm", *over("1 if x.ndim > 1 else -1")),
        variant("LayerNorm", *over("0")),
        variant("LayerNorm", *over("(-2, -1) if x.ndim > 1 else -1")),
        # The norm runs over all axes but the last, as batch norm does.
        variant("LayerNorm", *over("tuple(range(x.ndim - 1)) or -1")),
        # The norm runs over all axes but the batch.
        variant("LayerNorm", *over("tuple(range(1, x.ndim)) or -1")),
        variant(
            "EncoderBlock",
            *norms("nn.BatchNorm1d(width)"),
            FIRST,
            "self.norm_attention(x.transpose(1, 2)).transpose(1, 2)",
            SECOND,
            "self.norm_feed_forward(x.transpose(1, 2)).transpose(1, 2)",
        ),
    ),
    Mistake(
        "M35",
        "another variance when eps is large or the width is small",
        "Your deviation is wrong if the width is small, or eps is large. Is the variance the mean of the squares "
        "(unbiased=False)? If there is an eps, do you compute √(variance + eps)?",
        *all_and_each(
            "LayerNorm",
            (ROOT, "(variance.sqrt() + self.eps)"),
            (VARIANCE, "centred.square().sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)"),
        ),
    ),
    Mistake(
        "M36",
        "the norm does not have its own scale and shift for each component",
        "Each component has its own learned scale and shift. Is each of the two an nn.Parameter of D numbers, and do "
        "you use both?",
        *all_and_each("LayerNorm", (SCALE, "1.0"), (SHIFT, "0.0")),
        variant("LayerNorm", "torch.ones(width)", "torch.ones(1)", "torch.zeros(width)", "torch.zeros(1)"),
        *all_and_each("LayerNorm", (" + self.shift", ""), ("self.scale * centred", "centred")),
        variant("EncoderBlock", *norms("nn.LayerNorm(width, elementwise_affine=False)")),
        variant("Encoder", "LayerNorm(width)", "nn.LayerNorm(width, elementwise_affine=False)"),
    ),
    Mistake(
        "M37",
        "a residual connection is missing, or starts from the normalised input",
        "The output of each sub-layer is added to x, the input before the norm. Is there x + … around both sub-layers, "
        "with x itself?",
        *all_and_each("EncoderBlock", ("x = x + ", "x = "), ("return x + ", "return ")),
        *all_and_each(
            "EncoderBlock",
            ("x = x + ", "x = self.norm_attention(x) + "),
            ("return x + ", "return self.norm_feed_forward(x) + "),
        ),
        # The network reads the sum after attention, and its result is added to the block's own input.
        variant("EncoderBlock", "x = x + ", "y = x + ", SECOND, "self.norm_feed_forward(y)"),
        # The network's result is added to the result of norm_attention.
        variant("EncoderBlock", "x = x + ", "y, x = self.norm_attention(x), x + ", "return x + ", "return y + "),
        variant("EncoderBlock", "x = x + ", "y = self.norm_attention(x) + ", SECOND, "self.norm_feed_forward(y)"),
    ),
    Mistake(
        "M38",
        "one module is used twice instead of two modules",
        "Your model uses fewer parameters than it should. Does every place have its own module? [block] * depth "
        "repeats the same block.",
        variant("EncoderBlock", SECOND_NORM, "norm_feed_forward = self.norm_attention"),
        variant("EncoderBlock", SECOND, FIRST),
        variant("EncoderBlock", FIRST, SECOND),
        variant("Encoder", STACK, "nn.ModuleList([EncoderBlock(width, num_heads, hidden_width, dropout)] * depth)"),
        variant("Encoder", "range(depth)", "range(1)", LOOP, "for block in [self.blocks[0]] * 4:"),
        variant("Encoder", LOOP, "for block in [self.blocks[0]] * len(self.blocks):"),
        variant("repair", NORMS, "(nn.LayerNorm(width),) * 2"),
    ),
    Mistake(
        "M40",
        "the initial parameters are N(0, 1)",
        "Your activations grow by √D in every layer, because each of them is a sum of D products. Which standard deviation "
        "of the entries of a matrix prevents this growth? Look at every matrix.",
        variant(PARTS, DROPOUT, f"{EACH_MATRIX}nn.init.normal_(parameter)\n        {DROPOUT}"),
        variant("Encoder", LAST_NORM, f"{EACH_MATRIX}nn.init.normal_(parameter)\n        {LAST_NORM}"),
        variant("repair", DRAW, "pass"),
        variant(
            "repair",
            "for parameter in block.parameters():",
            "for name, parameter in block.named_parameters():",
            "parameter.ndim == 2",
            'parameter.ndim == 2 and name.startswith("attention")',
        ),
        # `_reset_parameters` does not reset the matrix after the heads.
        variant(
            "repair",
            DRAW,
            "pass",
            "return block",
            "block.attention._reset_parameters()\n"
            "    block.feed_forward[0].reset_parameters()\n"
            "    block.feed_forward[2].reset_parameters()\n"
            "    return block",
        ),
    ),
    Mistake(
        "M41",
        "another activation than GELU",
        "Your activation is not GELU. Do you use F.gelu or nn.GELU, and not ReLU?",
        *variants("FeedForward", "F.gelu", "F.relu", "F.silu", "F.leaky_relu", "F.elu", "torch.tanh", "torch.sigmoid"),
        variant(
            "FeedForward",
            "F.gelu(self.expand(x))",
            "self.expand(x)\n        hidden = hidden * torch.sigmoid(1.702 * hidden)",
        ),
    ),
    Mistake("M71", variant(BLOCKS, ", mask)", ")")),
    Mistake(
        "M83",
        *all_and_each(
            "FeedForward",
            (EXPAND, "nn.Linear(width, hidden_width, bias=False)"),
            (CONTRACT, "nn.Linear(hidden_width, width, bias=False)"),
        ),
    ),
    Mistake(
        "M90",
        "no norm after the last block",
        "Your result is the output of the last block. Where do you use the norm of the encoder?",
        variant("Encoder", "return self.norm(x)", "return x"),
        variant("Encoder", "LayerNorm(width)", "nn.Identity()"),
    ),
    Mistake(
        "M91",
        "the mean is not subtracted",
        "Before the shift, the mean of your rows is not 0. Do you subtract the mean from x, or only inside the "
        "variance?",
        variant("LayerNorm", "x - x.mean(dim=-1, keepdim=True)", "x"),
        variant(
            "LayerNorm",
            "x - x.mean(dim=-1, keepdim=True)",
            "x",
            VARIANCE,
            "x.var(dim=-1, keepdim=True, unbiased=False)",
        ),
    ),
    Mistake(
        "M92",
        "divided by the variance, or multiplied by its root",
        "Your rows do not have variance 1. Do you divide by the square root of the variance?",
        variant("LayerNorm", ROOT, "(variance + self.eps)"),
        variant("LayerNorm", "/ torch.sqrt(variance", "* torch.sqrt(variance"),
        variant("LayerNorm", " / torch.sqrt(variance + self.eps)", ""),
    ),
    Mistake(
        "M93",
        "a gradient is cut off",
        "The output is right, but a part of the gradient is missing. Do you use .detach(), .data or no_grad?",
        *all_and_each("LayerNorm", ("x.mean(", "x.detach().mean("), ("centred.square()", "centred.detach().square()")),
        variant("LayerNorm", "centred = ", "x = x.detach()\n        centred = "),
        variant("LayerNorm", "self.scale * centred", "self.scale.data * centred", "+ self.shift", "+ self.shift.data"),
        variant("FeedForward", "self.expand(x)", "self.expand(x.detach())"),
        variant("FeedForward", "F.gelu(self.expand(x))", "F.gelu(self.expand(x)).detach()"),
        variant("EncoderBlock", ATTENTION, f"{ATTENTION}.detach()"),
        variant("EncoderBlock", NET, f"{NET}.detach()"),
        *all_and_each("EncoderBlock", ("x = x + ", "x = x.detach() + "), ("return x + ", "return x.detach() + ")),
        variant("EncoderBlock", "x = x + ", "x = x.detach()\n        x = x + "),
        variant("Encoder", "block(x, mask)", "block(x, mask).detach()"),
        variant("Encoder", LOOP, f"x = x.detach()\n        {LOOP}"),
        variant("Encoder", "block(x, mask)", "block(x.detach(), mask)"),
    ),
    Mistake(
        "M94",
        "PyTorch does not see the blocks",
        "PyTorch finds no parameters in your blocks, so an optimizer would not train them. Are they in an "
        "nn.ModuleList?",
        variant("Encoder", "nn.ModuleList(", "list("),
    ),
    Mistake(
        "M95",
        "dropout acts on the stream itself",
        "If both sub-layers add 0, the stream must not change, in training too. Does your dropout act on the output "
        "of a sub-layer, before it is added?",
        variant("EncoderBlock", f"x + {NET}", f"self.dropout(x + {NET})"),
        variant(
            "EncoderBlock",
            f"x = x + {ATTENTION}",
            f"x = self.dropout(x + {ATTENTION})",
            f"return x + {NET}",
            f"return self.dropout(x + {NET})",
        ),
        variant("Encoder", BEGIN, WITH_DROPOUT, LOOP, f"x = self.dropout(x)\n        {LOOP}"),
    ),
    Mistake(
        "M96",
        "no activation between the two layers",
        "Two linear layers without a GELU between them are one linear layer. Where is the activation?",
        variant("FeedForward", "F.gelu(self.expand(x))", "self.expand(x)"),
    ),
    Mistake(
        "M97",
        "the sub-layers are in another order",
        "Attention comes first; then the feed-forward network reads the stream after the first sum. Which x does "
        "each of your sub-layers read?",
        variant(
            "EncoderBlock", f"x = x + {ATTENTION}", f"x = x + {NET}", f"return x + {NET}", f"return x + {ATTENTION}"
        ),
        variant("EncoderBlock", "x = x + ", "y = x + ", "return x + ", "return y + "),
    ),
    Mistake(
        "M98",
        "dropout is not passed on",
        "Dropout should act somewhere in training, but does not. Do you pass the argument dropout on to every part, "
        "and does each part use it?",
        variant("FeedForward", "self.dropout(hidden)", "hidden"),
        variant(
            "EncoderBlock",
            "num_heads, dropout)",
            "num_heads)",
            "hidden_width, dropout)",
            "hidden_width)",
            "nn.Dropout(dropout)",
            "nn.Dropout(0.0)",
        ),
        variant("EncoderBlock", "hidden_width, dropout)", "hidden_width)", "nn.Dropout(dropout)", "nn.Dropout(0.0)"),
        variant("EncoderBlock", "num_heads, dropout)", "num_heads)", "nn.Dropout(dropout)", "nn.Dropout(0.0)"),
        variant("Encoder", ", dropout)", ")"),
        *variants("Encoder", "dropout) for _ in", "dropout * (i == 0)) for i in", "dropout * (i > 0)) for i in"),
        variant("Encoder", "dropout) for _ in", "dropout * (i == depth - 1)) for i in"),
    ),
    Mistake(
        "M99",
        "dropout keeps the share that it should drop",
        "Most numbers are set to 0. F.dropout and nn.Dropout take the share that is dropped. What do you pass?",
        variant(PARTS, "nn.Dropout(dropout)", f"nn.Dropout({KEPT})"),
        variant("Encoder", "hidden_width, dropout)", f"hidden_width, {KEPT})"),
    ),
    Mistake(
        "M101",
        "all blocks start from the same parameters",
        "Your blocks are copies of one block and start with equal parameters. Do you make each block separately, so "
        "that its parameters are drawn again?",
        variant(
            "Encoder",
            f"self.blocks = {STACK}",
            "import copy\n\n"
            "        block = EncoderBlock(width, num_heads, hidden_width, dropout)\n"
            "        self.blocks = nn.ModuleList(copy.deepcopy(block) for _ in range(depth))",
        ),
    ),
    Mistake(
        "M102",
        "another number of blocks than asked for",
        "The number of blocks that you make or run differs from depth. Do you count one too many or too few?",
        *variants("Encoder", "range(depth)", "range(depth - 1)", "range(depth + 1)"),
        *variants("Encoder", LOOP, "for block in self.blocks[:-1]:", "for block in self.blocks[1:]:"),
        *variants("Encoder", "range(depth)", "range(2)", "range(6)"),
        *variants("Encoder", LOOP, "for block in self.blocks[:1]:", "for block in self.blocks[-1:]:"),
    ),
    Mistake(
        "M103",
        "the last norm runs after every block",
        "Your norm is used more than once. Is it inside the loop over the blocks?",
        variant("Encoder", "block(x, mask)", "self.norm(block(x, mask))", "return self.norm(x)", "return x"),
        variant("Encoder", "block(x, mask)", "self.norm(block(x, mask))"),
    ),
    Mistake(
        "M104",
        "shifted before it is scaled",
        "The scale must not multiply the shift. Do you compute scale * y + shift?",
        variant(
            "LayerNorm",
            "centred / torch.sqrt(variance + self.eps) + self.shift",
            "(centred / torch.sqrt(variance + self.eps) + self.shift)",
        ),
    ),
    Mistake(
        "M105",
        "eps is not the one that was given",
        "Your eps is not the argument. Do you store the argument, and add it unchanged to the variance under the root?",
        *variants("LayerNorm", "variance + self.eps", "variance", "variance + 1e-5", "variance.clamp(min=self.eps)"),
        variant("LayerNorm", "variance + self.eps", "variance + self.eps**2"),
    ),
    Mistake(
        "M106",
        "rounding destroys the variance",
        "Components near 1000 lose their variance to rounding. Do you compute the mean of (x - mean)², or mean(x²) - "
        "mean(x)²?",
        variant(
            "LayerNorm",
            VARIANCE,
            "(x.square().mean(dim=-1, keepdim=True) - x.mean(dim=-1, keepdim=True).square()).clamp(min=0)",
        ),
    ),
    Mistake(
        "M107",
        "a sum of squares is too large for float16",
        "float16 has no number above 65504, and a sum of squares soon exceeds it. Do you take the mean of the squares?",
        variant("LayerNorm", VARIANCE, "centred.square().sum(dim=-1, keepdim=True) / x.shape[-1]"),
    ),
    Mistake(
        "M108",
        "the hidden width is not the one that was given",
        "Your hidden layer has a wrong width. Do both of its linear layers use hidden_width?",
        variant("FeedForward", EXPAND, "nn.Linear(width, 4 * width)", CONTRACT, "nn.Linear(4 * width, width)"),
        variant("FeedForward", EXPAND, "nn.Linear(width, width)", CONTRACT, "nn.Linear(width, width)"),
        variant(BLOCKS, "hidden_width, dropout)", "4 * width, dropout)"),
        variant("EncoderBlock", "hidden_width, dropout)", "width, dropout)"),
    ),
    Mistake(
        "M109",
        "one block gets the mask, the others do not",
        "Only some blocks get the mask. Do you pass it to each of them?",
        variant("Encoder", LOOP, "for i, block in enumerate(self.blocks):", ", mask)", ", mask if i == 0 else None)"),
        variant("Encoder", LOOP, "for i, block in enumerate(self.blocks):", ", mask)", ", mask if i > 0 else None)"),
        variant(
            "Encoder",
            LOOP,
            "for i, block in enumerate(self.blocks):",
            ", mask)",
            ", mask if i == len(self.blocks) - 1 else None)",
        ),
    ),
    Mistake(
        "M110",
        "the norm does not start from scale 1 and shift 0",
        "A new norm only normalises. Does your scale start as ones, and your shift as zeros?",
        variant("LayerNorm", "torch.ones", "torch.zeros"),
        variant("LayerNorm", "torch.zeros", "torch.ones"),
        # All vectors are set to 0: the biases, and also the scales of the norms.
        variant(
            "repair",
            "if parameter.ndim == 2:",
            "if parameter.ndim == 1:\n            nn.init.zeros_(parameter)\n        if parameter.ndim == 2:",
        ),
    ),
    Mistake(
        "M111",
        "the mean of another row is subtracted",
        "You subtract from each number the mean of another row. Does your mean keep its axis (keepdim=True)?",
        *all_and_each(
            "LayerNorm",
            ("x.mean(dim=-1, keepdim=True)", "x.mean(dim=-1)"),
            (VARIANCE, "x.var(dim=-1, unbiased=False)"),
        ),
    ),
    Mistake(
        "M112",
        "the activation is at another place",
        "The GELU acts once, on the output of the layer `expand`. Where does your GELU act?",
        variant(
            "FeedForward",
            "F.gelu(self.expand(x))",
            "self.expand(x)",
            "self.contract(self.dropout(hidden))",
            "F.gelu(self.contract(self.dropout(hidden)))",
        ),
        variant("FeedForward", "self.contract(self.dropout(hidden))", "F.gelu(self.contract(self.dropout(hidden)))"),
        variant("FeedForward", "self.expand(x)", "self.expand(F.gelu(x))"),
        variant("FeedForward", "F.gelu(self.expand(x))", "self.expand(F.gelu(x))"),
    ),
    Mistake(
        "M113",
        "the residual is added inside the feed-forward network",
        "The feed-forward network returns only the numbers to add; the block adds them. Do you add x inside the "
        "network too?",
        variant("FeedForward", "return ", "return x + "),
    ),
    Mistake(
        "M114",
        "the block computes something else",
        "Your output differs from that of a pre-norm encoder block with the same parameters. Are both norms LayerNorms "
        "before their sub-layers? Do you change the output afterwards?",
        variant("EncoderBlock", *norms("nn.RMSNorm(width)")),
        variant("repair", NORMS, "nn.RMSNorm(width), nn.RMSNorm(width)"),
    ),
    Mistake(
        "M115",
        "one norm too many",
        "The stream itself is normalised at the end of your block. Is there a norm after the last sum?",
        variant("EncoderBlock", f"x + {NET}", f"self.norm_feed_forward(x + {NET})"),
        variant("EncoderBlock", f"x + {NET}", f"F.layer_norm(x + {NET}, x.shape[-1:])"),
    ),
    Mistake(
        "M116",
        "the sum is rescaled",
        "The stream is a plain sum. Do you divide it after adding?",
        variant("EncoderBlock", f"x + {NET}", f"(x + {NET}) / 2**0.5"),
        variant("EncoderBlock", f"x + {ATTENTION}", f"(x + {ATTENTION}) / 2"),
        variant(
            "EncoderBlock", f"x + {ATTENTION}", f"(x + {ATTENTION}) / 2**0.5", f"x + {NET}", f"(x + {NET}) / 2**0.5"
        ),
        variant("EncoderBlock", f"x + {ATTENTION}", f"(x + {ATTENTION}) / 2", f"x + {NET}", f"(x + {NET}) / 2"),
    ),
    Mistake(
        "M117",
        "the norm runs before the blocks",
        "The norm belongs after the last block. Does yours run before the first?",
        variant("Encoder", LOOP, f"x = self.norm(x)\n        {LOOP}", "return self.norm(x)", "return x"),
        variant("Encoder", LOOP, f"x = self.norm(x)\n        {LOOP}"),
    ),
    Mistake(
        "M118",
        "a residual around the stack or around a block",
        "The residual connections are inside the blocks. Do you add the input of the encoder or of a block once more?",
        variant("Encoder", LOOP, f"y = x\n        {LOOP}", "return self.norm(x)", "return self.norm(y + x)"),
        variant("Encoder", "block(x, mask)", "x + block(x, mask)"),
    ),
    Mistake(
        "M119",
        "the blocks run in another order",
        "The first block of the list should run first. In which order do your blocks run?",
        variant("Encoder", LOOP, "for block in reversed(self.blocks):"),
    ),
    Mistake(
        "M120",
        "some parameters are frozen",
        "A parameter with requires_grad=False never changes. Which of your parameters have it?",
        variant(
            "LayerNorm",
            SCALE,
            "nn.Parameter(torch.ones(width), requires_grad=False)",
            SHIFT,
            "nn.Parameter(torch.zeros(width), requires_grad=False)",
        ),
        variant(PARTS, DROPOUT, f"self.requires_grad_(False)\n        {DROPOUT}"),
        variant("EncoderBlock", *norms("LayerNorm(width).requires_grad_(False)")),
        variant("Encoder", "LayerNorm(width)", "LayerNorm(width).requires_grad_(False)"),
        variant("Encoder", "LayerNorm(width)", "LayerNorm(width)\n        self.requires_grad_(False)"),
        variant("repair", "parameter.requires_grad_(True)", "pass"),
    ),
    Mistake(
        "M121",
        "another block is returned than was given",
        "You returned a new block. Do you change the given block, and return it?",
        variant(
            "repair",
            "width = block.attention.embed_dim",
            "width = block.attention.embed_dim\n"
            "    block = type(block)(width, block.attention.num_heads, block.feed_forward[0].out_features)",
        ),
    ),
    Mistake(
        "M122",
        "the parameters are not random, or the same in every block",
        "Two of your blocks have equal parameters, or all entries of a matrix are equal. Do you draw new random "
        "numbers for every block?",
        # Every block gets the same numbers.
        variant("repair", DRAW, "nn.init.xavier_uniform_(parameter, generator=torch.Generator().manual_seed(0))"),
        *variants("repair", DRAW, "nn.init.constant_(parameter, 1 / parameter.shape[1])", "nn.init.zeros_(parameter)"),
    ),
    Mistake(
        "M135",
        "another number of heads than asked for",
        "Your heads have a wrong width. Do you pass num_heads on, as the right argument?",
        # The number of heads is 1, the width, or the head width.
        *variants(BLOCKS, "(width, num_heads,", "(width, 1,", "(width, width,", "(width, width // num_heads,"),
    ),
    Mistake(
        "M160",
        "the parameters start at 0, all equal, or tiny",
        "The matrices of one sub-layer give almost 0, or the same number for every component. Which gradient would "
        "each entry get? Are the entries random, with a standard deviation that fits the number of inputs?",
        variant(PARTS, DROPOUT, f"{EACH_MATRIX}nn.init.zeros_(parameter)\n        {DROPOUT}"),
        variant("Encoder", LAST_NORM, f"{EACH_MATRIX}nn.init.zeros_(parameter)\n        {LAST_NORM}"),
        variant("Encoder", LAST_NORM, f"{EACH_MATRIX}nn.init.normal_(parameter, std=1e-4)\n        {LAST_NORM}"),
        variant("repair", DRAW, "nn.init.normal_(parameter, std=1e-4)"),
    ),
    Mistake(
        "M161",
        "the norms of the two sub-layers are swapped",
        "Each sub-layer reads the norm that has its name. Which norm does each of your sub-layers read?",
        variant("EncoderBlock", FIRST, SECOND, SECOND, FIRST),
    ),
    Mistake(
        "M166",
        "dropout acts on the input",
        "You drop components of the tokens, not hidden activations. Where in forward is your dropout?",
        variant("FeedForward", "self.dropout(hidden)", "hidden", "self.expand(x)", "self.expand(self.dropout(x))"),
        variant("FeedForward", "self.expand(x)", "self.expand(self.dropout(x))"),
    ),
    Mistake(
        "M200",
        "the pairs have the wrong components, or the wrong places in the result",
        "The lengths of the tokens are right, but their components are not. Which two components form a point? Where in "
        "the result do the coordinates of each rotated point go?",
        # Components of the two halves are paired, as in the code of many language models.
        variant(
            "rope",
            PAIRS,
            "x.chunk(2, dim=-1)",
            "torch.stack([first",
            "torch.cat([first",
            "turned.flatten(-2)",
            "turned",
        ),
        variant("rope", PAIRS, "x.chunk(2, dim=-1)"),
        variant("rope", "torch.stack([first", "torch.cat([first", "turned.flatten(-2)", "turned"),
    ),
    Mistake(
        "M201",
        "rotated in the opposite direction",
        "The angles have the wrong sign. Does a positive angle turn a point from the first axis to the second, or back?",
        variant("rope", "angles = positions", "angles = -positions"),
    ),
    Mistake(
        "M202",
        "the index of a token is used as its position",
        "Tokens may be in any order, and need not start at position 0. Where do you use the argument positions?",
        variant("rope", "positions[..., None]", "torch.arange(x.shape[-2])[..., None]"),
        variant("rope", "positions[..., None]", "torch.arange(1, x.shape[-2] + 1)[..., None]"),
    ),
    Mistake(
        "M203",
        "the frequencies fall too fast or too slowly",
        "The first pair is right, and the other pairs rotate by wrong angles. What is the exponent of pair i?",
        variant("rope", "torch.arange(0, width, 2) / width", "torch.arange(width // 2) / width"),
        variant("rope", "torch.arange(0, width, 2) / width", "torch.arange(0, width, 2) / (width // 2)"),
    ),
    Mistake(
        "M204",
        "the frequencies grow from pair to pair",
        "The first pair is right, and the other pairs rotate too far. Which pair should rotate fastest?",
        variant("rope", "base ** (-torch", "base ** (torch"),
    ),
    Mistake(
        "M205",
        "sine and cosine are swapped",
        "A token at position 0 should not change. What does it become in your function?",
        variant("rope", "angles.cos(), angles.sin()", "angles.sin(), angles.cos()"),
    ),
    Mistake(
        "M206",
        "the second coordinate is computed from the rotated first coordinate",
        "The first coordinate of each point is right, but the second is not. Do you compute the second from the old "
        "first coordinate, or from the new one?",
        variant("rope", "first * sin", "(first * cos - second * sin) * sin"),
    ),
)
