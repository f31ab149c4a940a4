"""Right answers of assignment 4_vit, written differently. The keys name the exercise and the difference.

The answers of patchify, PatchEmbedding and ViT are in `right_models.py`. No points depend on either file.
"""

import contextlib
import copy
from functools import reduce

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from autograder.checks.vit import oracles, right_models
from solutions import vit as answers

# ---------------------------------------------------------------------------------------------------------- train_epoch


def train_like(step):
    """Make an epoch that adds up losses and right answers; a step returns the loss and the scores before it."""

    def train(model, batches, optimizer):
        model.train()
        loss_sum, right, count = 0.0, 0, 0
        for images, labels in batches:
            loss, scores = step(model, images, labels, optimizer)
            loss_sum += loss.item() * labels.size(0)
            right += scores.argmax(1).eq(labels).sum().item()
            count += labels.size(0)
        return loss_sum / count, right / count

    return train


def step_as_nano_gpt(model, images, labels, optimizer):
    scores = model(images)
    loss = F.cross_entropy(scores.view(-1, scores.size(-1)), labels.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss, scores


def step_with_clipping(model, images, labels, optimizer):
    """Clip gradients at 1, which they never reach here."""
    scores = model(images)
    loss = F.cross_entropy(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss, scores


def step_with_scaler(model, images, labels, optimizer):
    """Use the parts of mixed precision, which are off on a CPU."""
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    device = next(model.parameters()).device
    images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
    with torch.autocast("cpu", enabled=False):
        scores = model(images)
        loss = F.nll_loss(F.log_softmax(scores, dim=1), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss, scores


def step_with_closure(model, images, labels, optimizer):
    def closure():
        nonlocal scores
        optimizer.zero_grad()
        scores = model(images)
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        return loss

    scores = None
    return optimizer.step(closure), scores


def train_as_pytorch_tutorial(model, dataloader, optimizer):
    """Call zero_grad after the step, and use a module for the loss."""
    loss_fn = nn.CrossEntropyLoss()
    model.train()
    size, train_loss, correct = 0, 0, 0
    for X, y in dataloader:
        pred = model(X)
        loss = loss_fn(pred, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        train_loss += loss.item() * len(X)
        correct += (pred.argmax(1) == y).type(torch.float).sum().item()
        size += len(X)
    return train_loss / size, correct / size


def train_as_cifar_examples(net, batches, optimizer):
    """Call zero_grad first, use max instead of argmax, and return tensors."""
    net.train()
    total_loss, total, correct = torch.zeros(()), 0, torch.zeros((), dtype=torch.long)
    for inputs, targets in batches:
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = F.cross_entropy(outputs, targets, reduction="none")
        loss.mean().backward()
        optimizer.step()
        total_loss += loss.detach().sum()
        _, predicted = outputs.max(1)
        total += targets.size(0)
        correct += predicted.eq(targets).sum()
    return total_loss / total, correct / total


def train_with_running_mean(model, batches, optimizer):
    """Update the means batch by batch."""
    model.train()
    loss_mean, accuracy, seen = 0.0, 0.0, 0
    for images, labels in batches:
        for parameter in model.parameters():
            parameter.grad = None
        scores = model(images)
        loss = F.cross_entropy(scores, labels, reduction="sum") / len(labels)
        loss.backward()
        optimizer.step()
        seen += len(labels)
        loss_mean += (loss.item() - loss_mean) * len(labels) / seen
        accuracy += ((scores.argmax(-1) == labels).float().mean().item() - accuracy) * len(labels) / seen
    return loss_mean, accuracy


def train_all_in_tensors(model, batches, optimizer):
    """Keep detached tensors, and join them at the end."""
    model = model.train()
    kept = []
    for images, labels in list(batches):
        scores = model(images)
        loss = F.cross_entropy(scores, labels)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append((scores.detach(), labels))
    scores, labels = torch.cat([s for s, _ in kept]), torch.cat([t for _, t in kept])
    return F.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).float().mean().item()


TRAIN_EPOCH = {
    "answer": answers.train_epoch,
    "nanoGPT": train_like(step_as_nano_gpt),
    "PyTorch's tutorial": train_as_pytorch_tutorial,
    "CIFAR examples": train_as_cifar_examples,
    "scaler": train_like(step_with_scaler),
    "running means": train_with_running_mean,
    "closure": train_like(step_with_closure),
    "in tensors": train_all_in_tensors,
    "clipping": train_like(step_with_clipping),
    "list of results": lambda *given: list(answers.train_epoch(*given)),
    "oracle": oracles.oracle_train_epoch,
}


# ------------------------------------------------------------------------------------------------------------- evaluate


def evaluate_like(context):
    """Return an evaluation that runs in this context, which builds no graph."""

    def evaluate(model, batches):
        was_training = model.training
        model.train(False)
        loss_sum, right, count = 0.0, 0, 0
        with context():
            for images, labels in batches:
                scores = model(images)
                loss = F.cross_entropy(scores, labels).item()
                loss_sum += loss * len(labels)
                right += (scores.argmax(1) == labels).sum().item()
                count += labels.numel()
        if was_training:
            model.train()
        return loss_sum / count, right / count

    return evaluate


@torch.no_grad()
def evaluate_in_tensors(model, batches):
    mode = model.training
    model.eval()
    outputs = [(model(images), labels) for images, labels in batches]
    model.train(mode)
    scores, labels = torch.cat([s for s, _ in outputs]), torch.cat([t for _, t in outputs])
    return F.cross_entropy(scores, labels), (scores.argmax(-1) == labels).float().mean()


def evaluate_a_copy(model, batches):
    with torch.no_grad():
        return evaluate_like(torch.no_grad)(copy.deepcopy(model), batches)


def evaluate_in_try(model, batches):
    """Restore the mode and the setting of gradients, even after an error."""
    training, before = model.training, torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    totals = torch.zeros(3, dtype=torch.float64)
    try:
        for images, labels in batches:
            scores = model.eval()(images)
            loss = nn.CrossEntropyLoss(reduction="sum")(scores, labels)
            totals += torch.stack([loss, scores.max(1)[1].eq(labels).sum(), torch.tensor(len(labels))]).double()
    finally:
        model.train(training)
        torch.set_grad_enabled(before)
    return (totals[:2] / totals[2]).tolist()


def evaluate_of_the_tutorial(model, dataloader):
    """Count the images in the loop."""
    training = model.training
    model.eval()
    size, test_loss, correct = 0, 0.0, 0.0
    with torch.no_grad():
        for X, y in dataloader:
            pred = model(X)
            test_loss += nn.CrossEntropyLoss(reduction="none")(pred, y).sum().item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
            size += len(y)
    model.train() if training else model.eval()
    return test_loss / size, correct / size


EVALUATE = {
    "answer": answers.evaluate,
    "no_grad": evaluate_like(torch.no_grad),
    "inference_mode": evaluate_like(torch.inference_mode),
    "set_grad_enabled": evaluate_like(lambda: torch.set_grad_enabled(False)),
    "in tensors": evaluate_in_tensors,
    "a copy": evaluate_a_copy,
    "try and finally": evaluate_in_try,
    "PyTorch's tutorial": evaluate_of_the_tutorial,
    "a list of batches": lambda model, batches: evaluate_of_the_tutorial(model, list(batches)),
    "decorated": torch.no_grad()(evaluate_like(contextlib.nullcontext)),
    "inference, decorated": torch.inference_mode()(evaluate_like(contextlib.nullcontext)),
    "oracle": oracles.oracle_evaluate,
}


# ---------------------------------------------------------------------------------------------------- attention_rollout


def rollout_of_jacobgil(weights):
    """Fuse heads by their mean, and normalise rows by their sums."""
    result = torch.eye(weights.size(-1), dtype=weights.dtype)
    for attention in weights:
        fused = attention.mean(axis=1)
        a = fused + 1.0 * torch.eye(fused.size(-1), dtype=weights.dtype)
        sums = a.sum(dim=-1, keepdim=True)
        a = a / sums
        result = torch.matmul(a, result)
    return result[:, 0, :]


def rollout_by_einsum(weights):
    mean = torch.einsum("lbhij->lbij", weights) / weights.shape[2]
    half, of_token = 0.5 * mean, 0.5 * torch.eye(mean.shape[-1], dtype=mean.dtype)
    mixing = half + of_token
    rollout = torch.eye(mean.shape[-1], dtype=mean.dtype).repeat(mean.shape[1], 1, 1)
    for index in range(len(mixing)):
        rollout = torch.einsum("bij,bjk->bik", mixing[index], rollout)
    return rollout[:, 0]


def rollout_image_by_image(weights):
    rows = []
    for image in range(weights.shape[1]):
        blocks = [(block.mean(0) + torch.eye(block.shape[-1], dtype=block.dtype)) / 2 for block in weights[:, image]]
        rows.append(torch.linalg.multi_dot([*blocks[::-1], torch.eye(len(blocks[0]), dtype=weights.dtype)])[0])
    return torch.stack(rows)


def rollout_in_numpy(weights):
    array = weights.detach().cpu().numpy().mean(axis=2)
    array = (array + np.eye(array.shape[-1])) / 2
    rollout = array[-1]
    for block in array[-2::-1]:
        rollout = rollout @ block
    return torch.from_numpy(rollout[:, 0]).to(weights.dtype)


def rollout_transposed(weights):
    """Use columns instead of rows, from the first block on."""
    mixing = (weights.mean(2) + torch.eye(weights.shape[-1], dtype=weights.dtype)).mT / 2
    rollout = mixing[0]
    for block in mixing[1:]:
        rollout = rollout @ block
    return rollout[:, :, 0]


def rollout_in_double(weights):
    return rollout_of_jacobgil(weights.double()).to(weights.dtype)


def rollout_by_powers_of_two(weights):
    """Divide by the powers of two at the end."""
    mixing = weights.mean(2) + torch.diag(torch.ones(weights.shape[-1], dtype=weights.dtype))
    rollout = mixing[0].clone()
    for block in mixing[1:]:
        rollout = torch.bmm(block, rollout)
    return rollout[:, 0] / 2 ** len(mixing)


def rollout_mixing(weights):
    return [torch.lerp(block.mean(1), torch.eye(block.shape[-1], dtype=block.dtype), 0.5) for block in weights]


ROLLOUT = {
    "answer": answers.attention_rollout,
    "normalised by sums": rollout_of_jacobgil,
    "einsum": rollout_by_einsum,
    "image by image": rollout_image_by_image,
    "NumPy": rollout_in_numpy,
    "transposed": rollout_transposed,
    "float64": rollout_in_double,
    "halved at the end": rollout_by_powers_of_two,
    "normalised once more": lambda weights: F.normalize(rollout_by_einsum(weights), p=1, dim=-1),
    "functools": lambda weights: reduce(torch.matmul, reversed(rollout_mixing(weights)))[:, 0],
    "oracle": oracles.oracle_rollout,
}


RIGHT_ANSWERS = {
    "patchify": right_models.PATCHIFY,
    "PatchEmbedding": right_models.PATCH_EMBEDDING,
    "ViT": right_models.VIT,
    "train_epoch": TRAIN_EPOCH,
    "evaluate": EVALUATE,
    "attention_rollout": ROLLOUT,
}

# Mutations that are right too. A key is a regular expression for a text such as "softmax, line 3: a - b -> a + b", with lines
# counted from the `def`. The value is the reason.
EQUIVALENT = {
    r"super\(\).__init__\(\); |zero_grad\(\); ": "a second call changes nothing",
    r"(evaluate|attention_rollout), .*detach": "no gradient was asked for",
    r"(patchify|PatchEmbedding), line \d+: -2 -> 2$": "images have four axes",
    r"(train_epoch|evaluate), line \d+: -1 -> 1$": "scores have two axes",
    r"attention_rollout, line \d+: 1 -> 2$": "the last two axes have the same size",
    r"attention_rollout, line \d+: torch.eye.*to": "all checks run on one device, in one precision",
    r"(train_epoch|evaluate), line \d+: float\(": "a tensor of one number is accepted too",
    r"train_epoch, line \d+: loss\.detach\(\) -> loss": "the number is the same; only the memory differs",
    r"Dropout\(dropout\)\.half": "dropout has no parameters",
    r"ViT, line \d+: (0\.02|torch\.zeros)": "the specification leaves the initial class token and positions open",
}
