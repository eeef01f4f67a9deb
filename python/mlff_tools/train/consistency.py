"""Labels against each other: differences of energies against the work of forces and of strain, and the scale of both.

A pair is two frames of the same elements that are close: between them the trapezoidal rule gives
  dE = W + S,  W = -1/2 sum over both of F . dx,  S = 1/2 sum over both of V stress : strain
with dx at fixed cell and the strain from one cell to the other. S has three parts: of the volume, of the lengths of the
axes, of the angles. All pairs together give the factor of W and of each part by weighted least squares. Each is 1 when
units, signs and the order of components are right. docs/distillation.md has the limits.

Force constants k change with the volume. The rule leaves open a share of k dx^2 times the strain of the volume, which
is as large as S where atoms are rattled by 0.1 A. Its coefficient is fitted as well.
"""

import typing

import numpy as np

from ..model.units import GPA
from .extxyz import FrameError, tag

FEWEST = 5  # pairs that decide, of more frames
FAR = 0.6  # A: no atom of a pair moves further along an axis
WIDE, WIDE_OPEN = 0.15, 0.10  # A: root mean square displacement of a pair, periodic and open
STRAIN = 0.07  # largest component of the strain of a pair
BLOCK = 1000  # frames among which close ones are searched
MOST = 400  # pairs of one check
NOISE = 0.05  # error of the trapezoidal rule as a share of its curvature
AFTER = 3  # frames after each one that it is paired with
UNEXPLAINED = 0.45  # share of energy, work and curvature of the median pair that nothing explains; at most 0.2 if right
AT_REST = 0.01  # A: pairs below differ by their cells alone
UNEXPLAINED_AT_REST = 0.15  # of those; at most 0.03 if right
MINOR = 0.2  # share of the strain work up to which it may hide the work of the forces
RATIO, RATIO_SURE = 3.0, 1.5  # by which a factor may differ from 1, and one that is known to SURE
DECIDED, SURE = 0.15, 0.05  # standard error of a factor up to which it is known
LIMIT = 100.0  # GPa: a stress beyond it must be confirmed
STRESS = "stress must be in eV/A^3, positive when stretched, in the order xx yy zz yz xz xy"
PARTS = ("volume", "lengths of the axes", "angles of the axes")  # of a cell
# Energy of a free atom in hartree (exact, without relativity): what all-electron programs print
ALL_ELECTRON = dict(
    zip(
        "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar".split(),
        (0.5, 2.9037, 7.478, 14.667, 24.654, 37.845, 54.589, 75.067, 99.734, 128.938)
        + (162.255, 200.053, 242.346, 289.359, 341.259, 398.110, 460.148, 527.540),
    )
)
UNITS = {"hartree": 27.2114, "kcal/mol": 1 / 23.0605, "kJ/mol": 1 / 96.4853, "rydberg": 13.6057}


class Pairs(typing.NamedTuple):
    """What is known of n pairs, in eV: energy and work [n], curvature [n] (the change of the work along the way),
    coupling [n] (curvature times the strain of the volume), strain_work [n, 3] of PARTS, strain_curvature [n], floor
    [n] (noise of an energy); first and second [n]: indices of the frames, size [n]: root mean square displacement
    (A), direction: list of unit vectors."""

    energy: np.ndarray
    work: np.ndarray
    curvature: np.ndarray
    coupling: np.ndarray
    strain_work: np.ndarray
    strain_curvature: np.ndarray
    floor: np.ndarray
    size: np.ndarray
    first: np.ndarray
    second: np.ndarray
    direction: list


def _strain_parts(frame, strain):
    """V stress : strain in the three PARTS, eV."""
    work = abs(np.linalg.det(frame["cell"])) * frame["stress"] * (strain + strain.T) / 2
    pressure = np.trace(frame["stress"]) / 3 * np.trace(strain) * abs(np.linalg.det(frame["cell"]))
    return np.array([pressure, np.trace(work) - pressure, work.sum() - np.trace(work)])


def _moved(a, b):
    """(displacement in the cell of a, in that of b, strain of a, strain of b): A, the nearest images."""
    if a["cell"] is None:
        moved = b["positions"] - a["positions"]
        return moved, moved, None, None
    inverse_a, inverse_b = np.linalg.inv(a["cell"]), np.linalg.inv(b["cell"])
    fraction = b["positions"] @ inverse_b - a["positions"] @ inverse_a
    fraction -= np.round(fraction)
    change = b["cell"] - a["cell"]
    return fraction @ a["cell"], fraction @ b["cell"], inverse_a @ change, inverse_b @ change


def _pair(a, b):
    """The numbers of one pair in the order of Pairs; None when the frames are not close or have too few labels."""
    in_a, in_b, strain_a, strain_b = _moved(a, b)
    size = float(np.sqrt((in_a**2).mean()))
    if size > (WIDE_OPEN if a["cell"] is None else WIDE) or np.abs(in_a).max() > FAR:
        return None
    strained, curved, volume = np.zeros(3), 0.0, 0.0
    if strain_a is not None and np.abs(strain_a).max() > 1e-8:
        if a["stress"] is None or b["stress"] is None or np.abs(strain_a).max() > STRAIN:
            return None
        begin, end = _strain_parts(a, strain_a), _strain_parts(b, strain_b)
        strained, curved = (begin + end) / 2, float((end - begin).sum()) / 2
        volume = float(np.trace(strain_a) + np.trace(strain_b)) / 2
    at_a, at_b = (float((f["forces"] * d).sum()) for f, d in ((a, in_a), (b, in_b)))
    norm = np.linalg.norm(in_a)
    floor = 1e-3 + 2e-5 * len(in_a) + 5e-7 * abs(a["energy"])
    energy = b["energy"] - a["energy"]
    if max(abs(energy), abs(at_a), abs(at_b), *np.abs(strained)) < floor:
        return None
    work = -(at_a + at_b) / 2
    curvature = (at_a - at_b) / 2
    return energy, work, curvature, curvature * volume, strained, curved, floor, size, in_a.ravel() / max(norm, 1e-12)


def _neighbours(frames, mine):
    """Pairs of indices of frames: each with the next ones of its block, and with the nearest one."""
    cell = frames[mine[0]]["cell"]
    x = np.array([frames[k]["positions"] for k in mine])
    if cell is not None:
        fraction = np.array([f @ np.linalg.inv(frames[k]["cell"]) for f, k in zip(x, mine)])
        x = (fraction - fraction[0] - np.round(fraction - fraction[0])) @ cell
    x = (x - x[0]).reshape(len(mine), -1)
    square = (x**2).sum(1)
    apart = square[:, None] + square - 2 * x @ x.T
    np.fill_diagonal(apart, np.inf)
    found = {(k, k + n) for n in range(1, AFTER + 1) for k in range(len(mine) - n)}
    found |= {(min(k, n), max(k, n)) for k, n in enumerate(apart.argmin(1).tolist())}
    return [(mine[a], mine[b]) for a, b in sorted(found)]


def pairs(frames):
    """Pairs of close frames, at most MOST of them, the closest first; None without any."""
    groups = {}
    for k, f in enumerate(frames):
        groups.setdefault((tuple(f["elements"]), f["cell"] is None), []).append(k)
    found = []
    for mine in groups.values():
        for begin in range(0, len(mine), BLOCK):
            block = mine[begin : begin + BLOCK]
            if len(block) > 1:
                candidates = _neighbours(frames, block)
                found += [(*p[:-1], a, b, p[-1]) for a, b in candidates if (p := _pair(frames[a], frames[b]))]
    found = sorted(found, key=lambda p: p[7])[:MOST]
    if not found:
        return None
    columns = list(zip(*found))
    return Pairs(*(np.array(c) for c in columns[:-1]), columns[-1])


def factors(close_pairs):
    """(factor, standard error) of the work and of the three parts of the strain work [4]; NaN where they have none.

    The coupling of curvature and volume, which the trapezoidal rule leaves open, has a coefficient of its own.
    Least squares, each pair weighted by what the trapezoidal rule leaves open; errors are robust (HC3)."""
    sigma = NOISE * (np.abs(close_pairs.curvature) + np.abs(close_pairs.strain_curvature)) + close_pairs.floor
    x = np.column_stack([close_pairs.work, close_pairs.strain_work, close_pairs.coupling]) / sigma[:, None]
    y, known = close_pairs.energy / sigma, (x**2).sum(0) > 25.0
    out, error = np.full(5, np.nan), np.full(5, np.nan)
    if not known.any() or len(y) < FEWEST - 1 + known.sum():
        return out[:4], error[:4]
    x = x[:, known]
    inverse = np.linalg.pinv(x.T @ x)
    fit = inverse @ x.T @ y
    leverage = np.clip(np.einsum("ij,jk,ik->i", x, inverse, x), 0, 0.99)
    left = (y - x @ fit) / (1 - leverage)
    out[known], error[known] = fit, np.sqrt(np.diag(inverse @ (x.T * left**2) @ x @ inverse))
    return out[:4], error[:4]


def unexplained(close_pairs, fit, error):
    """The share that neither work nor strain work explains, of the median of the closest pairs that move, and of the
    median pair at rest. About 0 when labels are right, 1 when they have nothing to do with each other."""
    strain = np.where(error[1:] < DECIDED, fit[1:], 1.0)
    of_forces = close_pairs.energy - close_pairs.strain_work @ strain
    left, moves = np.abs(of_forces - close_pairs.work), close_pairs.size >= AT_REST
    strained = np.abs([close_pairs.strain_curvature, *close_pairs.strain_work.T]).max(0)
    scale = np.abs([of_forces, close_pairs.work, close_pairs.curvature, MINOR * strained]).max(0)
    moving = left[moves] / np.maximum(scale, close_pairs.floor)[moves]
    resting = left[~moves] / np.maximum(np.maximum(np.abs(close_pairs.energy), strained), close_pairs.floor)[~moves]
    kinds = moving[: max(FEWEST, len(moving) // 4)], resting
    return tuple(float(np.median(k)) if len(k) >= FEWEST else 0.0 for k in kinds)


def is_upside_down(close_pairs):
    """Whether forces push atoms away from where they are bound, in directions of all kinds: energy and forces have
    the wrong sign. Scans along one path, as over a saddle point, do not count."""
    curved = np.nonzero(np.abs(close_pairs.curvature) > close_pairs.floor)[0]
    if len(curved) < FEWEST or (close_pairs.curvature[curved] < 0).mean() < 0.9:
        return False
    mine = [close_pairs.direction[k] for k in curved]
    apart = [abs(float(a @ b)) for a, b in zip(mine, mine[1:]) if len(a) == len(b)]
    return len(apart) >= FEWEST - 1 and float(np.mean(apart)) < 0.7


def _is_off(factor, error):
    """Whether a factor is not 1: by far, or when it is known well also by less."""
    if not np.isfinite(factor) or abs(factor - 1) < 4 * error:
        return False
    ratio = RATIO_SURE if error < SURE * max(1.0, abs(factor)) else RATIO
    return not 1 / ratio < factor < ratio


def check(frames, limit=None):
    """Notes on what the frames cannot decide; FrameError when energies, forces and stress do not fit each other or have
    another scale. limit: of a stress that nothing confirms (GPa)."""
    notes, known = check_work(frames)
    check_sums(frames)
    if not known:
        check_stress_limit(frames, limit)
    return notes


def check_work(frames):
    """(notes on what the frames cannot decide, whether the stress is known to be right); FrameError when energies,
    forces and stress do not fit each other."""
    close_pairs = pairs(frames)
    n = 0 if close_pairs is None else len(close_pairs.energy)
    _check_zeros(frames)
    if n < FEWEST or len(np.unique([close_pairs.first, close_pairs.second])) <= FEWEST:
        text = f"{n} pairs of frames are close to each other" if n else "no two frames are close to each other"
        return [f"{text}: energies, forces and stress were not compared ({FEWEST} pairs decide)"], False
    fit, error = factors(close_pairs)
    where = f"{frames[int(close_pairs.first[0])]['source']} and the frames near it"
    share, resting = unexplained(close_pairs, fit, error)
    also = ", or the stress is wrong" if close_pairs.strain_work.any() else ""
    scaled = close_pairs._replace(work=fit[0] * close_pairs.work, curvature=fit[0] * close_pairs.curvature)
    if _is_off(fit[0], error[0]) and min(share, unexplained(scaled, fit, error)[0]) < UNEXPLAINED:
        raise FrameError(
            f"{where}: from frame to frame the energies change by {fit[0]:.4g} times the work of the forces, which "
            "should be 1: energies must be in eV and forces in eV/A (hartree with eV/A gives 0.0367, kcal/mol 23.1, "
            "hartree with hartree/bohr 1.89, forces of the wrong sign -1, of other atoms about 0)"
        )
    if share > UNEXPLAINED:
        raise FrameError(
            f"{where}: the work of the forces leaves {100 * share:.0f} % of the change of the energies open, in the "
            f"median of {n} pairs of close frames: the forces are not those of these energies{also}. Check the order "
            "of the atoms, the columns, and whether all frames have one reference energy"
        )
    if is_upside_down(close_pairs):
        raise FrameError(
            f"{where}: the forces drive the atoms away from where they are bound, in {n} pairs of close frames: "
            "energies and forces both have the wrong sign"
        )
    notes = _check_stress(frames, fit, error)
    if resting > UNEXPLAINED_AT_REST:
        raise FrameError(
            f"{where}: the work of the stress leaves {100 * resting:.0f} % of the change of the energies open, in the "
            f"median of the pairs of frames that differ by their cells: {STRESS}"
        )
    return notes, bool(error[1] < DECIDED)


def _check_zeros(frames):
    stressed = [f for f in frames if f["stress"] is not None]
    if stressed and not any(f["stress"].any() for f in stressed):
        raise FrameError(f"{stressed[0]['source']}: the stress of every frame is zero: take the key off")


def _check_stress(frames, fit, error):
    for factor, off, part in zip(fit[1:], error[1:], PARTS):
        if _is_off(factor, off):
            raise FrameError(
                f"{frames[0]['source']} and the frames after it: with the {part} of the cell, the energy changes by "
                f"{factor:.4g} times the work of the stress, which should be 1 (GPa gives 0.00624, kbar -0.000624, the "
                f"wrong sign -1): {STRESS}"
            )
    stressed = any(f["stress"] is not None for f in frames)
    open_ = [part for part, off in zip(PARTS, error[1:]) if not off < DECIDED]
    if not stressed or not open_:
        return []
    return [f"too few close frames differ in the {', the '.join(open_)}: the stress was not compared in these"]


def check_stress_limit(frames, limit=None):
    """FrameError for a stress beyond 100 GPa, or what the frame or the caller confirms (GPa)."""
    for f in frames:
        if f["stress"] is None:
            continue
        largest = GPA * float(np.abs(f["stress"]).max())
        try:
            confirmed = float(tag(f, "stress_limit", limit or LIMIT))
        except ValueError as e:
            raise FrameError(f"{f['source']}: stress_limit is not a number of GPa") from e
        if largest > max(confirmed, limit or LIMIT):
            raise FrameError(
                f"{f['source']}: a stress of {largest:.4g} GPa: is it in eV/A^3 (1 GPa is 0.00624)? If it is right, "
                f"confirm it by stress_limit {np.ceil(largest):.0f}: a key of the frame or of a recipe's teacher, or "
                "--stress-limit of mlff label"
            )


def confirmed_limit(frame):
    """[(key, text)] that confirms the stress of a frame of checked labels where it is beyond 100 GPa, else []."""
    largest = 0.0 if frame["stress"] is None else GPA * float(np.abs(frame["stress"]).max())
    return [("stress_limit", f"{np.ceil(largest):.0f}")] if largest > LIMIT else []


def energies_of_elements(frames):
    """{element: energy} that the energies are sums of, by least squares; {} where the compositions do not tell."""
    elements = sorted({e for f in frames for e in f["elements"]})
    kinds = {tuple(f["elements"].count(e) for e in elements): f for f in frames}
    counts = np.array(list(kinds), float)
    if np.linalg.matrix_rank(counts) < len(elements):
        return {}
    energy = np.array([f["energy"] for f in kinds.values()])
    return dict(zip(elements, np.linalg.lstsq(counts, energy, rcond=None)[0].tolist()))


def check_scale(free, where):
    """FrameError when energies of free atoms {element: number} are those of all-electron programs in other units."""
    heavy = {e: v for e, v in free.items() if ALL_ELECTRON.get(e, 0) > 5}
    for unit, size in UNITS.items():
        wanted = {e: -ALL_ELECTRON[e] * UNITS["hartree"] / size for e in heavy}
        if heavy and all(abs(v / wanted[e] - 1) < 0.02 for e, v in heavy.items()):
            e, value = next(iter(heavy.items()))
            raise FrameError(
                f"{where}: an atom of {e} has an energy of {value:.6g}, which is that of all its electrons in {unit}: "
                "energies must be in eV and forces in eV/A"
            )


def check_sums(frames):
    """check_scale for labels: of the energies per element; one formula of several elements is compared as a whole."""
    found = energies_of_elements(frames)
    if found:
        return check_scale(found, f"{frames[0]['source']} and the frames after it")
    for f in frames[:: max(1, len(frames) // 10)]:
        known = [ALL_ELECTRON.get(e) for e in f["elements"]]
        if None not in known and max(known) > 5:
            for unit, size in UNITS.items():
                if abs(f["energy"] / (-sum(known) * UNITS["hartree"] / size) - 1) < 0.02:
                    raise FrameError(
                        f"{f['source']}: an energy of {f['energy']:.8g} is that of all electrons in {unit}: energies "
                        "must be in eV and forces in eV/A"
                    )
    return None
