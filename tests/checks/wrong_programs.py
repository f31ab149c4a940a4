"""Wrong versions of the programs of exercise 5 that the catalogue does not name."""

import torch

from solutions import programs


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


WRONG = [
    ("Standardise", StandardiseWithoutGradients),
    ("standardise_images", standardised_in_place),
]
