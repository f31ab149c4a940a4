"""The known mistakes: what each is called, and what a student who made it is told.

A number is never given twice. The chapters show each mistake with numbers; `autograder/checks/` holds them as code.
"""

import importlib

from autograder.imports import ROOT
from autograder.judging.mistake import Mistake

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
    "M32": "the norm is missing",
    "M33": "post-norm where pre-norm is asked for",
    "M34": "the norm runs over the wrong axis",
    "M35": "eps stands outside the root, or the variance is divided by D - 1",
    "M36": "the norm has no scale and shift of its own for each component",
    "M37": "a residual is missing, or taken from the normalised input",
    "M38": "a part is used twice where there should be two",
    "M40": "the initial parameters are N(0, 1)",
    "M41": "another activation than GELU",
    "M42": "the image is one token",
    "M43": "a part of the image is cut off",
    "M44": "patches by reshape alone",
    "M45": "another order of the pixels inside a patch",
    "M46": "no positions, or the same for all tokens",
    "M47": "positions do not belong to the tokens, the class token first",
    "M48": "positions are indexed by the image, not by the token",
    "M49": "the class token does not stand first, or another token is read",
    "M50": "class token or positions do not learn",
    "M51": "a softmax stands in front of the cross-entropy",
    "M52": "the mode is not set, or a graph is built in evaluation",
    "M53": "gradients are never set to zero",
    "M55": "the last batch stands for the epoch",
    "M56": "batches of unequal size weigh the same",
    "M63": "a sum is reported as the mean loss",
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
    "M90": "no norm behind the last block",
    "M91": "the mean is not subtracted",
    "M92": "divided by the variance, or multiplied by its root",
    "M93": "no gradient comes through",
    "M94": "the blocks stand in a list that PyTorch does not see",
    "M95": "dropout acts on the stream itself",
    "M96": "no activation between the two layers",
    "M97": "the parts stand in another order",
    "M98": "dropout is not handed on",
    "M99": "dropout keeps the share that it should drop",
    "M101": "all blocks start from the same parameters",
    "M102": "another number of blocks than asked for",
    "M103": "the last norm runs behind every block",
    "M104": "shifted before it is scaled",
    "M105": "eps is not the one that was given",
    "M106": "the variance is taken as a difference of squares",
    "M107": "the squares are summed before they are divided",
    "M108": "the hidden width is not the one that was given",
    "M109": "one block gets the mask, the others do not",
    "M110": "the norm does not start from scale 1 and shift 0",
    "M111": "the mean does not keep its axis",
    "M112": "the activation stands at another place",
    "M113": "the residual is added inside the feed-forward net",
    "M114": "the block computes something else",
    "M115": "one norm too many",
    "M116": "the sum is rescaled",
    "M117": "the norm stands in front of the blocks",
    "M118": "a residual around the stack or around a block",
    "M119": "the blocks run in another order",
    "M120": "some parameters are frozen",
    "M121": "another block is returned than was given",
    "M122": "the parameters are not random, or are the same in every block",
    "M123": "sizes that the patches do not tile are not refused",
    "M124": "the patches stand in another order",
    "M125": "the axes of the tokens and of their numbers are not swapped",
    "M126": "each channel makes patches of its own",
    "M127": "axes that should be one are not joined",
    "M128": "a patch takes every so many-th pixel",
    "M129": "the patches overlap, or have a border",
    "M130": "patches of several images are mixed up",
    "M131": "one step too many: a norm, an activation, a factor, a sum",
    "M132": "the tokens are pooled where the class token should be read",
    "M133": "the class token is added to the patches, not put in front",
    "M134": "dropout does not act on the tokens with their positions",
    "M135": "another number of heads than asked for",
    "M136": "zero_grad, backward and step stand in another order, or not once each",
    "M137": "one step for the epoch, not for each batch",
    "M138": "the step follows the sum of the losses, not their mean",
    "M139": "another loss than cross-entropy",
    "M140": "measured after the step",
    "M141": "the accuracy is no share of the images",
    "M142": "right answers are sought along the batch",
    "M143": "some batches are left out",
    "M144": "the model is left in another mode",
    "M145": "an evaluation changes gradients or parameters",
    "M146": "gradients stay switched off",
    "M147": "the heads are not averaged",
    "M148": "the residual stream is left out",
    "M149": "the rows do not sum to 1",
    "M150": "the blocks are multiplied in the wrong order",
    "M151": "another row than that of the class token, or a column",
    "M152": "the blocks are not multiplied",
    "M153": "the class token's own share is left out or rescaled",
    "M154": "the projection is no convolution",
    "M155": "the head has another shape",
    "M160": "the parameters start at 0, all alike, or tiny",
    "M161": "the norms of the two parts are swapped",
    "M163": "0 is multiplied by infinity",
    "M164": "there are more parameters than those asked for",
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
    "M32": "A part reads the stream as it is. Do attention and feed-forward net each read what their own norm gives?",
    "M33": "Pre-norm is x + part(norm(x)). Is your norm behind the part, or behind the sum?",
    "M34": "Tokens or images mix in your norm. Do mean and variance run over the components of one token alone (the last axis)?",
    "M35": "Your variance is off where eps is large or the width small. Is it √(variance + eps), and is the variance "
    "the mean of the squares (unbiased=False)?",
    "M36": "Each component has a scale and a shift that are learned. Are both an nn.Parameter of D numbers, and both used?",
    "M37": "What a part gives is added to what came in, before the norm. Is there x + … around both parts, with x itself?",
    "M38": "There are fewer parameters at work than there should be. Does every place have a module of its own? "
    "[block] * depth is the same block, depth times.",
    "M40": "Your activations grow with √D in every layer. What is the standard deviation of a sum of D products, "
    "and what must that of every matrix then be? Look at each of them.",
    "M41": "The activation is not GELU. Do you use F.gelu or nn.GELU, and no ReLU?",
    "M42": "Your image is a single token, so attention has nothing to choose from. Are the patches of size P×P?",
    "M43": "Some pixels reach no patch. Is something cropped, by a slice, a negative pad, or a window that does not "
    "fit?",
    "M44": "Your patches hold pixels from all over the rows. reshape cuts the memory, not the picture: is each side cut "
    "into patches first, and do axes change places before any are joined?",
    "M45": "The right pixels are in each patch, in another order. Is it channel by channel, and in a channel row by "
    "row, as in the weight of a convolution?",
    "M46": "Patches may change places, or tokens have all the same position, and your scores stay. Where does each "
    "token get its own?",
    "M47": "Some token has no position, or that of its neighbour. Are there 1 + N positions, the first for the class "
    "token, and are they added when it stands in front?",
    "M48": "All tokens of an image got the same position, and images got different ones. Along which axis does "
    "position_embedding broadcast?",
    "M49": "The head reads a token that is not the class token, or one with another's position. At which place do you "
    "put it, and which place do you read?",
    "M50": "No optimizer finds your class token, or your positions. Is each an nn.Parameter that is made in __init__, "
    "and is it used itself, not its .data?",
    "M51": "F.cross_entropy takes the logarithm of a softmax itself. Is there another softmax, sigmoid or logarithm, in "
    "the model or in front of the loss?",
    "M52": "Dropout and batch norm ask in which mode their model is, and evaluation needs no graph. Which mode do you "
    "set, train() or eval(), and do you evaluate under no_grad?",
    "M53": "Every step follows the gradients of all batches so far. Where are they set to zero?",
    "M55": "What you return belongs to the last batch. Do you add up over all of them?",
    "M56": "An image of a small last batch weighs more than others. Do you sum over images, and divide by their number?",
    "M63": "Your loss grows with the number of batches, or of images, or it shrinks with it. Is it the sum over all "
    "images, divided by their number, once?",
    "M65": "Your gradients of queries and keys are √d too large. The forward pass divides by √d; where does the "
    "backward pass?",
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
    "M78": "A mask of shape (B, N) marks the keys that exist. Does it hide columns of the scores, the last axis, and "
    "not rows?",
    "M79": "Every image, and every head where the mask has four axes, has its own mask. Do all of them reach the "
    "scores?",
    "M80": "Your rows are nearly uniform. Is there a second softmax?",
    "M81": "Head 0 should hold the first d features, head 1 the next d. "
    "Is the width cut as (H, d), with the heads first, or as (d, H)?",
    "M82": "The rows of qkv are those of the queries, then the keys, then the values. Do you take them in this order?",
    "M83": "One of the biases has no effect. Have both linear layers one, and does it reach the result?",
    "M84": "Something comes on top of attention. Residuals, norms and activations belong to the block. "
    "Does your layer end with out?",
    "M85": "In training, dropout should set weights to 0, after the softmax and before the values are mixed. "
    "Does it act there, and nowhere else?",
    "M86": "The weights of every head were asked for, (B, H, N, N), as they come out of the softmax. What do you "
    "return?",
    "M87": "Some parameters are still those that PyTorch drew. Are all four copied, weights and biases?",
    "M88": "What comes back is not an nn.MultiheadAttention. Do you make one, and return it itself?",
    "M89": "The weights are right, and the layer uses them in another way. "
    "Does it know the number of heads, and batch_first=True?",
    "M90": "The stream comes out as the last block leaves it. Where do you use norm?",
    "M91": "The mean of your rows is not 0 before the shift. Do you subtract the mean, from x and not in the variance "
    "alone?",
    "M92": "Your rows do not have variance 1. Do you divide by the square root of the variance?",
    "M93": "The output is right and part of the gradient is missing. Is there a .detach(), a .data or a no_grad on the "
    "way?",
    "M94": "PyTorch sees no parameters in your blocks, so no optimizer would train them. Do they stand in an "
    "nn.ModuleList?",
    "M95": "With both parts at 0 the stream should pass unchanged, in training too. "
    "Does your dropout act on what a part adds, before it is added?",
    "M96": "Two linear layers without a GELU between them are one linear layer. Where is the activation?",
    "M97": "First attention, then the feed-forward net, which reads the sum that attention left. Which x does each part "
    "read?",
    "M98": "Somewhere dropout should act in training, and nothing happens. "
    "Is the number handed on to every part, and used?",
    "M99": "Most numbers are set to 0. The argument of F.dropout and nn.Dropout is what is dropped. What do you give it?",
    "M101": "Your blocks are copies of one block and start equal. Is each one made anew, so that its parameters are drawn anew?",
    "M102": "The number of blocks that you make, or that x goes through, is not depth. Which of them is missing or too many?",
    "M103": "Your norm is used more than once. Is it inside the loop over the blocks?",
    "M104": "The scale should not touch the shift. Is it scale * y + shift?",
    "M105": "Your eps is not the argument. Is it kept, and added to the variance under the root as it is?",
    "M106": "Components near 1000 lose their variance to rounding. Is it the mean of (x - mean)², and not mean(x²) - mean(x)²?",
    "M107": "In float16 nothing above 65504 exists, and a sum of squares is soon above. Do you take the mean of the squares?",
    "M108": "The layer between has another width. Do expand and contract use hidden_width?",
    "M109": "Only some blocks see the mask. Is it handed to each of them?",
    "M110": "A fresh norm should only normalise. Does scale start as ones and shift as zeros?",
    "M111": "Each number loses the mean of another row. Does your mean keep its axis (keepdim=True)?",
    "M112": "The GELU should act once, on the result of expand. On what does yours act?",
    "M113": "The feed-forward net gives only what is to be added; its block adds it. Do you add x here too?",
    "M114": "With its own parameters, the block gives something else than a pre-norm encoder block would. "
    "Are both norms LayerNorms in front of their parts, and is the output left alone?",
    "M115": "The stream itself is normalised at the end of the block. Is there a norm behind the last sum?",
    "M116": "The stream should be a plain sum. Is something divided after adding?",
    "M117": "The norm belongs behind the last block. Does it run before the first?",
    "M118": "The residuals are inside the blocks. Do you add the encoder's input at the end, or that of each block, "
    "once more?",
    "M119": "The first block in the list should be the first that x goes through. In which order do they run?",
    "M120": "A parameter that does not ask for a gradient never moves. Which of them has requires_grad False?",
    "M121": "A new block came back. Do you change the one that was given, and return it?",
    "M122": "Two blocks ended with equal parameters, or one with all the entries of a matrix alike. "
    "Are they drawn at random, anew for every block?",
    "M123": "Nothing was said about an image that patches do not tile, or of another size. Where do you raise a "
    "ValueError?",
    "M124": "Your patches run down the columns. In reading order, which of the grid's two axes varies faster?",
    "M125": "Each token should be a row of its own numbers. Do you swap the last two axes, and not reshape them?",
    "M126": "A patch holds the pixels of all channels. Which axes do you join to N, and which to C·P·P?",
    "M127": "The numbers are right and the shape has too many axes. Are rows and columns joined to N, and channels and "
    "pixels to one axis?",
    "M128": "Your patch is spread over the whole image. When a side is cut into (patches, P), which of the two comes "
    "first?",
    "M129": "There are too many patches. By how many pixels does your window move, and is there padding?",
    "M130": "One row holds patches of different images. Is the batch the first axis wherever you stack, join or "
    "reshape?",
    "M131": "There is a step that the specification does not have. Is there a norm, an activation, a factor or a "
    "residual beside the parts asked for? The encoder ends with a norm of its own.",
    "M132": "Your scores come from all tokens. Which one was put in front for that?",
    "M133": "There are N tokens where 1 + N should be. Is the class token a token of its own?",
    "M134": "With dropout, a position is never set to 0. Does dropout act on the tokens once their positions are added?",
    "M135": "Your heads are narrower or wider than asked for. Is num_heads handed on, at its place?",
    "M136": "The parameters are not where one step a batch would take them. In which order do zero_grad, backward and "
    "step run, and each how often?",
    "M137": "Your model has moved once. Is the step inside the loop over the batches?",
    "M138": "Your steps grow with the batch. Do you go backward from the mean over its images, and weigh only what you "
    "report?",
    "M139": "The loss is not the cross-entropy of the scores. Which function do you use, with which settings?",
    "M140": "Your loss is lower than the model earned when it met the batch. Are loss and right answers those of the "
    "scores before the step?",
    "M141": "Accuracy is right answers divided by images, between 0 and 1. Is yours a count, or per cent?",
    "M142": "One image's answer depends on the others in its batch. Does every softmax and arg-max run over the "
    "classes?",
    "M143": "Not all images are in what you return. Does a return or break stand inside the loop, or is a batch "
    "skipped?",
    "M144": "Somebody will use the model after you. In which mode was it, or should it be, when you return?",
    "M145": "An evaluation only looks. Is there a backward, a zero_grad or a step?",
    "M146": "After your evaluation no gradient flows any more. Does what you switch off come back on by itself, as "
    "under with torch.no_grad()?",
    "M147": "In each block the heads are averaged. Along which axis, and is it their mean?",
    "M148": "Half of a token passed attention by. Where is the unit matrix, with ones on the diagonal alone?",
    "M149": "Weights and unit matrix together have rows that sum to 2. Are the rows brought back to 1 in each block?",
    "M150": "The first block mixes what entered, a later one what that has made. On which side of the product does the "
    "later block stand?",
    "M151": "What you return is not what the class token looks at. Which axis counts the tokens that look, and which "
    "place has the class token?",
    "M152": "Two blocks in a row are one matrix product. Do you multiply all of them, as matrices?",
    "M153": "A row over all N tokens was asked for, which sums to 1. Is something dropped or rescaled at the end?",
    "M154": "Its weight has another shape than that of an nn.Conv2d from C to D channels, P×P. What is your projection?",
    "M155": "The head maps the D numbers of one token to the classes. What are its two sizes, and has it a bias?",
    "M160": "Hardly anything comes through the matrices of a part, or the same in every component. "
    "What gradient would each entry get? Do you draw them at random, with a spread that fits the number of inputs?",
    "M161": "Each part has the norm that bears its name. Which of the two does each part read through?",
    "M163": "What you may look at is NaN under a mask. What is 0 · ∞? Is anything multiplied by infinity?",
    "M164": "The layer holds a parameter beside those of qkv and out. What is it for?",
}


def mistakes_of(stem: str) -> tuple[Mistake, ...]:
    """Return the mistakes of a file of answers."""
    return importlib.import_module(f"autograder.checks.{stem}.mistakes").MISTAKES


for path in sorted(ROOT.glob("autograder/checks/*/mistakes.py")):
    for mistake in mistakes_of(path.parent.name):
        if mistake.title:
            TITLES[mistake.name], QUESTIONS[mistake.name] = mistake.title, mistake.question
MESSAGES = {name: f"{name} ({TITLES[name]}): {question}" for name, question in QUESTIONS.items()}
