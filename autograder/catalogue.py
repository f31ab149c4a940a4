"""The known mistakes: what each is called, and what a student who made it is told.

A number is never given twice. The chapters show each mistake with numbers; `autograder/checks/` holds them as code.
"""

TITLES = {
    "M1": "the bounds of clip are swapped",
    "M2": "scores are clipped where the maximum should be subtracted",
    "M3": "the maximum is not subtracted",
    "M4": "the sum does not keep its axis",
    "M5": "normalised over the whole array",
    "M6": "the softmax runs over the wrong axis",
    "M7": "scaled after the softmax",
    "M8": "not scaled",
    "M9": "scaled by another width than that of the queries",
    "M10": "scaled by another power of the width than 1/√d",
    "M11": "queries and keys are swapped",
    "M12": "“Q = K = V” taken literally",
    "M13": "keys used as values, or values not projected",
    "M14": "the maximum of the whole array is subtracted",
    "M15": "an argument is changed in place",
    "M16": "the mask is inverted",
    "M17": "masked after the softmax and not renormalised",
    "M18": "the mask is added or multiplied as 0/1",
    "M19": "the mask meets the wrong axis",
    "M20": "a query that may look at nothing goes unnoticed",
    "M65": "the scale is missing in the backward pass",
    "M66": "the softmax Jacobian is taken as diagonal",
    "M67": "the softmax Jacobian sums over the queries",
    "M68": "gradients of queries and keys are mixed up",
    "M69": "the weights are not transposed in the gradient of the values",
    "M70": "the gradient of the scores is scaled by another power of the width",
    "M71": "the mask is not used",
}

QUESTIONS = {
    "M1": "All your weights are equal. Do the bounds of your clip stand as (low, high)? "
    "np.clip(x, 100, -100) turns every score into -100.",
    "M2": "Scores far apart get the same weight. Do you clip them? Clipping changes large scores; "
    "subtracting the maximum of each row changes nothing but the risk of overflow.",
    "M3": "exp overflows from 710 on (89 in float32), and inf/inf is NaN. Do you subtract the maximum before exp?",
    "M4": "Each weight is divided by the sum of another row. Does your sum keep its axis (keepdims=True)?",
    "M5": "The whole array sums to 1, not each row. Does your sum run along the axis alone?",
    "M6": "Does your softmax run over the axis that was asked for? "
    "In attention that is the keys (the last axis): each row sums to 1, one row per query.",
    "M7": "The rows do not sum to 1, but to 1/√d. "
    "Do you divide the scores by √d before the softmax, not the weights after it?",
    "M8": "Your scores are √d too large. Where do you divide them by √d?",
    "M9": "The scale is that of another width. Is your d the width of one query, queries.shape[-1]?",
    "M10": "The scale has the wrong power of d. Do you divide by √d, and neither divide by d nor multiply by √d?",
    "M11": "Your weights are those of keys that look at queries. Is each row of the scores one query, queries @ keysᵀ?",
    "M12": "Your tokens look mostly at themselves. Are queries, keys and values three different projections "
    "of the tokens, with w_query, w_key and w_value?",
    "M13": "The weights are right, but they mix the wrong thing. Do you mix the values (projected with w_value)?",
    "M14": "A row far below the largest score of the array underflows to 0/0. "
    "Is the maximum taken along the axis (keepdims=True)?",
    "M15": "The caller's array was changed. Do you use -= or another operation in place on an argument?",
    "M16": "You look where the mask says no. True means: may look. Is your condition the right way round?",
    "M17": "The rows sum to less than 1 under a mask. Do you mask the scores before the softmax?",
    "M18": "Weight leaks through the mask. Do masked scores become -inf? "
    "Multiplying by 0 leaves exp(0) = 1, and adding 0 leaves the score as it was.",
    "M19": "The mask of one image or head is used for another. Does your mask broadcast to the scores "
    "from the right, without an extra axis?",
    "M20": "A query may look at no key, so its weights cannot sum to 1. Do you raise a ValueError before the softmax?",
    "M65": "Your gradients of queries and keys are √d too large. The forward pass divides by √d; where does the backward pass?",
    "M66": "Each weight depends on all the scores of its row. Where is the term -p pᵀ of the Jacobian diag(p) - p pᵀ?",
    "M67": "The sum in the softmax Jacobian runs over the queries. "
    "Should it not run over the keys, as the softmax does, and keep its axis (keepdims=True)?",
    "M68": "The gradient of the queries needs that of the scores, "
    "the gradient of the keys its transpose. Are they swapped, or is the transpose forgotten?",
    "M69": "A value collects gradient from all the queries that looked at it. Are the weights transposed?",
    "M70": "Your gradients of queries and keys carry the scale with the wrong power. Is it 1/√d, once?",
    "M71": "Your result is the same with and without a mask. Where do you use it?",
}

MESSAGES = {name: f"{name} ({TITLES[name]}): {question}" for name, question in QUESTIONS.items()}
