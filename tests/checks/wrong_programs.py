"""Wrong versions of the programs of exercise 5 that the catalogue does not name."""

import torch
import torch.nn.functional as F
from torch import nn

from solutions import programs


def initialised(draw, others=lambda layer: None):
    """Make an initialisation from a draw for linear layers and an action for other layers."""

    @torch.no_grad()
    def initialise(model):
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.copy_(draw(layer) * layer.in_features**-0.5)
                layer.bias.zero_()
            else:
                others(layer)
        return model

    return initialise


def drawn_alike(layer):
    """Start each layer with the same numbers."""
    return torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(0))


def no_shifts(layer):
    """Set the scale of norms to 0 too."""
    for parameter in layer.parameters(recurse=False):
        parameter.zero_()


class StandardiseWithoutGradients(programs.Standardise):
    """No gradient flows through mean and variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            mean, variance = x.mean(dim=0), x.var(dim=0, unbiased=False)
            self.mean.lerp_(mean, self.momentum)
            self.variance.lerp_(variance, self.momentum)
        return (x - mean) / variance.sqrt()


def standardised_in_place(images):
    """Change the given images."""
    images -= images.mean(dim=(1, 2), keepdim=True)
    return images / images.square().mean(dim=(1, 2), keepdim=True).sqrt()


def mean_of_texts(logits, labels, exists):
    """Weigh all texts equally, however long they are."""
    losses = F.cross_entropy(logits.mT, labels, reduction="none") * exists
    return (losses.sum(dim=1) / exists.sum(dim=1)).mean()


WRONG = [
    ("initialise", initialised(lambda layer: 1 + torch.randn_like(layer.weight))),
    ("initialise", initialised(lambda layer: torch.randn(layer.in_features).expand_as(layer.weight))),
    ("initialise", initialised(drawn_alike)),
    ("initialise", initialised(lambda layer: torch.randn_like(layer.weight), no_shifts)),
    ("Standardise", StandardiseWithoutGradients),
    ("standardise_images", standardised_in_place),
    ("loss_of_existing", mean_of_texts),
]
