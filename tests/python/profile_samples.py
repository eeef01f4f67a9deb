"""Reports of fix mlffprof made by hand, with every block of docs/profile.schema.json, for tests of what reads them."""

import json

import numpy as np


def quantity(values):
    values = np.asarray(values, float)
    return {
        "n_samples": len(values),
        "initial": values[0],
        "final": values[-1],
        "mean": values.mean(),
        "std": values.std(ddof=1),
        "min": values.min(),
        "max": values.max(),
        "skew": 0.0,
        "fluctuation": None,
        "max_excursion": float(np.abs(values - values[0]).max()),
        "change_percent": 0.0,
        "drift": 1e-6,
        "drift_error": 1e-7,
        "drift_percent": 0.0,
        "drift_percent_error": 0.0,
        "histogram": None,
    }


def memory(first, n):
    return {
        "n_samples": n,
        "initial_bytes": first,
        "peak_bytes": first,
        "final_bytes": first,
        "delta_bytes": 0,
        "growth_bytes": 0,
        "growth_per_1000_steps_bytes": 0,
        "growth_error_bytes": 0,
        "verdict": "stable",
        "reason": "it does not grow",
    }


def components(n, scale):
    """Shares of a step of `scale` ms."""
    parts = (("pair", None, 0.9), ("other", None, 0.1), ("message", "pair", 0.6))
    same = {"role": None, "n_steps": n, "max_ms": scale}
    return [
        {"name": name, "parent": parent, **same, "mean_ms": share * scale, "share": share}
        for name, parent, share in parts
    ]


def accuracy():
    return {
        "reference": "teacher",
        "n_samples": 2,
        "energy_mae": 1e-4,
        "energy_rmse": 1e-4,
        "energy_bias": 0.0,
        "energy_max": 1e-4,
        "force_rmse": 0.02,
        "force_mae": 0.015,
        "force_max": 0.1,
        "force_cosine": 0.999,
        "force_cosine_min": 0.998,
        "worst_step": 0,
        "elements": [],
        "series": {
            "stride": 1,
            "step": [0, 100],
            "energy_error": [1e-4, 1e-4],
            "force_rmse": [0.02, 0.021],
            "force_max": [0.1, 0.1],
            "force_cosine": [0.999, 0.999],
        },
    }


def latencies(x, atoms):
    """The fields of a report for the latencies x in ms."""
    return {
        "latencies_ms": x.tolist(),
        "latencies_stride": 1,
        "mean_latency_ms": x.mean(),
        "median_latency_ms": float(np.median(x)),
        "std_latency_ms": x.std(ddof=1),
        "min_latency_ms": x.min(),
        "max_latency_ms": x.max(),
        "p95_latency_ms": float(np.quantile(x, 0.95)),
        "p99_latency_ms": float(np.quantile(x, 0.99)),
        "cv": x.std(ddof=1) / x.mean(),
        "total_time_s": x.sum() / 1000,
        "steps_per_second": 1000 / x.mean(),
        "us_per_atom": 1000 * x.mean() / atoms,
        "ns_per_day": 0.0432 / x.mean() * 1000,
    }


def energies(step, time, energy):
    """Block energy of a run in metal units whose total and conserved energies are equal."""
    return {
        "n_samples": len(step),
        "units": "metal",
        "first_step": 0,
        "last_step": step[-1],
        "time_ps": time[-1],
        "finite": True,
        "exploded": False,
        "first_bad_step": None,
        **dict.fromkeys(("potential", "kinetic", "temperature", "pressure", "volume")),
        "total": quantity(energy),
        "conserved": quantity(energy),
        "series": {"stride": 1, "step": step, "time_ps": time, "total": energy, "conserved": energy},
    }


def full(name="run", model="student", atoms=64, scale=1.0, n=500, seed=1, **deck):
    """A report with all blocks; latencies are log-normal around `scale` ms."""
    x = scale * np.exp(0.05 * np.random.default_rng(seed).standard_normal(n))
    step, time = list(range(0, n, 10)), [0.0005 * k for k in range(0, n, 10)]
    energy = [-100.0 * atoms + 1e-5 * k for k in range(len(step))]
    return {
        "schema_version": 1,
        "name": name,
        "model_name": model,
        "n_steps": n,
        "device": "cpu",
        **latencies(x, atoms),
        "energy_time_ms": None,
        "forces_time_ms": None,
        "stress_time_ms": None,
        "memory_initial_gb": 0.04,
        "memory_final_gb": 0.04,
        "memory_peak_gb": 0.041,
        "memory_per_step_gb": [0.04] * len(step),
        "memory_of": "host",
        "n_atoms": atoms,
        "system_size": f"{atoms} atoms",
        "timestamp": "2025-11-23 10:30:00",
        "notes": None,
        "drift": 1e-6,
        "drift_of": "conserved",
        "ensemble": deck.get("protocol", "nve"),
        "n_ranks": 1,
        "warmup": {"n_steps": 20, "mean_latency_ms": scale, "max_latency_ms": 2 * scale, "total_time_s": 0.02 * scale},
        "quantiles": {"exact": True, "relative_error": 0.0},
        "components": components(n, scale),
        "n_slow_steps": 1,
        "slow_share": 0.01,
        "slow_steps": [
            {"step": 77, "latency_ms": x.max(), "times_median": 3.0, "tags": ["neighbor_rebuild"], "slowest_rank": 0}
        ],
        "tags": [
            {"name": "neighbor_rebuild", "n_steps": 10, "mean_latency_ms": scale, "share": 0.02, "times_untagged": 1.1}
        ],
        "slowest_ranks": [],
        "memory": {
            "tolerance_mb": 10.0,
            "verdict": "stable",
            "host": memory(4e7, len(step)),
            "device": None,
            "series": {"stride": 1, "step": step, "host_bytes": [4e7] * len(step), "device_bytes": [None] * len(step)},
        },
        "energy": energies(step, time, energy),
        "accuracy": accuracy(),
        "targets": [
            {"metric": "p95_over_mean", "relation": "<", "bound": 2.0, "value": 1.1, "status": "pass"},
            {"metric": "memory_delta_mb", "relation": "<", "bound": 10.0, "value": None, "status": "not measured"},
        ],
        "hotspots": [{"component": "pair", "share": 0.9, "advice": "the model itself: a smaller one is the only help"}],
        "context": {"cpu": "a processor", "lammps": "22 Jul 2025", "deck": deck},
    }


def bare(name="bare"):
    """What a program that times a function and nothing else reports: nulls and empty lists elsewhere."""
    report = full(name)
    for key in (
        "model_name",
        "device",
        "memory_initial_gb",
        "memory_final_gb",
        "memory_peak_gb",
        "memory_of",
        "n_atoms",
        "system_size",
        "us_per_atom",
        "ns_per_day",
        "drift",
        "drift_of",
        "ensemble",
        "memory",
        "energy",
        "accuracy",
        "n_slow_steps",
        "slow_share",
    ):
        report[key] = None
    for key in ("memory_per_step_gb", "components", "slow_steps", "tags", "targets", "hotspots"):
        report[key] = []
    report["context"] = {}
    return report


def write(path, report):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, allow_nan=False), encoding="utf-8")
    return path
