"""What a student's test gets instead of a candidate, which stays with the grader: values and gradients cross both ways.

This file holds nothing else, because a student's code can look into the functions that it gets.
"""

from collections.abc import Callable


def candidate(ask: Callable) -> Callable:
    """Return a function that asks the grader for each value, and for each gradient in the backward pass."""

    def candidate(*arguments, **keywords):
        values = [*arguments, *keywords.values()]
        if not any(getattr(value, "requires_grad", False) is True for value in values):
            return ask(arguments=arguments, keywords=keywords)
        import torch

        class Asked(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *values):
                return ask(arguments=arguments, keywords=keywords)

            @staticmethod
            def backward(ctx, *gradients):
                return tuple(ask(arguments=arguments, keywords=keywords, gradients=list(gradients)))

        return Asked.apply(*values)

    return candidate
