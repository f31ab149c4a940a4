"""What a student's function gets instead of something else: a candidate that stays with the grader, or another answer."""

import inspect
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


def replacement(ours: Callable, own: Callable | None) -> Callable:
    """Return our answer; for a function, one that may be called with the argument names of the student's own.

    Args:
        ours: Our function or class.
        own: The student's, which may have other arguments; None if there is none.
    """
    if own is None or isinstance(ours, type):
        return ours
    name, names = ours.__name__, list(inspect.signature(ours).parameters)

    def correct(*arguments, **keywords):
        if len(arguments) <= len(names) and keywords.keys() <= set(names):
            return ours(*arguments, **keywords)
        try:
            signature = inspect.signature(own)
        except (TypeError, ValueError):
            return ours(*arguments, **keywords)
        given, known = {}, list(signature.parameters)
        for parameter, value in signature.bind(*arguments, **keywords).arguments.items():
            place = known.index(parameter)
            at_its_place = names[place] if place < len(names) and names[place] not in known else None
            if parameter in names or at_its_place:
                given[parameter if parameter in names else at_its_place] = value
            elif value is not signature.parameters[parameter].default:
                raise TypeError(f"{name} is called with `{parameter}`, an argument that only your own {name} has")
        return ours(**given)

    correct.__name__ = name
    return correct
