"""Mutations in the answers to 3_encoder that no check can or should notice, and why; no points depend on them."""

# A mutation is said as "softmax, line 3: a - b -> a + b"; lines are counted from the `def`.
EQUIVALENT = {
    r"super\(\).__init__\(\); |\.(copy_|requires_grad_|xavier_uniform_)\(.*; ": "done twice is done once",
    r"Dropout\(dropout\)\.half": "dropout has no parameters",
    r"EncoderBlock, line \d+: self\.dropout\(self": "dropout in the part is enough",
}
