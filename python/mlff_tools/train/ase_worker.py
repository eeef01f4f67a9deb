"""Runs a calculator of ASE for mlff label, in the user's Python: needs ASE and nothing of mlff.

Lines of JSON on the pipes that were standard input and output; what the calculator prints goes to standard error.
First line: {"calculator": "module:function", "arguments": {...}}, answered by what it has and by versions. Then
{"frames": [...]}, answered by {"results": [...]}; {"minimise": steps, "frame": {...}}, answered by positions; or
{"dynamics": {...}, "frame": {...}}, answered by a line for each frame kept. The last line of both has the key exploded:
null, or why the run ended early. An answer may be {"error": text}.
"""

import importlib
import json
import os
import sys
import traceback


def pipes():
    """(questions, answers): the pipes, out of the calculator's reach. Modules are found in the current folder, and not
    in that of this script."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [os.getcwd()] + [p for p in sys.path if p and os.path.abspath(p) != here]
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return questions, answers


def versions(module):
    """Versions of this Python, of ASE and of the package that the calculator is from."""
    found = {"python": sys.version.split()[0]}
    for name in ("ase", "numpy", module.split(".")[0]):
        try:
            from importlib.metadata import version

            found[name] = version(name)
        except Exception:
            text = getattr(sys.modules.get(name), "__version__", None)
            if isinstance(text, str):
                found[name] = text
    return found


def start(question):
    """(calculator, answer)"""
    module, _, function = question["calculator"].partition(":")
    made = importlib.import_module(module)
    for name in function.split("."):
        made = getattr(made, name)
    calculator = made(**question["arguments"])
    has = sorted(set(getattr(calculator, "implemented_properties", ["energy", "forces"])))
    place = getattr(sys.modules[module], "__file__", None)
    return calculator, {"has": has, "versions": versions(module), "file": place}


def numbers(value):
    """Lists of floats of an array."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [numbers(x) for x in value] if isinstance(value, (list, tuple)) else float(value)


def optional(ask, **arguments):
    """None where a calculator says that it does not have it."""
    try:
        return numbers(ask(**arguments))
    except Exception as e:
        if "NotImplemented" in type(e).__name__:
            return None
        raise


def structure(calculator, frame):
    from ase import Atoms

    periodic = frame["cell"] is not None
    cell = {"cell": frame["cell"]} if periodic else {}
    atoms = Atoms(symbols=frame["elements"], positions=frame["positions"], pbc=periodic, **cell)
    atoms.calc = calculator
    return atoms


def forget(calculator, depth=4):
    """Makes the calculator, and those that it is made of, compute the next structure even if it is the last one, whose
    results calculators of ASE keep."""
    reset = getattr(calculator, "reset", None)
    if callable(reset):
        reset()
    if isinstance(getattr(calculator, "results", None), dict):
        calculator.results = {}
        calculator.atoms = None
    for name in ("calcs", "calculators", "mixer", "calculator", "calc"):
        part = getattr(calculator, name, None)
        for one in part if isinstance(part, (list, tuple)) else [part]:
            if hasattr(one, "__dict__") and not isinstance(one, type) and depth:
                forget(one, depth - 1)


def label(calculator, has, frame):
    forget(calculator)
    periodic, atoms = frame["cell"] is not None, structure(calculator, frame)
    energy = numbers(atoms.get_potential_energy())
    forces = numbers(atoms.get_forces())
    stress = optional(atoms.get_stress, voigt=True) if periodic and "stress" in has else None
    energies = optional(atoms.get_potential_energies) if "energies" in has else None
    return {"energy": energy, "forces": forces, "stress": stress, "energies": energies}


def minimise(atoms, force, steps):
    from ase.optimize import LBFGS

    LBFGS(atoms, logfile=None, maxstep=0.1).run(fmax=force, steps=steps)


def barostat(atoms, wanted):
    """ASE's dynamics at constant temperature and pressure; pressures are in bar, times in ps."""
    from ase import units

    try:
        from ase.md.nose_hoover_chain import MTKNPT, IsotropicMTKNPT
    except ImportError:
        raise RuntimeError("constant pressure needs ASE 3.25 or newer") from None
    made = {"iso": IsotropicMTKNPT, "tri": MTKNPT}[wanted["cell"]]
    options = {"temperature_K": wanted["temperature"], "pressure_au": wanted["pressure"] * 1e5 * units.Pascal}
    times = {"tdamp": 1000 * wanted["damp"] * units.fs, "pdamp": 1000 * wanted["baro"] * units.fs}
    return made(atoms, timestep=wanted["timestep"] * units.fs, **options, **times)


def equilibrate(atoms, wanted):
    """The dynamics to sample with: cooled from the hot temperature in the first half, at constant volume."""
    import numpy as np
    from ase import units
    from ase.md.langevin import Langevin
    from ase.md.velocitydistribution import MaxwellBoltzmannDistribution, Stationary

    rng, hot = np.random.RandomState(wanted["seed"]), wanted["hot"] or wanted["temperature"]
    MaxwellBoltzmannDistribution(atoms, temperature_K=hot, rng=rng)
    Stationary(atoms)
    friction = 1 / (1000 * wanted["damp"] * units.fs)
    bath = Langevin(atoms, wanted["timestep"] * units.fs, temperature_K=hot, friction=friction, rng=rng)
    half, parts = wanted["equilibrate"] // 2, 20
    for k in range(parts):
        bath.set_temperature(temperature_K=hot + (wanted["temperature"] - hot) * (k + 1) / parts)
        bath.run(half * (k + 1) // parts - half * k // parts)
    sampling = bath if wanted["pressure"] is None else barostat(atoms, wanted)
    sampling.run(wanted["equilibrate"] - half)
    return sampling


def dynamics(atoms, wanted, answer):
    """Gives answer() the kept frames; returns None, or why it ended before the last of them."""
    if wanted["minimise"]:
        force, steps = wanted["minimise"]
        minimise(atoms, force, steps)
    sampling = equilibrate(atoms, wanted)
    for k in range(wanted["frames"]):
        try:
            sampling.run(wanted["every"])
        except Exception as e:
            return f"{type(e).__name__}: {e}"
        temperature = float(atoms.get_temperature())
        if not temperature < wanted["hottest"]:  # NaN, too
            return f"the temperature rose above {wanted['hottest']:.0f} K"
        cell = numbers(atoms.cell.tolist()) if atoms.pbc.all() else None
        answer({"step": (k + 1) * wanted["every"], "positions": numbers(atoms.positions), "cell": cell})
    return None


def move(calculator, has, question, answer):
    """Dynamics or minimisation, the last answer of which is returned."""
    atoms = structure(calculator, question["frame"])
    if "minimise" in question:
        minimise(atoms, 0.0, question["minimise"])
        return {"positions": numbers(atoms.positions), "exploded": None}
    if question["dynamics"]["pressure"] is not None and "stress" not in has:
        raise RuntimeError("the calculator has no stress, which a pressure needs")
    return {"exploded": dynamics(atoms, question["dynamics"], answer)}


def main():
    calculator = has = None
    questions, answers = pipes()

    def write(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    for line in questions:
        question = json.loads(line)
        try:
            if calculator is None:
                calculator, answer = start(question)
                has = answer["has"]
            elif "frame" in question:
                answer = move(calculator, has, question, write)
            else:
                answer = {"results": [label(calculator, has, frame) for frame in question["frames"]]}
        except ModuleNotFoundError as e:
            answer = {"error": str(e)}
        except Exception:
            answer = {"error": "\n" + traceback.format_exc(limit=-3).strip()}
        write(answer)


if __name__ == "__main__":
    main()
