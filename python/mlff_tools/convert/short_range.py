"""The short-range repulsion that `mlff convert --repulsion` adds: block `repulsion` of kind clamped.

The shortest distances of the published training sets are not known. The cutoff of a pair is SHARE of the sum of two
radii, the smallest published covalent radius of each element for single, double and triple bonds. 0.8 is below every
bond: the shortest ones are 0.82 (Cr2), 0.88 (LiF, KF) and 1.00 (CO) of the sum, and those of crystals at tens of GPa
are longer.
"""

import numpy as np

from ..model import modelfile, reference
from ..model.modelfile import ModelError
from ..model.structures import read_xyz

SHARE = 0.8
# P. Pyykko, M. Atsumi, Chem. Eur. J. 15, 186 and 12770 (2009); P. Pyykko, S. Riedel, M. Patzschke, ibid. 11, 3511
# (2005)
_RADII_PM = (
    "H 32 He 46 Li 124 Be 85 B 73 C 60 N 54 O 53 F 53 Ne 67 Na 155 Mg 127 Al 111 Si 102 P 94 S 94 Cl 93 "
    "Ar 96 K 193 Ca 133 Sc 114 Ti 108 V 106 Cr 103 Mn 103 Fe 102 Co 96 Ni 101 Cu 112 Zn 118 Ga 117 "
    "Ge 111 As 106 Se 107 Br 109 Kr 108 Rb 202 Sr 139 Y 124 Zr 121 Nb 116 Mo 113 Tc 110 Ru 103 Rh 106 "
    "Pd 112 Ag 128 Cd 136 In 136 Sn 130 Sb 127 Te 121 I 125 Xe 122 Cs 209 Ba 149 La 139 Ce 131 Pr 128 "
    "Nd 137 Pm 135 Sm 134 Eu 134 Gd 132 Tb 135 Dy 133 Ho 133 Er 133 Tm 131 Yb 129 Lu 131 Hf 122 Ta 119 "
    "W 115 Re 110 Os 109 Ir 107 Pt 110 Au 121 Hg 133 Tl 142 Pb 135 Bi 135 Po 129 At 138 Rn 133 Fr 218 "
    "Ra 159 Ac 140 Th 136 Pa 129 U 118 Np 116 Pu 135 Am 135 Cm 136"
)
RADII = {e: float(pm) / 100 for e, pm in zip(_RADII_PM.split()[::2], _RADII_PM.split()[1::2])}  # A
BELOW_FRAMES = 0.98  # of the shortest distance in the user's frames
MIN_DISTANCE = 0.3  # A: closer atoms are an error


def _radii(elements):
    strange = [e for e in elements if e not in RADII]
    if strange:
        raise ModelError(f"--repulsion: no covalent radius of {', '.join(strange)}; convert without it")
    return {e: round(SHARE * RADII[e], 4) for e in elements}


def _shortest(path, elements, reach):
    """{(element, element): shortest distance, A} of pairs of the model within reach in the frames of an XYZ file."""
    index, found = {e: k for k, e in enumerate(elements)}, np.full((len(elements), len(elements)), np.inf)
    for s in read_xyz(path):
        inside = [k for k, e in enumerate(s["elements"]) if e in index]
        if not inside:
            continue
        species = np.array([index[s["elements"][k]] for k in inside], int)
        i, j, vectors = reference.neighbours(s["positions"][inside], s["cell"], reach)
        np.minimum.at(found, (species[i], species[j]), np.linalg.norm(vectors, axis=1))
    found = np.minimum(found, found.T)
    pairs = [(a, b) for a in range(len(elements)) for b in range(a, len(elements)) if np.isfinite(found[a, b])]
    if not pairs:
        raise ModelError(f"--repulsion {path}: no two atoms of the model's elements are within {reach:g} A")
    return {(elements[a], elements[b]): float(found[a, b]) for a, b in pairs}


def block(head, frames=None):
    """The block for a model, whose pairs in the XYZ file `frames` have no repulsion at their distances there."""
    if "repulsion" in head:
        raise ModelError(
            f"--repulsion: the model has a repulsion of kind {head['repulsion']['kind']}; convert without it"
        )
    made = {"kind": "clamped", "radii": _radii(head["elements"])}
    cutoffs = modelfile.repulsion_cutoffs({**head, "repulsion": made})
    shorter = {}
    for (a, b), distance in _shortest(frames, head["elements"], head["cutoff"]).items() if frames else ():
        cutoff = float(np.floor(1000 * BELOW_FRAMES * distance) / 1000)
        if cutoff < cutoffs[a, b]:
            shorter[f"{a}-{b}"] = cutoff
    return {**made, "cutoffs": shorter} if shorter else made


def check_distance(head, distance):
    """ModelError unless atoms may come closer than the repulsion of every pair."""
    pair, cutoff = min(modelfile.repulsion_cutoffs(head).items(), key=lambda item: item[1])
    if distance >= cutoff:
        raise ModelError(
            f"--min-distance {distance:g}: the repulsion of {'-'.join(pair)} begins at {cutoff:g} A and would never "
            "act; use a shorter distance"
        )
