"""The settings of a training run."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Settings:
    """The settings of a run. Each default did best on the validation split, or its comment gives another reason.

    Raises:
        ValueError: A number is outside its range.
    """

    epochs: int = 20  # passes over the training images; the schedule is planned for this many
    batch_size: int = 128  # images in a step
    optimizer: Literal["muon", "adamw"] = "muon"  # for the blocks' matrices; AdamW always moves the rest
    muon_rate: float = 0.015  # peak; Muon's steps have the same size for every gradient
    adamw_rate: float = 3e-3  # peak, for what AdamW moves
    weight_decay: float = 0.01  # share of a matrix that is removed for each unit of the rate
    warmup: float = 0.1  # share of all steps in which the rates rise from 0: AdamW's averages are noise at first
    decay: bool = True  # lower the rates to 0 along a cosine; else they remain at their peak
    clip: float = 1.0  # greatest norm of the whole gradient
    label_smoothing: float = 0.0  # share of the target that is spread over all classes
    shift: float = 2.0  # pixels; the largest shift of an image, as handwriting varies
    rotation: float = 10.0  # degrees to either side, at most
    dropped_share: float = 0.0  # share of the patches that are left out of each training image
    dropped_until: float = 0.0  # share of all steps during which patches are left out
    flip: bool = False  # mirror half of the images: this suits photographs, not digits
    architecture: str = "vit"  # or one of architectures.py, to compare
    dropout: float = 0.0  # share of a ViT's numbers that is set to 0; the recipe's runs are too short to need it
    patch_size: int = 7  # pixels of a patch's side; this and the next five describe the model
    width: int = 64
    depth: int = 6
    num_heads: int = 8
    hidden_width: int = 128
    position_std: float = 0.5  # initial std of the position embeddings, equal to the tokens' std; 0.02 is too small
    seed: int = 0  # decides the parameters, the order of the images and the augmentation

    def __post_init__(self) -> None:
        sizes = ("epochs", "batch_size", "patch_size", "width", "depth", "num_heads", "hidden_width")
        shares = ("warmup", "label_smoothing", "dropped_share", "dropped_until", "dropout")
        for name in (*sizes, "muon_rate", "adamw_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")
        for name in shares:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}")
        for name in ("weight_decay", "shift", "rotation", "position_std"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.width % self.num_heads:
            raise ValueError(f"num_heads must divide the width, got {self.num_heads} and {self.width}")
        if self.optimizer not in ("muon", "adamw"):
            raise ValueError(f"optimizer must be muon or adamw, got {self.optimizer}")
        if self.optimizer == "muon" and self.architecture not in ("vit", "decoder"):
            raise ValueError(f"muon works only with PyTorch's blocks: architecture {self.architecture} needs adamw")
        if self.dropped_until and (self.dropout or self.architecture != "vit"):
            raise ValueError("patches can be left out only with architecture vit and without dropout")


def change_settings(settings: Settings, changes: list[str]) -> Settings:
    """Apply changes that are written name=value.

    Raises:
        ValueError: There is no such setting, or its value has the wrong type.
    """
    new = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in asdict(settings):
            raise ValueError(f"no setting is called {name!r}; there are {', '.join(asdict(settings))}")
        kind = type(getattr(settings, name))
        try:
            new[name] = json.loads(value.lower()) if kind is bool else kind(value)
        except ValueError:
            raise ValueError(f"{name} must be of type {kind.__name__}, got {value!r}") from None
    return replace(settings, **new)
