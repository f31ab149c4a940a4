"""Well-known code and other answers to exercise 4 that are in no list of the checks, adapted to the signatures."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from solutions import vit as answers


def patchify_of_uva(x, patch_size):
    """As in the tutorials of the University of Amsterdam."""
    batch, channels, height, width = x.shape
    if height % patch_size or width % patch_size:
        raise ValueError("no")
    x = x.reshape(batch, channels, height // patch_size, patch_size, width // patch_size, patch_size)
    x = x.permute(0, 2, 4, 1, 3, 5)
    x = x.flatten(1, 2)
    return x.flatten(2, 4)


def patchify_by_unshuffling(x, patch_size):
    """Let PyTorch's own make channels of the pixels."""
    if x.shape[-2] % patch_size or x.shape[-1] % patch_size:
        raise ValueError("no")
    return F.pixel_unshuffle(x, patch_size).flatten(2).transpose(1, 2)


class EmbeddingOfHuggingFace(nn.Module):
    """It looks at the number of channels too."""

    def __init__(self, *, image_size, patch_size, channels, width):
        super().__init__()
        if image_size % patch_size:
            raise ValueError("no")
        self.image_size, self.num_channels = (image_size, image_size), channels
        patch_size = (patch_size, patch_size)
        self.projection = nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size)

    def forward(self, pixel_values):
        _, num_channels, height, width = pixel_values.shape
        if num_channels != self.num_channels or (height, width) != self.image_size:
            raise ValueError("images of another shape")
        return self.projection(pixel_values).flatten(2).transpose(1, 2)


class EmbeddingThatMeasuresOneSide(answers.PatchEmbedding):
    """Only the width of images is looked at."""

    def forward(self, images):
        if images.shape[-1] != self.image_size:
            raise ValueError("images of another width")
        return self.projection(images).flatten(2).mT


class ViTOfMinGPT(answers.ViT):
    """Every step on a line of its own."""

    def forward(self, x):
        b = x.size(0)
        x = self.patch_embedding(x)
        x = torch.cat((self.class_token.repeat(b, 1, 1), x), dim=1)
        x = self.dropout(x + self.position_embedding)
        for block in self.encoder.blocks:
            x = block(x)
        x = self.encoder.norm(x)
        return self.head(x[:, 0, :])


def train_as_hugging_face(model, batches, optimizer):
    """zero_grad stands last, and NumPy averages."""
    model.train()
    losses, right, counts = [], 0, []
    for x, y in batches:
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        right += (out.argmax(-1) == y).sum().item()
        counts.append(y.shape[0])
    return float(np.average(losses, weights=counts)), right / sum(counts)


def evaluate_all_at_once(model, batches):
    """Scores are kept and joined."""
    before = model.training
    model.train(False)
    with torch.inference_mode():
        scores, labels = map(torch.cat, zip(*((model(x), y) for x, y in batches)))
    model.train(before)
    return F.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).double().mean().item()


def evaluate_detached(model, batches):
    """Call the model with copies of its parameters that ask for no gradient: no graph comes of it."""
    training, loss, right, count = model.training, 0.0, 0, 0
    state = {name: value.detach() for name, value in model.state_dict().items()}
    model.eval()
    for images, labels in batches:
        logits = torch.func.functional_call(model, state, (images,))
        loss += float(F.cross_entropy(logits, labels, reduction="sum"))
        right, count = right + int((logits.argmax(-1) == labels).sum()), count + len(labels)
    model.train(training)
    return loss / count, right / count


def rollout_of_chefer(weights):
    """As in the code of Chefer et al.: all joint attentions are kept."""
    mean = torch.mean(weights, dim=2)
    augmented = mean + torch.eye(mean.shape[-1], dtype=mean.dtype)[None, None]
    augmented = augmented / augmented.sum(dim=-1).unsqueeze(-1)
    joint = torch.zeros(augmented.size(), dtype=mean.dtype)
    joint[0] = augmented[0]
    for n in range(1, len(augmented)):
        joint[n] = torch.matmul(augmented[n], joint[n - 1])
    return joint[-1][:, 0]


RIGHT = [
    ("patchify", patchify_of_uva),
    ("PatchEmbedding", EmbeddingOfHuggingFace),
    ("ViT", ViTOfMinGPT),
    ("train_epoch", train_as_hugging_face),
    ("evaluate", evaluate_all_at_once),
    ("evaluate", evaluate_detached),
    ("patchify", patchify_by_unshuffling),
    ("attention_rollout", rollout_of_chefer),
]


def patchify_of_mae(images, p):
    """The pixels of a patch are in the order (P, P, C)."""
    h, w, c = images.shape[2] // p, images.shape[3] // p, images.shape[1]
    x = torch.einsum("nchpwq->nhwpqc", images.reshape(images.shape[0], c, h, p, w, p))
    return x.reshape(images.shape[0], h * w, p**2 * c)


def patchify_by_two_windows(x, p):
    """Tensor.unfold puts the windows last; a reshape then joins what does not belong together."""
    if x.shape[2] % p or x.shape[3] % p:
        raise ValueError("no")
    return x.unfold(2, p, p).unfold(3, p, p).reshape(len(x), -1, x.shape[1] * p * p)


class ViTThatPools(ViTOfMinGPT):
    """As simple-vit: the mean of all tokens is read."""

    def forward(self, x):
        x = torch.cat((self.class_token.expand(len(x), -1, -1), self.patch_embedding(x)), dim=1)
        return self.head(self.encoder(self.dropout(x + self.position_embedding)).mean(dim=1))


class ViTThatDropsTwice(ViTOfMinGPT):
    """Dropout acts on the tokens with and without their positions."""

    def forward(self, x):
        x = torch.cat((self.class_token.expand(len(x), -1, -1), self.patch_embedding(x)), dim=1)
        return self.head(self.encoder(self.dropout(self.dropout(x) + self.position_embedding))[:, 0])


class ViTThatDropsTokens(answers.ViT):
    """nn.Dropout1d drops whole tokens."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(dropout=dropout, **sizes)
        self.dropout = nn.Dropout1d(dropout)


class ViTThatDropsATenth(answers.ViT):
    """Dropout has a share of its own."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(dropout=dropout, **sizes)
        self.dropout = nn.Dropout(0.1 if dropout else 0.0)


class ViTThatDropsATenthInside(answers.ViT):
    """Dropout has a share of its own, in the encoder."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(dropout=0.1 if dropout else 0.0, **sizes)
        self.dropout = nn.Dropout(dropout)


class ViTWithOneMask(answers.ViT):
    """The same numbers are dropped in all images."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(**sizes)
        self.encoder = answers.ViT(dropout=dropout, **sizes).encoder
        self.mask = nn.Dropout(dropout)
        self.dropout = lambda tokens: tokens * self.mask(torch.ones_like(tokens[:1]))


def train_and_evaluate(model, batches, optimizer):
    """The accuracy is that of the model as it is after the epoch, in evaluation."""
    batches = list(batches)
    loss, _ = train_as_hugging_face(model, batches, optimizer)
    _, accuracy = evaluate_all_at_once(model, batches)
    return loss, accuracy


def train_as_many_do(model, batches, optimizer):
    """The mean of the batches' means, and no mode."""
    total, right, number = 0.0, 0.0, 0
    for x, y in batches:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        total, right, number = total + loss.item(), right + (out.argmax(1) == y).float().mean().item(), number + 1
    return total / number, right / number


def rollout_of_jacobgil(weights):
    """Heads fused by their maximum, as an option has it."""
    result = torch.eye(weights.size(-1), dtype=weights.dtype)
    for attention in weights:
        fused = attention.max(dim=1).values + torch.eye(weights.size(-1), dtype=weights.dtype)
        result = torch.matmul(fused / fused.sum(dim=-1, keepdim=True), result)
    return result[:, 0]


class ViTWithoutClassToken(answers.ViT):
    """Put zeros where the class token belongs."""

    def forward(self, images):
        patches = self.patch_embedding(images)
        tokens = F.pad(patches, (0, 0, 1, 0)) + self.position_embedding
        return self.head(self.encoder(self.dropout(tokens))[:, 0])


WRONG = [
    ("ViT", ViTWithoutClassToken, set()),
    ("patchify", patchify_of_mae, {"M45"}),
    ("patchify", patchify_by_two_windows, {"M44"}),
    ("ViT", ViTThatPools, {"M132"}),
    ("ViT", ViTThatDropsTwice, set()),
    ("PatchEmbedding", EmbeddingThatMeasuresOneSide, {"M123"}),
    ("ViT", ViTThatDropsTokens, set()),
    ("ViT", ViTThatDropsATenth, set()),
    ("ViT", ViTThatDropsATenthInside, set()),
    ("ViT", ViTWithOneMask, set()),
    ("train_epoch", train_and_evaluate, set()),
    ("train_epoch", train_as_many_do, {"M52"}),
    ("attention_rollout", rollout_of_jacobgil, {"M147"}),
]
