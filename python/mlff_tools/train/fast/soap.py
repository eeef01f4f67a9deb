"""SOAP (N. Vyas et al., arXiv:2409.11321): Adam in the eigenbasis of Shampoo's preconditioner, for the matrices of a
network.

For a weight matrix with gradient G [m, n], L = mean of G G^T and R = mean of G^T G are kept; every PERIOD steps their
eigenvectors are improved by one step of orthogonal iteration, and Adam's second moments live in that basis. Vectors are
treated by Adam. Leading dimensions (the members of an ensemble) are independent matrices.
"""

import math

import torch

BETA, BETA_SECOND, PERIOD = 0.95, 0.999, 20
# Second moments lag behind a basis that turns; where they are of another direction, a step could be of any size. With
# moments that fit, no element exceeds (1 - BETA) / sqrt(1 - BETA_SECOND) = 1.6.
LARGEST = 2.0


class Soap:
    """Bases of every matrix; first and second moments are the flat vectors that the trainer keeps."""

    def __init__(self, shapes, device):
        self.parts, offset = [], 0
        for name, shape in shapes.items():
            n = math.prod(shape)
            matrix = len(shape) >= 2 and min(shape[-2:]) > 1 and not name.endswith("bias")
            self.parts.append((offset, n, tuple(shape), matrix))
            offset += n
        self.device, self.count = device, 0
        self.left, self.right, self.q_left, self.q_right = {}, {}, {}, {}
        for offset, _, shape, matrix in self.parts:
            if matrix:
                for store, size in ((self.left, shape[-2]), (self.right, shape[-1])):
                    store[offset] = torch.zeros(*shape[:-2], size, size, device=device)

    def state(self):
        """A copy of everything that direction() keeps."""
        copies = {
            k: {a: x.detach().clone().cpu() for a, x in getattr(self, k).items()}
            for k in ("left", "right", "q_left", "q_right")
        }
        return {"count": self.count, **copies}

    def restore(self, state):
        """Takes over what state() gave."""
        self.count = state["count"]
        for k in ("left", "right", "q_left", "q_right"):
            setattr(self, k, {a: x.clone().to(self.device) for a, x in state[k].items()})

    def _statistics(self, offset, g):
        self.left[offset].lerp_(g @ g.mT, 1 - BETA)
        self.right[offset].lerp_(g.mT @ g, 1 - BETA)

    def _rotate_bases(self, offset, v):
        """One step of orthogonal iteration, eigenvectors in the order of their Rayleigh quotients; v follows the
        order."""
        for store, q_store, dim in ((self.left, self.q_left, -2), (self.right, self.q_right, -1)):
            if offset not in q_store:
                q_store[offset] = torch.linalg.eigh(store[offset])[1].flip(-1)
                continue
            q = q_store[offset]
            order = torch.argsort((q * (store[offset] @ q)).sum(-2), dim=-1, descending=True)
            q = torch.gather(q, -1, order.unsqueeze(-2).expand_as(q))
            index = order.unsqueeze(-1) if dim == -2 else order.unsqueeze(-2)
            v.copy_(torch.gather(v, dim, index.expand_as(v)))
            q_store[offset] = torch.linalg.qr(store[offset] @ q)[0]

    def direction(self, g, m, v, controls):
        """The step, to be multiplied by the learning rate, for the flat gradient g; m and v are updated."""
        out = torch.empty_like(g)
        m.lerp_(g, 1 - BETA)
        self.count += 1
        first, second = 1 / (1 - BETA**self.count), controls[2]
        for offset, n, shape, matrix in self.parts:
            gp, mp, vp = (x[offset : offset + n].view(shape) for x in (g, m, v))
            if not matrix:
                vp.lerp_(gp.square(), 1 - BETA_SECOND)
                out[offset : offset + n] = (first * mp / ((vp * second).sqrt() + 1e-8)).flatten()
                continue
            self._statistics(offset, gp)
            if offset not in self.q_left:
                self._rotate_bases(offset, vp)
            ql, qr = self.q_left[offset], self.q_right[offset]
            vp.lerp_((ql.mT @ gp @ qr).square(), 1 - BETA_SECOND)
            step = (first * (ql.mT @ mp @ qr) / ((vp * second).sqrt() + 1e-8)).clamp_(-LARGEST, LARGEST)
            out[offset : offset + n] = (ql @ step @ qr.mT).flatten()
            if self.count % PERIOD == 0:
                self._rotate_bases(offset, vp)
        return out
