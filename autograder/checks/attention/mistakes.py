"""The known mistakes of assignment 1_attention. Each replaces some words (pieces of code) of the answer by others."""

from autograder.judge.mistake import Mistake, variant, variants

ABOUT = "Softmax and attention"  # the heading of these mistakes in the book
FORWARD = ("attention", "self_attention")
INSIDE = (*FORWARD, "attention_backward")
ALL = ("softmax", *INSIDE)
OTHER_WIDTHS = (
    "values.shape[-1]",
    "queries.shape[-2]",
    "keys.shape[-2]",
    "queries.shape[0]",
    "queries.shape[1]",
    "queries.size",
    "np.prod(queries.shape[:-2]) * queries.shape[-1]",
)
OTHER_POWERS = (
    "/ queries.shape[-1] ** 1 / 2",
    "/ (queries.shape[-1] ** 1 / 2)",
    "/ queries.shape[-1]",
    "* np.sqrt(queries.shape[-1])",
    "* queries.shape[-1]",
    "* queries.shape[-1] ** -0.25",
    "* queries.shape[-1] ** -2.0",
)

# The scale of the scores has "-2)" before it; in attention_backward, the scale of their gradient has not.
SCALE = " / np.sqrt(queries.shape[-1])"
OF_SCORES = f"-2){SCALE}"
BACKWARD = "attention_backward"
HIDE = "np.where(mask, scores, -np.inf)"
LARGEST = "max(axis=axis, keepdims=True)"
SHIFT = f"scores - scores.{LARGEST}"
TOTAL = "sum(axis=axis, keepdims=True)"
SUM = f"exponentials.{TOTAL}"
DIVIDED = f"exponentials / {SUM}"

# Words and their replacement
UNSHIFTED = f" - scores.{LARGEST}", ""
UNSCALED = OF_SCORES, "-2)"
UNCHECKED = "not mask.any(axis=-1).all()", "False"

MISTAKES = (
    Mistake(
        "M1",
        "all weights are equal",
        "Your result is that of equal weights, whatever the scores are. Which of your lines makes the scores equal? "
        "(np.clip(x, 100, -100) turns every number into -100.)",
        variant(ALL, SHIFT, "np.clip(scores, 100, -100)"),
    ),
    Mistake(
        "M2",
        "large scores are limited",
        "Different large scores get the same weight. Which of your lines changes large scores? Subtracting the maximum "
        "of each row does not change the weights.",
        *variants(ALL, SHIFT, "np.clip(scores, -100, 100)", "np.clip(scores, -10, 10)"),
        variant(ALL, SHIFT, "np.minimum(scores, 700)"),
        variant(FORWARD, "if mask is not None:", "scores = np.clip(scores, -100, 100)\n    if mask is not None:"),
    ),
    Mistake(
        "M4",
        "a row is divided by the sum of another row",
        "Each weight is divided by the sum of another row. Which shape has the array by which you divide?",
        variant(ALL, TOTAL, "sum(axis=min(1, exponentials.ndim - 1))"),
        # The maximum of each row is not subtracted, as in an answer exp(scores) / exp(scores).sum(...).
        variant(ALL, LARGEST, "max()", TOTAL, "sum(axis=min(1, exponentials.ndim - 1))"),
        variant(ALL, LARGEST, "max(axis=axis)", TOTAL, "sum(axis=axis)"),
    ),
    Mistake(
        "M5",
        "the whole array sums to 1, not each row",
        "The whole array sums to 1, but each row should. Does your sum run only along the given axis?",
        variant(ALL, TOTAL, "sum()"),
        variant(ALL, LARGEST, "max()", TOTAL, "sum()"),
        variant(ALL, *UNSHIFTED, TOTAL, "sum()"),
    ),
    Mistake(
        "M3",
        "large scores overflow",
        "exp overflows from 710 on (from 89 on in float32), and inf / inf is NaN. Do you subtract the maximum before "
        "every exp?",
        variant(ALL, *UNSHIFTED),
        variant(ALL, *UNSHIFTED, "np.exp(shifted)", "np.nan_to_num(np.exp(shifted))"),
        variant(ALL, SHIFT, f"scores - np.log(np.exp(scores).{TOTAL})", DIVIDED, "exponentials"),
        # The NaN is replaced, but its cause remains.
        variant(ALL, *UNSHIFTED, DIVIDED, f"np.nan_to_num({DIVIDED})"),
        variant(ALL, *UNSHIFTED, SUM, f"({SUM} + 1e-9)"),
        # The maximum is missing only in the denominator, or only in the numerator.
        variant("softmax", "exponentials / exponentials.sum(", "exponentials / np.exp(scores).sum("),
        variant("softmax", "exponentials / exponentials.sum(", "np.exp(scores) / exponentials.sum("),
        variant("softmax", LARGEST, "max()", "exponentials / exponentials.sum(", "exponentials / np.exp(scores).sum("),
    ),
    Mistake(
        "M6",
        "the softmax runs over the wrong axis",
        "Does your softmax run over the axis that was asked for? In attention this is the last axis, the keys. Then the "
        "weights of each query sum to 1.",
        *variants(ALL, "sum(axis=axis", "sum(axis=-2 if exponentials.ndim > 1 else 0", "sum(axis=0"),
        variant(ALL, "sum(axis=axis", "sum(axis=min(1, exponentials.ndim - 1)"),
        variant("softmax", "sum(axis=axis", "sum(axis=-1"),
        variant("online_softmax", "scores.max(axis=-1)", "scores.max(axis=-2)", "sum(axis=-1)", "sum(axis=-2)"),
        variant("softmax", "shifted =", "axis = -1\n    shifted ="),
        *variants("softmax", "shifted =", "axis = 0\n    shifted =", "axis = min(1, scores.ndim - 1)\n    shifted ="),
        *variants(INSIDE, "softmax(scores)", "softmax(scores, axis=-2)", "softmax(scores, axis=0)"),
        variant(INSIDE, "softmax(scores)", "softmax(scores, axis=1)"),
        # If the mask hides a whole column, -inf gives NaN, and -1e9 does not.
        variant(FORWARD, "softmax(scores)", "softmax(scores, axis=-2)", "-np.inf", "-1e9"),
        variant(FORWARD, "softmax(scores)", "softmax(scores, axis=1)", "-np.inf", "-1e9"),
    ),
    Mistake(
        "M8",
        "the scores are too large by √d",
        "Your scores are too large by the factor √d. By which number do you divide them?",
        variant(INSIDE, *UNSCALED),
        variant(BACKWARD, *UNSCALED, SCALE, ""),
    ),
    Mistake(
        "M7",
        "scaled after the softmax",
        "Your result is too small by the factor √d. Do you divide the scores before the softmax, or something after it?",
        variant(INSIDE, *UNSCALED, "softmax(scores)", f"softmax(scores){SCALE}"),
        variant(INSIDE, "softmax(scores)", f"softmax(scores){SCALE}"),
        variant(FORWARD, *UNSCALED, "weights @ values", f"weights @ values{SCALE}"),
    ),
    Mistake(
        "M9",
        "scaled by another width than that of the queries",
        "Your scale uses a wrong width. Is your d the width of one query, queries.shape[-1]?",
        *(variant(INSIDE, OF_SCORES, f"-2) / np.sqrt({width})") for width in OTHER_WIDTHS),
        *(
            variant(BACKWARD, OF_SCORES, f"-2) / np.sqrt({width})", SCALE, f" / np.sqrt({width})")
            for width in OTHER_WIDTHS
        ),
        *(variant(BACKWARD, SCALE, f" / np.sqrt({width})") for width in OTHER_WIDTHS),
        variant(
            "self_attention", "tokens @ w_query", "tokens @ w_query * np.sqrt(w_query.shape[1] / tokens.shape[-1])"
        ),
    ),
    Mistake(
        "M10",
        "scaled by another power of the width than 1/√d",
        "Your scale uses a wrong power of d. Do you divide by √d exactly once?",
        *(variant(INSIDE, OF_SCORES, f"-2) {power}") for power in OTHER_POWERS),
        *(variant(BACKWARD, OF_SCORES, f"-2) {power}", SCALE, f" {power}") for power in OTHER_POWERS),
    ),
    Mistake(
        "M11",
        "queries and keys are swapped",
        "In your weights, the keys look at the queries. Does each row of your scores belong to one query, as in "
        "queries @ keysᵀ?",
        variant(INSIDE, "queries @ np.swapaxes(keys", "keys @ np.swapaxes(queries"),
        variant(FORWARD, "softmax(scores)", "np.swapaxes(softmax(scores), -1, -2)"),
    ),
    Mistake(
        "M12",
        "“Q = K = V” taken literally",
        "Your tokens look mostly at themselves. Are queries, keys and values three different projections of the tokens, with"
        " w_query, w_key and w_value?",
        variant("self_attention", "tokens @ w_query, tokens @ w_key, tokens @ w_value", "tokens, tokens, tokens"),
        variant("self_attention", "tokens @ w_query, tokens @ w_key", "tokens, tokens"),
        *(
            variant(
                "self_attention",
                "tokens @ w_query, tokens @ w_key, tokens @ w_value",
                f"tokens @ {w}, tokens @ {w}, tokens @ {w}",
            )
            for w in ("w_query", "w_key", "w_value")
        ),
        variant("self_attention", "tokens @ w_key", "tokens @ w_query"),
        variant("self_attention", "tokens @ w_query", "tokens @ w_key"),
    ),
    Mistake(
        "M13",
        "keys used as values, or values not projected",
        "The weights are right, but they mix the wrong vectors. Which vectors should they mix?",
        *variants(FORWARD, "weights @ values", "weights @ keys", "weights @ queries"),
        variant("self_attention", "tokens @ w_value", "tokens"),
    ),
    Mistake(
        "M14",
        "the maximum of the whole array is subtracted",
        "A row far below the largest score of the array underflows to 0 / 0. Which number do you "
        "subtract from each row?",
        variant(ALL, LARGEST, "max()"),
        variant("online_softmax", "scores.max(axis=-1)", "scores.max()"),
        # The NaN is replaced, but its cause remains.
        variant(ALL, LARGEST, "max()", DIVIDED, f"np.nan_to_num({DIVIDED})"),
        variant(ALL, LARGEST, "max()", SUM, f"({SUM} + 1e-9)"),
    ),
    Mistake(
        "M15",
        "an argument is changed in place",
        "The caller's array was changed. Which of your lines changes an argument, and not a copy of it?",
        variant("softmax", "exponentials =", "scores -= scores.max(axis=axis, keepdims=True)\n    exponentials ="),
        variant(
            ("attention", BACKWARD),
            "if mask is not None:",
            "queries /= np.sqrt(queries.shape[-1])\n    if mask is not None:",
        ),
        # self_attention makes its own queries and keys, but its tokens are the caller's.
        variant(
            "self_attention",
            "return attention(",
            "result = attention(",
            ", mask)",
            ", mask)\n    tokens /= np.sqrt(tokens.shape[-1])\n    return result",
        ),
        # The gradients are right, but the caller's queries change.
        variant(
            BACKWARD,
            "if mask is not None:",
            "queries /= np.sqrt(queries.shape[-1])\n    if mask is not None:",
            "-2) @ queries",
            "-2) @ queries * np.sqrt(queries.shape[-1])",
        ),
        variant(
            "online_softmax",
            "total = rescale * total + exponentials.sum(axis=-1)",
            "total *= rescale\n    total += exponentials.sum(axis=-1)",
        ),
    ),
    Mistake(
        "M16",
        "the mask is inverted",
        "Your queries look at the keys that the mask forbids. True means that a query may look. Is your condition "
        "inverted?",
        variant(FORWARD, "mask, scores, -np.inf", "mask, -np.inf, scores"),
    ),
    Mistake(
        "M17",
        "masked after the softmax and not renormalised",
        "With a mask, your rows sum to less than 1. Do you mask the scores before the softmax?",
        variant(FORWARD, HIDE, "scores", "softmax(scores)", "softmax(scores) * (1 if mask is None else mask)"),
    ),
    Mistake(
        "M18",
        "hidden keys still get weight",
        "Hidden keys still get weight. Which score does a hidden key have in your function? Multiplying by 0 leaves "
        "exp(0) = 1, and a large finite number may still be the largest score of its row.",
        variant(FORWARD, HIDE, "scores + mask"),
        variant(FORWARD, HIDE, "scores + ~mask", *UNCHECKED),
        variant(FORWARD, HIDE, "scores * mask"),
        *variants(FORWARD, "-np.inf", "-10.0", "-100.0", "-10_000.0"),
    ),
    Mistake(
        "M19",
        "the mask is aligned with the wrong axis",
        "Your mask hides the wrong scores: its axes are exchanged, or it belongs to another image or head. Does each "
        "of its axes meet the same axis of the scores?",
        variant(FORWARD, HIDE, "np.where(mask[:, None], scores, -np.inf)"),
        variant(FORWARD, HIDE, "np.where(mask[:, None] if mask.ndim > 2 else mask, scores, -np.inf)"),
        variant(
            FORWARD,
            HIDE,
            "np.where(np.swapaxes(mask, -1, -2) if mask.shape[-1] == mask.shape[-2] else mask, scores, -np.inf)",
        ),
    ),
    Mistake(
        "M20",
        "no error although the mask hides all keys from a query",
        "The mask hides all keys from a query, so its weights cannot sum to 1. Do you raise a ValueError before the softmax?",
        variant(FORWARD, *UNCHECKED),
    ),
    Mistake(
        "M65",
        "the scale is missing in the backward pass",
        "Your gradient of the queries or of the keys is too large by the factor √d. The forward pass divides the scores by √d. "
        "Where does your backward pass divide by √d?",
        variant(BACKWARD, " / np.sqrt(queries.shape[-1])", ""),
        # The scale is missing in only one of the two gradients.
        variant(BACKWARD, "grad_scores @ keys", "grad_scores @ keys * np.sqrt(queries.shape[-1])"),
        variant(BACKWARD, "-2) @ queries", "-2) @ queries * np.sqrt(queries.shape[-1])"),
    ),
    Mistake(
        "M66",
        "the softmax Jacobian is taken as diagonal",
        "Each weight depends on all the scores of its row. Where is the term -p pᵀ of the Jacobian diag(p) - p pᵀ?",
        *variants(BACKWARD, "(grad_weights - row_means)", "grad_weights", "(1 - weights) * grad_weights"),
        variant(BACKWARD, "weights * (grad_weights - row_means)", "grad_weights"),
    ),
    Mistake(
        "M67",
        "the softmax Jacobian sums over the queries",
        "Your sum in the softmax Jacobian runs over the queries. Over which axis does the softmax run? Does your sum "
        "keep that axis (keepdims=True)?",
        *variants(BACKWARD, "sum(axis=-1, keepdims=True)", "sum(axis=-2, keepdims=True)", "sum(axis=1, keepdims=True)"),
        variant(BACKWARD, "sum(axis=-1, keepdims=True)", "sum()"),
        variant(BACKWARD, "sum(axis=-1, keepdims=True)", "sum(axis=-1)[..., None, :]"),
    ),
    Mistake(
        "M68",
        "gradients of queries and keys are mixed up",
        "The gradient of the queries needs the gradient of the scores, and the gradient of the keys needs its "
        "transpose. Did you swap the two, or forget the transpose?",
        variant(BACKWARD, "return grad_queries, grad_keys", "return grad_keys, grad_queries"),
        variant(BACKWARD, "np.swapaxes(grad_scores, -1, -2) @ queries", "grad_scores @ queries"),
        variant(BACKWARD, "grad_scores @ keys", "np.swapaxes(grad_scores, -1, -2) @ keys"),
        variant(
            BACKWARD,
            "grad_scores @ keys",
            "np.swapaxes(grad_scores, -1, -2) @ keys",
            "np.swapaxes(grad_scores, -1, -2) @ queries",
            "grad_scores @ queries",
        ),
        variant(BACKWARD, "grad_scores @ keys", "grad_scores @ queries", "-2) @ queries", "-2) @ keys"),
    ),
    Mistake(
        "M69",
        "the weights are not transposed in the gradient of the values",
        "A value collects gradients from all the queries that looked at it. Do you transpose the weights?",
        variant(BACKWARD, "np.swapaxes(weights, -1, -2) @ grad_output", "weights @ grad_output"),
    ),
    Mistake(
        "M70",
        "the gradient of the scores is scaled by another power of the width",
        "Your gradients of queries and keys use a wrong power of d. Do you scale by 1/√d exactly once?",
        *variants(BACKWARD, "/ np.sqrt(queries.shape[-1])", "/ queries.shape[-1]", "/ queries.shape[-1] ** 1 / 2"),
        *variants(
            BACKWARD, "/ np.sqrt(queries.shape[-1])", "* np.sqrt(queries.shape[-1])", "* queries.shape[-1] ** -0.25"
        ),
    ),
    Mistake(
        "M71",
        "the mask is not used",
        "Your result is the same with and without a mask. Where do you use the mask?",
        variant(FORWARD, HIDE, "scores"),
    ),
    Mistake(
        "M165",
        "a gradient is scaled twice, or should not be scaled",
        "One of your gradients is wrong by the factor √d or 1/√d. Which gradients does the scale of the scores affect, "
        "and how often?",
        variant(BACKWARD, "-2) @ grad_output", "-2) @ grad_output / np.sqrt(queries.shape[-1])"),
        variant(BACKWARD, "grad_scores @ keys", "grad_scores @ keys / np.sqrt(queries.shape[-1])"),
        variant(BACKWARD, "-2) @ queries", "-2) @ queries / np.sqrt(queries.shape[-1])"),
    ),
    Mistake(
        "M193",
        "the gradients are returned in another order",
        "Each gradient is right, but they are in a wrong order. In which order does the specification return them?",
        variant(BACKWARD, "grad_queries, grad_keys, grad_values", "grad_queries, grad_values, grad_keys"),
        variant(BACKWARD, "grad_queries, grad_keys, grad_values", "grad_values, grad_keys, grad_queries"),
        variant(BACKWARD, "grad_queries, grad_keys, grad_values", "grad_keys, grad_values, grad_queries"),
        variant(BACKWARD, "grad_queries, grad_keys, grad_values", "grad_values, grad_queries, grad_keys"),
    ),
    Mistake(
        "M194",
        "the earlier sums are not rescaled",
        "The new block has a larger score than the earlier blocks. Which score did you subtract in the exponentials of "
        "your earlier sums?",
        variant("online_softmax", "rescale * total", "total"),
        variant("online_softmax", "rescale[..., None] * mixed", "mixed"),
        variant("online_softmax", "rescale * total", "total", "rescale[..., None] * mixed", "mixed"),
    ),
    Mistake(
        "M195",
        "the earlier sums are rescaled by the inverse factor",
        "With a larger score, the earlier sums become smaller in comparison. Does your factor make them smaller?",
        variant("online_softmax", "np.exp(largest - origin)", "np.exp(origin - largest)"),
    ),
    Mistake(
        "M196",
        "the largest score is taken only from the new block",
        "An earlier block may have a larger score than this block. Over which scores do you take the maximum?",
        variant("online_softmax", "np.maximum(largest, scores.max(axis=-1))", "scores.max(axis=-1)"),
    ),
    Mistake(
        "M197",
        "a row that has seen no key yet is NaN",
        "A query may have seen no key so far. What is -inf minus -inf?",
        variant("online_softmax", "np.where(np.isneginf(larger), 0, larger)", "larger"),
    ),
    Mistake(
        "M198",
        "the largest score is never below 0",
        "All scores of a row may be below 0, and a row that has seen no key has no score. What is your largest score "
        "then?",
        variant("online_softmax", "np.maximum(largest, scores", "np.maximum(np.maximum(largest, 0), scores"),
    ),
    Mistake(
        "M199",
        "the mixture is divided by the sum in every block",
        "The sum is complete only after the last block. When do you divide by it?",
        variant("online_softmax", "return larger, total, mixed", "return larger, total, mixed / total[..., None]"),
        variant(
            "online_softmax",
            "return larger, total, mixed",
            "return larger, total, np.nan_to_num(mixed / total[..., None])",
        ),
    ),
    Mistake("M163", variant(FORWARD, HIDE, "scores + ~mask * -np.inf")),
    Mistake(
        "M208",
        "the exponents have the opposite sign",
        "Your largest score gets the smallest weight. What do you subtract from what?",
        variant(ALL, "np.exp(shifted)", "np.exp(-shifted)"),
    ),
)
