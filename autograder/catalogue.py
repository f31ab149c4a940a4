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
    "M21": "heads are cut without swapping the axes of tokens and heads",
    "M22": "heads are merged without swapping their axes back",
    "M23": "each head projects its own slice of the token",
    "M24": "no output projection",
    "M25": "the softmax runs over the heads",
    "M26": "all heads share one projection, or each has the full width",
    "M27": "the packed rows are unpacked as (h qkv d)",
    "M28": "images and tokens are swapped",
    "M29": "dropout acts in evaluation too",
    "M30": "dropout does not rescale",
    "M65": "the scale is missing in the backward pass",
    "M66": "the softmax Jacobian is taken as diagonal",
    "M67": "the softmax Jacobian sums over the queries",
    "M68": "gradients of queries and keys are mixed up",
    "M69": "the weights are not transposed in the gradient of the values",
    "M70": "the gradient of the scores is scaled by another power of the width",
    "M71": "the mask is not used",
    "M72": "a matrix is transposed that should not be, or the other way round",
    "M73": "the axes of the result stand in another order",
    "M74": "more or fewer axes are summed than should be",
    "M75": "other images or heads are summed in",
    "M76": "the matrix between the two is left out",
    "M77": "the values are mixed with the transposed weights",
    "M78": "a mask of keys hides queries",
    "M79": "one mask is used for all images or heads",
    "M80": "the softmax is taken twice",
    "M81": "a head takes every H-th feature",
    "M82": "queries, keys and values are packed in another order",
    "M83": "a bias is left out",
    "M84": "the layer holds more than attention",
    "M85": "dropout does not act on the weights, or not on them alone",
    "M86": "what is returned are not the weights of each head",
    "M87": "weights are not copied",
    "M88": "not PyTorch's layer",
    "M89": "PyTorch's layer is set up differently",
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
    "M21": "Your heads mix tokens with features. view or reshape cuts axes and never swaps them. "
    "Do you cut the width into heads and features first, and then swap the axes of tokens and heads?",
    "M22": "The merged tokens mix tokens with features. "
    "Do you swap the axes of heads and tokens back before you join heads and features into one axis?",
    "M23": "A head sees a part of each token. "
    "Is the whole token projected, and are queries, keys and values cut into heads after that?",
    "M24": "The result is that of the merged heads. Where does out mix what the heads found?",
    "M25": "The weights of the heads sum to 1 where those of the keys should. "
    "Does your softmax name its axis (dim=-1)? Without dim, PyTorch takes axis 1 of four.",
    "M26": "The heads do not differ as they should. "
    "Does each head have its own d = D / H rows of the projections of queries, keys and values?",
    "M27": "qkv is packed as in nn.MultiheadAttention: all queries, then all keys, then all values. "
    "Do you cut its result into three before you cut into heads?",
    "M28": "Tokens of one image look at those of other images. Is the batch your first axis throughout (batch_first)?",
    "M29": "Your layer is random in evaluation. Does dropout know whether the layer is training? "
    "F.dropout acts unless it is given training=self.training.",
    "M30": "The weights that are left do not grow by 1 / (1 - dropout), so training sees smaller sums than evaluation. "
    "Do you use PyTorch's dropout, or rescale?",
    "M65": "Your gradients of queries and keys are √d too large. The forward pass divides by √d; where does the backward pass?",
    "M66": "Each weight depends on all the scores of its row. Where is the term -p pᵀ of the Jacobian diag(p) - p pᵀ?",
    "M67": "The sum in the softmax Jacobian runs over the queries. "
    "Should it not run over the keys, as the softmax does, and keep its axis (keepdims=True)?",
    "M68": "The gradient of the queries needs that of the scores, "
    "the gradient of the keys its transpose. Are they swapped, or is the transpose forgotten?",
    "M69": "A value collects gradient from all the queries that looked at it. Are the weights transposed?",
    "M70": "Your gradients of queries and keys carry the scale with the wrong power. Is it 1/√d, once?",
    "M71": "Your result is the same with and without a mask. Where do you use it?",
    "M72": "A matrix enters transposed, or should and does not. "
    "Does each of its letters stand at the axis that the shape in the specification gives it?",
    "M73": "The numbers are right, in another order. "
    "Do the letters right of the arrow stand in the order of the shape asked for?",
    "M74": "Einsum sums over each letter that stands left of the arrow and not right of it. "
    "Are those the axes that should be summed?",
    "M75": "An image, or a head, sees what belongs to others. "
    "Does one axis have the same letter everywhere, and does that letter stand right of the arrow too?",
    "M76": "The result does not depend on w. Where does it enter?",
    "M77": "The weights are right, but each row should mix the values of the keys. "
    "Does the letter that you sum over stand for the keys in the weights, and in the values?",
    "M78": "A mask of shape (B, N) marks the keys that exist. Does it hide columns of the scores, the last axis, and not rows?",
    "M79": "Every image, and every head where the mask has four axes, has its own mask. Do all of them reach the scores?",
    "M80": "Your rows are nearly uniform. Is there a second softmax?",
    "M81": "Head 0 should hold the first d features, head 1 the next d. "
    "Is the width cut as (H, d), with the heads first, or as (d, H)?",
    "M82": "The rows of qkv are those of the queries, then the keys, then the values. Do you take them in this order?",
    "M83": "One of the biases has no effect. Have both linear layers one, and does it reach the result?",
    "M84": "Something comes on top of attention. Residuals, norms and activations belong to the block. "
    "Does your layer end with out?",
    "M85": "In training, dropout should set weights to 0, after the softmax and before the values are mixed. "
    "Does it act there, and nowhere else?",
    "M86": "The weights of every head were asked for, (B, H, N, N), as they come out of the softmax. What do you return?",
    "M87": "Some parameters are still those that PyTorch drew. Are all four copied, weights and biases?",
    "M88": "What comes back is not an nn.MultiheadAttention. Do you make one, and return it itself?",
    "M89": "The weights are right, and the layer uses them in another way. "
    "Does it know the number of heads, and batch_first=True?",
}

MESSAGES = {name: f"{name} ({TITLES[name]}): {question}" for name, question in QUESTIONS.items()}
