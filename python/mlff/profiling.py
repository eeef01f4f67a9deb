"""Profiles of ASE calculators in the format of fix mlffprof, and rankings of profiles."""

from __future__ import annotations

import ctypes
import json
import math
import os
import platform
import tempfile
import time
import typing

import numpy as np

from .library import CError, CMemorySample, CProfileOptions, CRatio, CStep, Error, library
from .model import Model
from .report import Report

MOVED = 0.005  # A: how far atoms are moved in turn where there is one structure, so that no result is a kept one
GOOD = 0  # MLFFPROF_OK


def _check(status, error):
    if status != GOOD:
        raise Error(error.text.decode("utf-8", "replace"))


def _calculator(given):
    """An ASE calculator, or that of a model."""
    if isinstance(given, (str, os.PathLike, Model)):
        from .ase import MLFF

        return MLFF(given)
    if not hasattr(given, "get_potential_energy") or not hasattr(given, "get_forces"):
        raise Error(f"profile: {given!r} is neither an ASE calculator nor a model of mlff")
    return given


def _frames(atoms):
    """Copies of the structures."""
    frames = [atoms] if hasattr(atoms, "get_positions") else list(atoms)
    if not frames or any(not hasattr(f, "get_positions") or len(f) == 0 for f in frames):
        raise Error("profile: expected an ase.Atoms with atoms, or a list of them (a trajectory)")
    return [frame.copy() for frame in frames]


class _Recorder:
    """mlffprof_recorder of the C library."""

    def __init__(self, **options):
        self.c, self.error = library(), CError()
        texts = {k: v.encode() for k, v in options.items() if isinstance(v, str)}
        wanted = CProfileOptions(**{**options, **texts})
        self.handle = ctypes.c_void_p()
        _check(self.c.mlffprof_recorder_create(ctypes.byref(wanted), ctypes.byref(self.handle), self.error), self.error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.c.mlffprof_recorder_free(self.handle)

    def step(self, number, seconds, cpu_seconds, n_atoms):
        step = CStep(step=number, seconds=seconds, cpu_seconds=cpu_seconds, n_atoms=n_atoms)
        _check(self.c.mlffprof_recorder_step(self.handle, ctypes.byref(step), self.error), self.error)

    def memory(self, number):
        resident, peak = ctypes.c_int64(), ctypes.c_int64()
        if self.c.mlffprof_host_memory(ctypes.byref(resident), ctypes.byref(peak), self.error) == GOOD:
            sample = CMemorySample(number, resident.value, peak.value, -1, 0, 0)  # -1: MLFFPROF_UNKNOWN
            _check(self.c.mlffprof_recorder_memory(self.handle, ctypes.byref(sample), self.error), self.error)

    def context(self, key, text):
        c = self.c.mlffprof_recorder_context
        _check(c(self.handle, key.encode(), text.encode(), self.error), self.error)

    def write(self, path):
        report = ctypes.c_void_p()
        c = self.c
        _check(c.mlffprof_recorder_report(self.handle, ctypes.byref(report), self.error), self.error)
        try:
            _check(c.mlffprof_report_write(report, os.fsencode(path), self.error), self.error)
        finally:
            c.mlffprof_report_free(report)


def profile(
    calculator: typing.Any,
    atoms: typing.Any,
    steps: int = 1000,
    warmup: int = 20,
    name: str | None = None,
    memory_every: int = 10,
    file: str | os.PathLike | None = None,
) -> Report:
    """Times energy and forces of a calculator, as a time step of ASE's dynamics asks for them.

    calculator:   any ASE calculator, an mlff.Model, or the name or path of a model
    atoms:        an ase.Atoms, or a list of them (a trajectory), which are taken in turn. One structure is moved by
                  0.005 A to and fro, so that calculators cannot return what they kept
    steps, warmup: calls that are counted, and calls before these
    memory_every: calls between two readings of the memory of this process; 0 for none
    file:         where the report is written as well, for `mlff show`, `compare` and `report`

    Returns a Report with the format of fix mlffprof. Times are wall times of this process, on a GPU until the forces
    are on the host. Errors of the calculator pass through."""
    calculator, frames = _calculator(calculator), _frames(atoms)
    if not (steps >= 1 and warmup >= 0 and memory_every >= 0):
        raise Error(
            f"profile: {steps} steps, {warmup} of warm-up, memory every {memory_every}: expected 1, 0, 0 or more"
        )
    kind = type(calculator).__name__
    model = getattr(getattr(calculator, "model", None), "name", None) or kind
    with _Recorder(name=name or model, model_name=model, n_warmup=warmup) as recorder:
        recorder.context("driver", "ASE")
        recorder.context("calculator", f"{type(calculator).__module__}.{kind}")
        recorder.context("python", platform.python_version())
        place, move = frames[0].get_positions(), np.random.default_rng(0).normal(size=(len(frames[0]), 3))
        move *= MOVED / np.linalg.norm(move, axis=1, keepdims=True)
        for frame in frames:
            frame.calc = calculator
        for k in range(warmup + steps):
            frame = frames[k % len(frames)]
            if len(frames) == 1:
                frame.positions = place + (-1) ** k * move
            cpu, begin = time.thread_time(), time.perf_counter()
            frame.get_forces(apply_constraint=False)
            frame.get_potential_energy()
            recorder.step(k, time.perf_counter() - begin, time.thread_time() - cpu, len(frame))
            if memory_every and k % memory_every == 0:
                recorder.memory(k)
        if file is not None:
            recorder.write(file)
            return Report.load(file)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            recorder.write(path)
            return Report(Report.load(path).data)


class Ranking(list):
    """Rows of compare(), fastest first; print it for a table. Keys: name, n_atoms, median_ms, mean_ms, p99_ms,
    median_us_per_atom, and against the first report given, speed_up per atom with the 95 % interval low, high (None
    below nine steps on a side)."""

    def __str__(self) -> str:
        heads = ("", "atoms", "median ms", "mean ms", "p99 ms", "median us/atom", "speed-up", "95 % interval")
        short = lambda value: "-" if value is None else f"{value:.4g}"
        lines = [heads]
        for row in self:
            numbers = [short(row[k]) for k in ("median_ms", "mean_ms", "p99_ms", "median_us_per_atom", "speed_up")]
            interval = "-" if row["low"] is None else f"{row['low']:.3g} - {row['high']:.3g}"
            lines.append((row["name"], str(row["n_atoms"]), *numbers, interval))
        widths = [max(len(line[k]) for line in lines) for k in range(len(heads))]
        return "\n".join(
            "  ".join(text.ljust(w) if k == 0 else text.rjust(w) for k, (text, w) in enumerate(zip(line, widths)))
            for line in lines
        )


def _opened(c, report, folder, number):
    """A report in the C library."""
    path, handle, error = os.path.join(folder, f"{number}.json"), ctypes.c_void_p(), CError()
    with open(path, "w", encoding="utf-8") as f:
        json.dump(report.data, f)
    _check(c.mlffprof_report_read(os.fsencode(path), ctypes.byref(handle), error), error)
    return handle


def _per_atom(ratio, atoms):
    """Speed-up of a ratio of times and of numbers of atoms; None where the times are too few."""
    return None if math.isnan(ratio) else atoms / ratio


def compare(reports: typing.Iterable[Report | str | os.PathLike]) -> Ranking:
    """Ranks reports by their median time per atom and step, fastest first; speed-ups are against the first one given.

    reports: of profile(), fix mlffprof, mlff time: Report, or paths of files."""
    found = [r if isinstance(r, Report) else Report.load(r) for r in reports]
    if not found:
        raise Error("compare: no reports")
    c, rows, handles = library(), Ranking(), []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for k, report in enumerate(found):
                handles.append(_opened(c, report, folder, k))
                ratio, error = CRatio(), CError()
                _check(
                    c.mlffprof_compare_latency(
                        handles[0], handles[k], b"median_latency_ms", ctypes.byref(ratio), error
                    ),
                    error,
                )
                n_atoms, first = report["n_atoms"] or 1, found[0]["n_atoms"] or 1
                rows.append(
                    {
                        "name": report["name"],
                        "n_atoms": report["n_atoms"],
                        "median_ms": report["median_latency_ms"],
                        "mean_ms": report["mean_latency_ms"],
                        "p99_ms": report["p99_latency_ms"],
                        "median_us_per_atom": 1000 * report["median_latency_ms"] / n_atoms,
                        "speed_up": _per_atom(ratio.ratio, n_atoms / first),
                        "low": _per_atom(ratio.high, n_atoms / first),
                        "high": _per_atom(ratio.low, n_atoms / first),
                    }
                )
        finally:
            for handle in handles:
                c.mlffprof_report_free(handle)
    rows.sort(key=lambda row: row["median_us_per_atom"])
    return rows
