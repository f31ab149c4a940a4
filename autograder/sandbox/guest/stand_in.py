"""The replacement, in the sandbox, of a function that stays with the grader: values and gradients cross both ways.

This file holds nothing else, because a student's code can look into the functions that it gets.
"""

import inspect
from collections.abc import Callable


def stand_in(name: str, ask: Callable, names: tuple[str, ...] = (), own: Callable | None = None) -> Callable:
    """Return a function of this name that asks the grader for each value, and for each gradient in the backward pass.

    Args:
        name: The function's name.
        ask: Asks the grader.
        names: The names of the arguments that the exercise asks for; empty if they are not known.
        own: The student's function of this name, which may have other arguments; None if there is none.
    """

    def correct(*arguments, **keywords):
        if own is not None and names:
            arguments, keywords = _fitted(name, names, own, arguments, keywords)
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


def _fitted(name: str, names: tuple[str, ...], own: Callable, arguments: tuple, keywords: dict) -> tuple[tuple, dict]:
    """Return the arguments of a call under the exercise's names, if the student's function has others."""
    if len(arguments) <= len(names) and keywords.keys() <= set(names):
        return arguments, keywords
    try:
        signature = inspect.signature(own)
    except (TypeError, ValueError):
        return arguments, keywords
    given, known = {}, list(signature.parameters)
    for parameter, value in signature.bind(*arguments, **keywords).arguments.items():
        place = known.index(parameter)
        at_its_place = names[place] if place < len(names) and names[place] not in known else None
        if parameter in names or at_its_place:
            given[parameter if parameter in names else at_its_place] = value
        elif value is not signature.parameters[parameter].default:
            raise TypeError(f"{name} is called with `{parameter}`, an argument that only your own {name} has")
    return (), given
