"""What is in the sandbox for a function that stays with the grader: values go there and back, and so do gradients.

It has a file of its own, in which there is nothing else: a student's code can look into what it is given.
"""

from collections.abc import Callable


def stand_in(name: str, ask: Callable) -> Callable:
    """Return a stand-in of this name, which asks the grader for each value; the way back through it is a question too."""

    def correct(*arguments, **keywords):
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

    correct.__name__ = name
    return correct
