"""Potentials that move atoms: pair styles and model files by LAMMPS, calculators by ASE.

A potential has
  identity(frame)                  hash of what decides its forces for a frame with these elements
  dynamics(start, plan, work)      ([(step, positions, cell)], None or why it ended early), by dynamics.py's plan;
                                   work: a folder for its files
  minimised(frame, steps, work)    positions after at most so many steps of minimisation
  close()                          ends its processes
  jobs                             trajectories at a time, unless the user says so
"""

import dataclasses
import os
import queue
import threading
import typing

import numpy as np

from ..model import lammps
from ..model.files import write_input
from ..model.modelfile import ModelError, find_model, model_paths, read_head
from .lammps_data import data_text, parse_dump
from .teacher_ase import AseTeacher
from .teacher_lammps import commands_digest, split_commands, types_of, version
from .teachers import TIMEOUT, digest, network_digest

DAMP, BARO = 0.1, 1.0  # ps: relaxation times of temperature and pressure
LIMIT, SETTLE = 0.1, 0.02  # A and ps: largest step and relaxation time while a start settles
MINIMISE = (0.05, 200)  # eV/A and steps, of what dynamics starts from
BEGINS = "mlff-dynamics-begins"


class DynamicsError(ModelError):
    """A trajectory that cannot be run; the text names it and says why."""


@dataclasses.dataclass
class Programs:
    """Programs that trajectories are run with; None: found where they usually are. jobs: trajectories at a time."""

    lmp: typing.Optional[str] = None
    mlff: typing.Optional[str] = None
    plugin: typing.Optional[str] = None
    python: typing.Optional[str] = None
    jobs: typing.Optional[int] = None


def hottest(plan, n_atoms):
    """K above which a run has exploded: five times what is wanted, and more where few atoms fluctuate."""
    return max(plan["temperature"], plan["hot"] or 0.0) * (5.0 + 50.0 / n_atoms)


class LammpsPotential:
    """Commands of LAMMPS as those of a teacher, in the folder `place`. types: elements of types 1, 2, ... or None."""

    jobs = lammps.processors()

    def __init__(self, commands, types=None, place=".", programs=None):
        self.commands, self.types, self.place = commands, types, place
        self.lmp = lammps.find_lmp((programs or Programs()).lmp)
        self.before, self.after, self.units, self.style = split_commands(commands)
        self.ps, self.bar, self.eV = {"metal": (1.0, 1.0, 1.0), "real": (1000.0, 1 / 1.01325, 23.060549)}[self.units]
        self.version, self.closed = version(self.lmp), False

    def types_of(self, frame):
        types = types_of(self.commands, self.types, [frame])
        unknown = sorted(set(frame["elements"]) - set(types))
        if unknown:
            raise DynamicsError(f"{frame['source']}: element {unknown[0]} is not one of {' '.join(types)}")
        return types

    def identity(self, frame):
        return digest(commands_digest(self.commands, self.types_of(frame), self.place, self.lmp), self.version)

    def _begin(self, frame, work, tilted=None):
        """Commands up to the potential; writes the data file."""
        types = self.types_of(frame)
        path = os.path.join(work, "start.data")
        write_input(path, data_text(frame, types, self.style, tilted=tilted))
        return [
            f"units {self.units}",
            f"atom_style {self.style}",
            "atom_modify map array sort 0 0.0",
            *self.before,
            "boundary " + ("m m m" if frame["cell"] is None else "p p p"),
            f"read_data {lammps.quoted(path)}",
            f'variable elements string "{" ".join(types)}"',
            "neighbor 1.0 bin",
            "neigh_modify every 1 delay 0 check yes",
            *self.after,
            "thermo 100",
            "thermo_modify flush yes",
        ]

    def _run(self, commands, frame, work):
        """Output of LAMMPS and None, or its error once dynamics has begun; DynamicsError for one before."""
        write_input(os.path.join(work, "in.lmp"), "\n".join(commands) + "\n")
        words = [self.lmp, "-in", os.path.join(work, "in.lmp"), "-log", os.path.join(work, "log.lammps"), "-nocite"]
        options = lammps.process_options(self.lmp, self.place)
        status, text = lammps.watched(words, lambda: self.closed, **options)
        if status == 0:
            return None
        errors = lammps.errors_in(text)
        where = f" (its log: {os.path.join(work, 'log.lammps')})"
        if status is None or status < 0 or not errors or BEGINS not in text.split("\n"):
            why = errors[0] if errors else f"ended with status {status}"
            if "Unrecognized pair style 'mlff'" in why:
                why += ": there is no mlffplugin.so: give --plugin or $MLFF_PLUGIN, or install the package"
            raise DynamicsError(f"{frame['source']}: LAMMPS: {why}{where}")
        return errors[0]

    def _dump(self, frame, work, name):
        path = os.path.join(work, name)
        if not os.path.exists(path):
            return []
        with open(path, encoding="ascii") as f:
            return parse_dump(f.read(), frame)

    def _move(self, plan, seed):
        """Commands of the equilibration: from the hot temperature down in its first half, at constant volume. There no
        atom moves by more than LIMIT in a step, and friction is strong, so that a box that was packed settles."""
        t, hot, half = plan["temperature"], plan["hot"] or plan["temperature"], plan["equilibrate"] // 2
        damp = DAMP * self.ps
        strong = damp if plan["hot"] else SETTLE * self.ps
        out = [f"fix mlff_move all nve/limit {LIMIT}"]
        out += [f"fix mlff_bath all langevin {hot!r} {t!r} {strong!r} {seed + 1}", f"run {half}"]
        out += ["unfix mlff_bath", "unfix mlff_move"]
        if plan["pressure"] is None:
            out += ["fix mlff_move all nve", f"fix mlff_bath all langevin {t!r} {t!r} {damp!r} {seed + 2}"]
        else:
            p, shape = plan["pressure"] * self.bar, plan["cell"]
            fix = f"fix mlff_move all npt temp {t!r} {t!r} {damp!r} {shape} {p!r} {p!r} {BARO * self.ps!r}"
            out.append(fix)
        return [*out, f"run {plan['equilibrate'] - half}"]

    def dynamics(self, start, plan, work):
        n, seed, step = len(start["elements"]), plan["seed"], plan["timestep"] / 1000 * self.ps
        hot = plan["hot"] or plan["temperature"]
        force, steps = MINIMISE
        path = os.path.join(work, "frames.dump")
        rotation = "yes" if start["cell"] is None else "no"
        tilted = True if plan["pressure"] is not None and plan["cell"] == "tri" else None
        commands = [
            *self._begin(start, work, tilted),
            "run 0 post no",
            f'print "{BEGINS}"',
            *([f"minimize 0.0 {force * self.eV!r} {steps} {10 * steps}"] if plan["minimise"] else []),
            "reset_timestep 0",
            f"timestep {step!r}",
            f"velocity all create {hot!r} {seed} mom yes rot {rotation} dist gaussian",
            "variable mlff_temp equal temp",
            f"fix mlff_halt all halt 10 v_mlff_temp > {hottest(plan, n)!r} error hard",
            *self._move(plan, seed),
            "reset_timestep 0",
            f"dump mlff_frames all custom {plan['every']} {lammps.quoted(path)} id xu yu zu",
            'dump_modify mlff_frames sort id format float "%.9f"',
            f"run {plan['frames'] * plan['every']}",
        ]
        error = self._run(commands, start, work)
        found = [f for f in self._dump(start, work, "frames.dump") if f[0] > 0]
        if error is None and len(found) != plan["frames"]:
            raise DynamicsError(f"LAMMPS wrote {len(found)} of {plan['frames']} frames: is the disk full?")
        numbers = next((k for k, f in enumerate(found) if not np.isfinite(f[1]).all()), len(found))
        if numbers < len(found):
            found, error = found[:numbers], error or f"NaN or infinity in step {found[numbers][0]}"
        if plan["pressure"] is None:
            found = [(k, x, start["cell"]) for k, x, _ in found]
        if error and "Fix halt" in error:
            error = f"the temperature rose above {hottest(plan, n):.0f} K"
        return found, error

    def minimised(self, frame, steps, work):
        out = lammps.quoted(os.path.join(work, "out.dump"))
        commands = [
            *self._begin(frame, work),
            f"minimize 0.0 0.0 {steps} {10 * steps}",
            f"write_dump all custom {out} id xu yu zu modify sort id format float %.9f",
        ]
        self._run(commands, frame, work)
        ((_, x, _),) = self._dump(frame, work, "out.dump")
        if not np.isfinite(x).all():
            raise DynamicsError(f"{frame['source']}: NaN or infinity after minimisation")
        return x

    def close(self):
        self.closed = True


class ModelPotential(LammpsPotential):
    """A model file, by pair_style mlff."""

    def __init__(self, model, precision="fp32", programs=None):
        programs, path = programs or Programs(), os.path.abspath(model_paths(model)[0])
        self.head, self.precision = read_head(path), precision
        plugin = lammps.find_plugin(programs.plugin)  # without one LAMMPS finds that of the installed package
        commands = [f"plugin load {lammps.quoted(plugin)}"] if plugin else []
        commands += [f"pair_style mlff precision {precision}", f"pair_coeff * * {lammps.quoted(path)} ${{elements}}"]
        super().__init__(commands, None, os.path.dirname(path), programs)

    def types_of(self, frame):
        unknown = sorted(set(frame["elements"]) - set(self.head["elements"]))
        if unknown:
            raise DynamicsError(f"{frame['source']}: element {unknown[0]} is unknown to the model {self.head['name']}")
        return super().types_of(frame)

    def identity(self, frame):
        return digest(network_digest(self.head), self.precision, " ".join(self.types_of(frame)), self.version)


class AsePotential:
    """A calculator of ASE; each trajectory has a process of its own, which is used again."""

    jobs = 1  # it may need all cores, or the GPU

    def __init__(self, ase, place=".", python=None, timeout=TIMEOUT):
        self.options = (ase["calculator"], ase.get("arguments"), python, place, timeout)
        self.idle, self.all, self.lock, self.closed = queue.SimpleQueue(), [], threading.Lock(), False
        first = self._take()
        self.hash = digest(*(str(first.identity[key]) for key in ("sha256", "versions")))
        self.idle.put(first)

    def _take(self):
        try:
            return self.idle.get_nowait()
        except queue.Empty:
            made = AseTeacher(*self.options)
            with self.lock:
                self.all.append(made)
            return made

    def identity(self, frame):  # noqa: ARG002
        return self.hash

    def _follow(self, frame, question, steps):
        teacher = self._take()
        try:
            if self.closed:
                raise DynamicsError("stopped")
            return teacher.follow(frame, question, steps)
        finally:
            self.idle.put(teacher)

    def dynamics(self, start, plan, work):
        del work  # its files are none
        wanted = {**plan, "hottest": hottest(plan, len(start["elements"])), "damp": DAMP, "baro": BARO}
        wanted["minimise"] = MINIMISE if plan["minimise"] else None
        *lines, end = self._follow(start, {"dynamics": wanted}, plan["every"] + plan["equilibrate"] + MINIMISE[1])
        found = [(a["step"], np.array(a["positions"]), np.array(a["cell"]) if a["cell"] else None) for a in lines]
        if plan["pressure"] is None:
            found = [(k, x, start["cell"]) for k, x, _ in found]
        return found, end["exploded"]

    def minimised(self, frame, steps, work):
        del work
        (answer,) = self._follow(frame, {"minimise": steps}, steps)
        x = np.array(answer["positions"], float)
        if not np.isfinite(x).all():
            raise DynamicsError(f"{frame['source']}: NaN or infinity after minimisation")
        return x

    def close(self):
        self.closed = True
        with self.lock:
            for teacher in self.all:
                teacher.close()


def potential(section, place, programs):
    """The potential of a section like `teacher`, whose files are relative to the folder `place`."""
    if "mlff" in section:
        return ModelPotential(find_model(section["mlff"], place), section.get("precision", "fp32"), programs)
    if "lammps" in section:
        return LammpsPotential(section["lammps"], section.get("types"), place, programs)
    if "ase" in section:
        python = section["ase"].get("python") or programs.python
        python = os.path.expanduser(python) if python else None
        python = os.path.abspath(os.path.join(place, python)) if python and "/" in python else python
        return AsePotential(section["ase"], place, python, section.get("timeout", TIMEOUT))
    raise DynamicsError("a file of labels moves no atoms: a potential has one of mlff, lammps and ase")
