"""Mutations in the answers to 5_debugging that no check can or should notice, and why; no points depend on them."""

# A mutation is said as "softmax, line 3: a - b -> a + b"; lines are counted from the `def`.
EQUIVALENT = {
    r"super\(\).__init__\(\); |(zero_grad|clip_grad_norm_|nn\.init\..*|register_buffer)\(.*; ": "done twice is done once",
    r"(train_shuffled|train_clipped|mean_loss|loss_and_accuracy), .*\.item\(\)": "a tensor of one number will do",
    r"(loss_and_accuracy|train_shuffled), .*\.detach\(\)$": "no gradient was asked for, or there is none",
    r"(loss_and_accuracy|pooled), line \d+: (-1 -> 1|1 -> 0)$": "scores have two axes, and a query has one",
    r"Standardise, .*\.detach\(\) -> ": "the numbers are the same; what it costs is memory",
    r"learning_rate, line \d+: min\(1\.0, done\)": "the smaller one of two, in either order",
    r"SkippedBranch, .*kept = .*\.(detach|half)": "what is drawn is 0 or 1, and has no gradient",
    r"cut_patches, .* -> images\.reshape\(height": "the first two axes are joined again",
}
