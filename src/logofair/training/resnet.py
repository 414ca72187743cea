"""ResNet18 (He et al., 2016) for one logit, with group normalisation.

Batch normalisation keeps running means that belong to one client's rows; averaging these between unlike clients is a
known fault of federated training (Hsieh et al., 2020). Group normalisation has parameters only, so that a network is
its flat vector. Images come as bytes and are standardised by ImageNet's mean and deviation inside the network.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["ResNet18"]

_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_WIDTHS = (64, 128, 256, 512)
_GROUPS = 32


class _Block(nn.Module):
    """Two 3 x 3 convolutions, and the input added to what they give."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(_GROUPS, width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(_GROUPS, width)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or width_in != width:
            across = nn.Conv2d(width_in, width, 1, stride, bias=False)
            self.shortcut = nn.Sequential(across, nn.GroupNorm(_GROUPS, width))

    def forward(self, images: Tensor) -> Tensor:
        inner = self.first_norm(self.first(images)).relu()
        summed: Tensor = self.second_norm(self.second(inner)) + self.shortcut(images)
        return summed.relu()


class ResNet18(nn.Module):
    """Eighteen layers, from bytes (rows, 3, height, width) to one logit.

    Examples
    --------
    >>> ResNet18()(torch.zeros((2, 3, 32, 32), dtype=torch.uint8)).shape
    torch.Size([2, 1])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(_DEVIATION).view(3, 1, 1), persistent=False)
        self.stem = nn.Conv2d(3, _WIDTHS[0], 7, stride=2, padding=3, bias=False)
        self.stem_norm = nn.GroupNorm(_GROUPS, _WIDTHS[0])
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks: list[nn.Module] = []
        width_in = _WIDTHS[0]
        for stage, width in enumerate(_WIDTHS):
            blocks += [_Block(width_in, width, stride=1 if stage == 0 else 2), _Block(width, width, stride=1)]
            width_in = width
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(_WIDTHS[-1], 1)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images."""
        mean, deviation = self.mean.to(images.device), self.deviation.to(images.device)
        standard = (images.to(self.last.weight.dtype) / 255.0 - mean) / deviation
        inner = self.pool(self.stem_norm(self.stem(standard)).relu())
        logits: Tensor = self.last(self.blocks(inner).mean((2, 3)))
        return logits
