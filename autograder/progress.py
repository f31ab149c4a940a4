"""How what takes long says how far it is, to the one who asked for it."""

from collections.abc import Callable

Progress = Callable[..., None]  # what is done, how many, of how many; of a submission also the state in which it ended
