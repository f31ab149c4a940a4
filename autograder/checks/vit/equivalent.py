"""Mutations in the answers to 4_vit that no check can or should notice, and why; no points depend on them."""

# A mutation is said as "softmax, line 3: a - b -> a + b"; lines are counted from the `def`.
EQUIVALENT = {
    r"super\(\).__init__\(\); |zero_grad\(\); ": "done twice is done once",
    r"(evaluate|attention_rollout), .*detach": "no gradient was asked for",
    r"(patchify|PatchEmbedding), line \d+: -2 -> 2$": "images have four axes",
    r"(train_epoch|evaluate), line \d+: -1 -> 1$": "scores have two axes",
    r"attention_rollout, line \d+: 1 -> 2$": "the last two axes are of one size",
    r"attention_rollout, line \d+: torch.eye.*to": "all checks run on one device, in one precision",
    r"(train_epoch|evaluate), line \d+: float\(": "a tensor of one number will do",
    r"train_epoch, line \d+: loss\.detach\(\) -> loss": "the number is the same; what it costs is memory",
    r"Dropout\(dropout\)\.half": "dropout has no parameters",
    r"ViT, line \d+: (0\.02|torch\.zeros)": "where class token and positions start is left open",
}
