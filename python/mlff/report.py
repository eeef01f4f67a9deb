"""Reports of fix mlffprof, `mlff time --file` and `mlff soak --file` (docs/profile.schema.json)."""

from __future__ import annotations

import importlib
import os
import typing

from mlff_tools.bench import profiles
from mlff_tools.bench.profiles import get, number

from .library import Error


def _need(module, what):
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise Error(f"{what} needs {module.split('.')[0]}: pip install {module.split('.')[0]}") from e


class Report:
    """One report. `data` is all of it, a dictionary as in the file.

    Numbers that were not measured are None.
    """

    def __init__(self, data: dict[str, typing.Any], path: str = ""):
        self.data, self.path = data, path

    @classmethod
    def load(cls, path: str | os.PathLike) -> Report:
        """Reads a file. Error when it cannot be read, is no report, or is of another version of the format."""
        try:
            return cls(profiles.read(os.fspath(path)), os.fspath(path))
        except profiles.ProfileError as e:
            raise Error(str(e)) from e

    def __getitem__(self, key: str) -> typing.Any:
        return self.data[key]

    def __repr__(self) -> str:
        return f"<mlff.Report {self.data['name']}: {self.data['n_steps']} steps>"

    def _memory(self):
        found = ((kind, get(self.data, "memory", kind)) for kind in ("host", "device"))
        return {kind: block for kind, block in found if block and block["n_samples"]}

    @property
    def memory_stable(self) -> bool | None:
        """Whether memory does not grow, of host and device. None: not measured, or too few samples to say."""
        return {"stable": True, "growing": False, "leak": False}.get(get(self.data, "memory", "verdict"))

    @property
    def hotspots(self) -> list[dict[str, typing.Any]]:
        """Parts above a tenth of the step: component, share (0..1), advice, gain (times as fast at most, or None)."""
        return self.data.get("hotspots") or []

    def _series(self):
        """The indices of the stored steps after warm-up, and their times in ms or None."""
        values = [number(value) for value in self.data["latencies_ms"]]
        stride = self.data.get("latencies_stride") or 1
        return [k * stride for k in range(len(values))], values

    @property
    def latencies(self) -> list[float]:
        """ms of the steps after warm-up, of every latencies_stride-th in long runs."""
        return [value for value in self._series()[1] if value is not None]

    def summary(self) -> str:
        """A few lines: what ran, time per step, memory, drift, what takes the time."""
        r, lines = self.data, []
        text = lambda value, form="{:.4g}": form.format(value) if number(value) is not None else "not measured"
        who = r.get("model_name") or get(r, "context", "pair_style") or "unnamed model"
        lines.append(f"{r['name']}: {who}, {text(r['n_atoms'], '{:.0f}')} atoms, {r['n_steps']} steps")
        lines.append(
            f"  step     median {text(r['median_latency_ms'])} ms, mean {text(r['mean_latency_ms'])} ms, "
            f"p99 {text(r.get('p99_latency_ms'))} ms"
        )
        for kind, block in self._memory().items():
            lines.append(f"  memory   {kind}: {block['verdict']}, peak {text(block['peak_bytes'] / 1e6)} MB")
        if number(r.get("drift")) is not None:
            metal = get(r, "energy", "units") == "metal"
            lines.append(f"  drift    {r['drift']:.3g}{' eV/atom/ps' if metal else ''}, of the {r['drift_of']} energy")
        lines += [f"  hotspot  {h['component']}, {100 * h['share']:.0f} %: {h['advice']}" for h in self.hotspots]
        return "\n".join(lines)

    def to_pandas(self) -> typing.Any:
        """DataFrame with a row for each stored step: its index after warm-up, latency_ms. Needs pandas."""
        pandas = _need("pandas", "Report.to_pandas")
        steps, values = self._series()
        return pandas.DataFrame({"step": steps, "latency_ms": values})

    def plot(self, axes: typing.Any = None) -> typing.Any:
        """Latency over the run, on matplotlib axes, which are returned. Needs matplotlib."""
        pyplot = None if axes is not None else _need("matplotlib.pyplot", "Report.plot")
        axes = axes if axes is not None else pyplot.subplots()[1]
        (steps, values), median = self._series(), number(self.data["median_latency_ms"])
        axes.plot(steps, [float("nan") if value is None else value for value in values], lw=0.8)
        if median is not None:
            axes.axhline(median, color="0.4", lw=0.8, label=f"median {median:.3g} ms")
            axes.legend()
        axes.set(xlabel="step after warm-up", ylabel="ms per step", title=self.data["name"])
        return axes
