"""Peers that train: ASOT (Xu and Gould, CVPR 2024)."""

from dataclasses import dataclass

import numpy as np

from stepcut.methods.arithmetic import unit
from stepcut.methods.baselines import Asot, find_means, time_cost, time_order, transport
from stepcut.methods.inputs import Array, Rows
from stepcut.methods.method import Curve
from stepcut.plugins import needs
from stepcut.settings import setting


@dataclass(eq=False, repr=False)
class AsotTrained(Asot):
    """ASOT with its training: a network and the centres learn from the plans that decode them.

    Each step takes one video. Its rows z and the centres c have length 1, P is the plan of
    `transport` for the cost 1 - z.c, without a gradient, and the loss is the mean over rows of
    -sum_k P_k log softmax_k(z.c / temperature).
    """

    temperature: float = setting(0.1, "Divisor of the cosines in the loss.", 0, above=True)
    hidden: int = setting(128, "Width of the hidden layer.", 1, 65_536)
    dim: int = setting(40, "Size of an embedding.", 1, 65_536)
    frames: int = setting(256, "Rows of a video per step; all of them if there are fewer.", 2)
    epochs: int = setting(30, "Passes over the videos.", 1, 100_000)
    learning_rate: float = setting(1e-3, "Step size of the optimiser.", 0, above=True)

    def _find_centres(self, videos: list[Array]) -> Rows:
        with needs("cnc"):
            import torch
        rows = np.concatenate(videos).astype(np.float64)
        middle, spread = rows.mean(axis=0), float(rows.std()) or 1.0
        random = np.random.default_rng(self.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            inner = torch.nn.Linear(rows.shape[1], self.hidden)
            outer = torch.nn.Linear(self.hidden, self.dim)

        def keep() -> None:
            """The network as arrays, which take rows as they are."""
            weights = [x.detach().numpy() for x in (inner.weight.T, inner.bias)]
            self.inner_ = (weights[0] / spread).astype(np.float64)
            self.shift_ = weights[1] - middle @ self.inner_
            self.outer_, self.outer_shift_ = (
                x.detach().numpy() for x in (outer.weight.T, outer.bias)
            )

        keep()
        found = find_means(self._stack(videos), self.count, self.seed, self.restarts)
        near = [(self._prepare(video) @ unit(found).T).argmax(axis=1) for video in videos]
        centres = torch.nn.Parameter(torch.from_numpy(unit(found[time_order(near, self.count)])))
        weights = [*inner.parameters(), *outer.parameters(), centres]
        optimiser = torch.optim.Adam(weights, lr=self.learning_rate, weight_decay=1e-4)
        self.curve_ = Curve(("loss",))
        for _ in range(self.epochs):
            for place in random.permutation(len(videos)):
                video = videos[place]
                count = min(self.frames, len(video))
                chosen = np.sort(random.choice(len(video), count, replace=False))
                x = torch.from_numpy(((video[chosen] - middle) / spread).astype(np.float32))
                z = torch.nn.functional.normalize(outer(inner(x).relu()), dim=1)
                cosines = z @ torch.nn.functional.normalize(centres, dim=1).T
                cost = 1 - cosines.detach().numpy().astype(np.float64)
                cost += self.prior * time_cost(*cost.shape)
                plan = transport(cost, self.radius, self.alpha, self.entropy, self.balance)
                likely = torch.log_softmax(cosines / self.temperature, dim=1)
                loss = -(torch.from_numpy(plan) * likely).sum(1).mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                self.curve_.values.append([loss.item()])
        keep()
        return centres.detach().numpy()

    def _prepare(self, rows: Array) -> Rows:
        hidden = np.maximum(rows @ self.inner_ + self.shift_, 0)
        return unit((hidden @ self.outer_ + self.outer_shift_).astype(np.float32))
