"""Runs a calculator of ASE for mlff label, in the user's Python: needs ASE and nothing of mlff.

Lines of JSON on the pipes that were standard input and output; what the calculator prints goes to standard error.
First line: {"calculator": "module:function", "arguments": {...}}, answered by what it has and by versions. Then
{"frames": [...]}, answered by {"results": [...]}. An answer may be {"error": text}.
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


def label(calculator, has, frame):
    from ase import Atoms

    periodic = frame["cell"] is not None
    cell = {"cell": frame["cell"]} if periodic else {}
    atoms = Atoms(symbols=frame["elements"], positions=frame["positions"], pbc=periodic, **cell)
    atoms.calc = calculator
    energy = numbers(atoms.get_potential_energy())
    forces = numbers(atoms.get_forces())
    stress = optional(atoms.get_stress, voigt=True) if periodic and "stress" in has else None
    energies = optional(atoms.get_potential_energies) if "energies" in has else None
    return {"energy": energy, "forces": forces, "stress": stress, "energies": energies}


def main():
    calculator = has = None
    questions, answers = pipes()
    for line in questions:
        question = json.loads(line)
        try:
            if calculator is None:
                calculator, answer = start(question)
                has = answer["has"]
            else:
                answer = {"results": [label(calculator, has, frame) for frame in question["frames"]]}
        except Exception:
            answer = {"error": traceback.format_exc(limit=-3).strip()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
