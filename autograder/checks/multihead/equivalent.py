"""Mutations in the answers to 2_multihead that no check can or should notice, and why; no points depend on them."""

# A mutation is said as "softmax, line 3: a - b -> a + b"; lines are counted from the `def`.
EQUIVALENT = {
    r"super\(\).__init__\(\); |\.copy_\(.*; |masked_fill\(.*; ": "done twice is done once",
    r"attend, line \d+: (mask|empty) = .*detach": "a mask has no gradient",
    r"attend, line \d+: empty = .*half": "0 and 1 say the same as no and yes",
    r"Dropout\(dropout\)\.half": "dropout has no parameters",
    r"MultiHeadAttention, line \d+: if width % num_heads": "a divisor is asked for, and no error",
}
