"""The type of the function with which a long task reports its progress."""

from collections.abc import Callable

Progress = Callable[..., None]  # arguments: the task, the number done, the total; after a submission also its state
