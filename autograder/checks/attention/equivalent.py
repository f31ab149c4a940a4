"""Mutations in the answers to 1_attention that no check can or should notice, and why; no points depend on them."""

# A mutation is said as "softmax, line 3: a - b -> a + b"; lines are counted from the `def`.
EQUIVALENT = {
    r"np\.where\(mask.*; ": "done twice is done once",
    r"-> np\.maximum\(scores\.max": "the larger of two is the same in either order",
    r"online_softmax, line \d+: 0 -> -?1": "any finite number will do",
}
