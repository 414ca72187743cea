"""Networks whose parameters are one flat vector: logistic regression, a perceptron with one hidden layer, ResNet18.

A network maps rows to logits; a row's score, its chance of label 1, is the sigmoid. A flat vector is what
federated methods average, compare and send, so the vector is the state and the network only says how to read it.
The small networks have their gradients written out: PyTorch's own take two to three times as long there, and round
several gradients of one batch (FCFL's) otherwise, so that recorded results would change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from logofair.columns.checks import Floats, whole_number
from logofair.datasets.table import chosen
from logofair.errors import InputError
from logofair_reproduction.training.messages import Vector
from logofair_reproduction.training.rows import ClientRows

PullBack: TypeAlias = Callable[[Tensor], Tensor]


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
            shortcut = nn.Conv2d(width_in, width, 1, stride, bias=False)
            self.shortcut = nn.Sequential(shortcut, nn.GroupNorm(_GROUPS, width))

    def forward(self, images: Tensor) -> Tensor:
        inner = self.first_norm(self.first(images)).relu()
        summed: Tensor = self.second_norm(self.second(inner)) + self.shortcut(images)
        return summed.relu()


class ResNet18(nn.Module):
    """Eighteen layers, from bytes (rows, 3, height, width) to one logit."""

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


Shape: TypeAlias = tuple[int, ...]

_ROWS_AT_ONCE, _IMAGES_AT_ONCE = 65_536, 512


@dataclass(frozen=True, eq=False)
class Network:
    """An architecture; make one with :func:`build_network`."""

    name: ClassVar[str]
    at_once: ClassVar[int] = _ROWS_AT_ONCE
    written_out: ClassVar[bool] = True  # whether the gradient is a formula, which needs nothing of autograd

    shape: Shape  # of one row
    hidden: int
    dtype: torch.dtype

    @cached_property
    def shapes(self) -> list[Shape]:
        """Shapes of the parameters, in the order of the flat vector."""
        return [tuple(parameter.shape) for parameter in self._drawn(0).parameters()]

    @cached_property
    def sizes(self) -> list[int]:
        """Their numbers of entries."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(self.sizes)

    def module(self) -> nn.Module:
        """The network as PyTorch's own, with fresh random parameters."""
        raise NotImplementedError

    def start(self, random_state: int) -> Vector:
        """Parameters to start from: PyTorch's random ones (zeros for a logistic regression)."""
        flat = nn.utils.parameters_to_vector(self._drawn(random_state).parameters())
        return np.asarray(flat.detach().to(self.dtype).numpy())

    def _drawn(self, random_state: int) -> nn.Module:
        """The network as PyTorch's own, its parameters drawn anew; PyTorch's generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(random_state)  # torch.manual_seed would seed GPUs too
            return self.module()

    def tensor(self, parameters: Vector, device: torch.device) -> Tensor:
        """A copy of the parameters on a device."""
        if parameters.shape != (self.size,):
            raise InputError(
                f"parameters: got an array of shape {parameters.shape}, but {self.name} has {self.size:,} of them."
            )
        return torch.tensor(parameters, dtype=self.dtype, device=device)

    def parts(self, vector: Tensor) -> list[Tensor]:
        """The flat vector cut into its parameters, without a copy."""
        cut = torch.split_with_sizes(vector, self.sizes)
        return [part.view(shape) for part, shape in zip(cut, self.shapes, strict=True)]

    def logits(self, vector: Tensor, features: Tensor) -> Tensor:
        """One logit per row; differentiable in the flat vector."""
        raise NotImplementedError

    def gradient(self, vector: Tensor, features: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        """Gradient of the mean log loss; each row's loss counts with its weight."""
        logits, pull_back = self.differentiated(vector, features)
        return pull_back(logit_gradients(logits, labels, weights)[None])[0]

    def differentiated(self, vector: Tensor, features: Tensor) -> tuple[Tensor, PullBack]:
        """The logits, and what takes gradients in the logits, one in each line, to gradients in the flat vector."""
        at = vector.detach().requires_grad_(True)
        logits = self.logits(at, features)

        def pull_back(gradients: Tensor) -> Tensor:
            return torch.stack([torch.autograd.grad(logits, at, each, retain_graph=True)[0] for each in gradients])

        return logits.detach(), pull_back

    def all_logits(self, vector: Tensor, features: Tensor) -> Tensor:
        """Logits of many rows, a bounded number at a time."""
        with torch.no_grad():
            if len(features) <= self.at_once:
                return self.logits(vector, features)
            return torch.cat([self.logits(vector, part) for part in torch.split(features, self.at_once)])

    def scores(self, parameters: Vector, rows: ClientRows) -> Floats:
        """Each row's chance of label 1, in doubles."""
        logits = self.all_logits(self.tensor(parameters, rows.labels.device), rows.features)
        return np.asarray(logits.double().sigmoid().cpu().numpy(), dtype=np.float64)


class _Logistic(Network):
    name = "logistic"

    def module(self) -> nn.Module:
        return nn.Linear(self.shape[0], 1)

    def start(self, random_state: int) -> Vector:
        return np.asarray(torch.zeros(self.size, dtype=self.dtype).numpy())

    def logits(self, vector: Tensor, features: Tensor) -> Tensor:
        return torch.addmv(vector[-1], features, vector[:-1])

    def differentiated(self, vector: Tensor, features: Tensor) -> tuple[Tensor, PullBack]:
        return self.logits(vector, features), lambda g: torch.cat([g @ features, g.sum(1, keepdim=True)], 1)


class _Perceptron(Network):
    name = "mlp"

    def module(self) -> nn.Module:
        return nn.Sequential(nn.Linear(self.shape[0], self.hidden), nn.ReLU(), nn.Linear(self.hidden, 1))

    def logits(self, vector: Tensor, features: Tensor) -> Tensor:
        inner_weights, inner_bias, weights, bias = self.parts(vector)
        inner = torch.addmm(inner_bias, features, inner_weights.T).relu()
        return torch.addmv(bias, inner, weights[0])

    def differentiated(self, vector: Tensor, features: Tensor) -> tuple[Tensor, PullBack]:
        inner_weights, inner_bias, last, bias = self.parts(vector)
        inner = torch.addmm(inner_bias, features, inner_weights.T).relu_()

        def pull_back(gradients: Tensor) -> Tensor:
            within = gradients[:, :, None] * (last[0] * (inner > 0))  # (k, rows, hidden)
            pieces = (within.mT @ features, within.sum(1), gradients @ inner, gradients.sum(1))
            return torch.cat([piece.reshape(len(gradients), -1) for piece in pieces], 1)

        return torch.addmv(bias, inner, last[0]), pull_back


class _Convolutional(Network):
    name = "resnet18"
    at_once = _IMAGES_AT_ONCE
    written_out = False

    def module(self) -> nn.Module:
        return ResNet18()

    @cached_property
    def _skeleton(self) -> nn.Module:
        return self._drawn(0)

    def logits(self, vector: Tensor, features: Tensor) -> Tensor:
        names = [name for name, _ in self._skeleton.named_parameters()]
        found: Tensor = functional_call(self._skeleton, dict(zip(names, self.parts(vector), strict=True)), (features,))
        return found.squeeze(-1)


def logit_gradients(logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """Derivative of the mean log loss in each logit."""
    gradients = torch.sigmoid(logits).sub_(labels).div_(len(labels))
    return gradients if weights is None else gradients.mul_(weights)


NETWORKS: dict[str, Callable[[Shape, int, torch.dtype], Network]] = {
    kind.name: kind for kind in (_Logistic, _Perceptron, _Convolutional)
}


def build_network(name: str, shape: Shape, *, hidden: int = 32, dtype: torch.dtype = torch.float32) -> Network:
    """Build a network by name.

    ``shape`` is that of one row: ``(features,)``, or ``(3, height, width)`` of an image; ``hidden`` the width of the
    MLP's hidden layer. The paper uses a logistic regression for Adult, an MLP for ENEM and ResNet18 for CelebA.

    Examples
    --------
    >>> build_network("mlp", (10,), hidden=16).size
    193
    >>> build_network("resnet18", (3, 32, 32)).size
    11177025
    """
    chosen(name, NETWORKS, "network")
    images, wanted = name == "resnet18", "(3, height, width)" if name == "resnet18" else "(features,)"
    if len(shape) != (3 if images else 1) or (images and shape[0] != 3):
        raise InputError(f"network: {name} takes rows of shape {wanted}, got {tuple(shape)}; use another network.")
    return NETWORKS[name](tuple(shape), whole_number(hidden, "hidden"), dtype)
