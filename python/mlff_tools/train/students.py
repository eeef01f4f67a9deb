"""What a student is: the network of a size or of a recipe's section student, as the keys architecture and model of a
configuration (training.py)."""

import math

from ..model.modelfile import ModelError

# Added to norms of vectors. Norms vanish on sites of cubic symmetry, where a smaller value leaves a kink in the energy
# and phonons that depend on the displacement.
EPSILON = 1.0e-2
SPACING = 0.125  # A between splines: 0.25 A cost water 1 meV/A
# Features, layers and cutoff (A); training steps, which take about 10 minutes on one core (xs).
SIZES = {
    "inner": {"features": 16, "layers": 1, "cutoff": 3.0, "steps": 8000},
    "xs": {"features": 32, "layers": 2, "cutoff": 5.0, "steps": 36000},
    "s": {"features": 64, "layers": 2, "cutoff": 5.0, "steps": 30000},
    "m": {"features": 128, "layers": 3, "cutoff": 5.0, "steps": 40000},
}
ANI = {
    "members": 4,
    "hidden": [64, 48, 32],
    "cutoff": 5.0,
    "angular_cutoff": 3.5,
    "nearest": 0.7,
    "radial": 10,
    "angular": 4,
    "sections": 4,
    "steps": 20000,
}
MACE = {"lmax": 3, "correlation": 3, "cutoff": 5.0, "radial": 10, "steps": 40000}
MACE_SIZES = {
    "xs": {"channels": 16, "readout": 16},
    "s": {"channels": 32, "readout": 32},
    "m": {"channels": 64, "readout": 32},
}
CITATIONS = {
    "painn": "K. T. Schuett, O. T. Unke, M. Gastegger, ICML 2021, PMLR 139, 9377 (architecture)",
    "mace": "I. Batatia et al., NeurIPS 2022, arXiv:2206.07697 (architecture)",
    "ani": "J. S. Smith, O. Isayev, A. E. Roitberg, Chem. Sci. 8, 3192 (2017) (architecture)",
}


def filled(student):
    """The section student with all its defaults."""
    if student.get("architecture") == "ani":
        return {**ANI, **student}
    if student.get("architecture") == "mace":
        return {**MACE, **MACE_SIZES[student.get("size", "xs")], **student}
    size = SIZES[student.get("size", "xs")]
    out = {**size, "spacing": SPACING, **student}
    out.setdefault("readout", max(8, out["features"] // 2))
    return out


def network(student, elements):
    """{architecture, model} of the section student for these elements."""
    wanted = filled(student)
    if wanted.get("architecture") == "ani":
        return {"architecture": "ani", "model": _ani(wanted, elements)}
    if wanted.get("architecture") == "mace":
        return {"architecture": "mace", "model": _mace(wanted)}
    n = round(wanted["cutoff"] / wanted["spacing"])
    if n < 4:
        raise ModelError(f"cutoff {wanted['cutoff']} A with splines each {wanted['spacing']} A: at least 4 are needed")
    model = {
        "n_features": wanted["features"],
        "n_interactions": wanted["layers"],
        "n_readout": wanted["readout"],
        "radial_basis": {"kind": "bspline", "n": n},
        "cutoff": float(wanted["cutoff"]),
        "epsilon": EPSILON,
    }
    return {"architecture": "painn", "model": model}


def _shifts(first, cutoff, n):
    """{shifts, eta} of n Gaussians in steps of d from `first`, the last one d before the cutoff, 0.6 d wide."""
    d = (cutoff - first) / n
    return {"shifts": [round(first + k * d, 6) for k in range(n)], "eta": round(1 / (2 * (0.6 * d) ** 2), 6)}


def _mace(wanted):
    return {
        **{key: wanted[key] for key in ("channels", "lmax", "correlation", "readout")},
        "radial_basis": {"kind": "bessel", "n": wanted["radial"]},
        "cutoff": float(wanted["cutoff"]),
    }


def _ani(wanted, elements):
    cutoff, angular_cutoff, nearest, n = (wanted[k] for k in ("cutoff", "angular_cutoff", "nearest", "sections"))
    return {
        "n_members": wanted["members"],
        "radial": {"cutoff": float(cutoff), "prefactor": 0.25, **_shifts(nearest, cutoff, wanted["radial"])},
        "angular": {
            "cutoff": float(angular_cutoff),
            # of ANI-2x with 4 sections: 14.1, of ANI-1x with 8: 32
            "zeta": round(14.1 * (n / 4) ** 1.2, 6),
            "cos_scale": 0.95,
            "prefactor": 2.0,
            "sections": [round((k + 0.5) * math.pi / n, 7) for k in range(n)],
            **_shifts(nearest, angular_cutoff, wanted["angular"]),
        },
        "activation": {"kind": "celu", "alpha": 0.1},
        "hidden": {e: list(wanted["hidden"]) for e in elements},
    }
