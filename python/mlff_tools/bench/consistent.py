"""Whether the numbers of a report contradict each other: the rules of src/mlffprof/report/consistent.c.

Checked are signs, orders, and what follows from series that are stored in full (stride 1). Tolerances: series have six
digits, those of energies twelve, and quantiles of long runs have a bound of their own (quantiles.relative_error).
"""

import math

DIGITS = 2e-5  # relative: two roundings to six digits
ENERGY_DIGITS = 1e-10  # of the largest value of a series of energies
WHOLE_BYTES = 0.5
LATENCIES = ("mean", "median", "std", "min", "max", "p95", "p99")
TIMES = ("cv", "energy_time_ms", "forces_time_ms", "stress_time_ms", "total_time_s", "steps_per_second")
TIMES += ("us_per_atom", "ns_per_day")
ERRORS = ("energy_mae", "energy_rmse", "energy_max", "force_rmse", "force_mae", "force_max")
ERRORS += ("stress_rmse", "pressure_rmse")


class Contradiction(ValueError):
    """Two numbers of a report contradict each other; the text names both."""


def _number(block, key):
    """A finite number of a block, else NaN, with which no comparison fails."""
    value = block.get(key) if isinstance(block, dict) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _numbers(block, key):
    values = block.get(key) if isinstance(block, dict) else None
    return [_number({0: value}, 0) for value in values] if isinstance(values, list) else []


def _blocks(report, key):
    return [block for block in report.get(key) or [] if isinstance(block, dict)]


def _sign(name, value):
    if value < 0:
        raise Contradiction(f"{name} is {value:.9g}, and cannot be negative")


def _order(low, a, high, b, tolerance):
    if a > b + tolerance * max(abs(a), abs(b)):
        raise Contradiction(f"{low} is {a:.9g}, above {high} ({b:.9g})")


def _equal(name, value, other, wanted, tolerance):
    if abs(value - wanted) > tolerance:
        raise Contradiction(f"{name} is {value:.9g} instead of {other} ({wanted:.9g})")


def quantile(values, q):
    """Quantile q of sorted values, interpolated between neighbors."""
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def _check_signs(report, latencies):
    for name in (*(f"{name}_latency_ms" for name in LATENCIES), *TIMES):
        _sign(name, _number(report, name))
    for name in ("mean_latency_ms", "max_latency_ms"):
        _sign(f"{name} of the warm-up", _number(report.get("warmup"), name))
    for value in latencies:
        _sign("a value of latencies_ms", value)
    for block in _blocks(report, "components"):
        _sign("mean_ms of a component", _number(block, "mean_ms"))
        _sign("max_ms of a component", _number(block, "max_ms"))
    for block in _blocks(report, "slow_steps"):
        _sign("latency_ms of a slow step", _number(block, "latency_ms"))


def _check_orders(report, latencies):
    sketch = DIGITS + 2 * (_number(report.get("quantiles"), "relative_error") if report.get("quantiles") else 0.0)
    pairs = [("min", "mean", DIGITS), ("mean", "max", DIGITS), ("min", "median", sketch), ("median", "p95", sketch)]
    pairs += [("p95", "p99", sketch), ("p99", "max", sketch)]
    latency = {name: _number(report, f"{name}_latency_ms") for name in LATENCIES}
    for low, high, tolerance in pairs:
        _order(f"{low}_latency_ms", latency[low], f"{high}_latency_ms", latency[high], tolerance)
    for value in latencies:
        _order("min_latency_ms", latency["min"], "a value of latencies_ms", value, DIGITS)
        _order("a value of latencies_ms", value, "max_latency_ms", latency["max"], DIGITS)
    for block in _blocks(report, "slow_steps"):
        _order("latency_ms of a slow step", _number(block, "latency_ms"), "max_latency_ms", latency["max"], DIGITS)
    for block in _blocks(report, "components"):
        _order("mean_ms of a component", _number(block, "mean_ms"), "its max_ms", _number(block, "max_ms"), DIGITS)


def _check_rates(report):
    n, mean = _number(report, "n_steps"), _number(report, "mean_latency_ms")
    seconds = _number(report, "total_time_s")
    total = 1e-3 * n * mean
    _equal("total_time_s", seconds, "n_steps x mean_latency_ms", total, DIGITS * total)
    rate = n / seconds if seconds else math.nan
    _equal("steps_per_second", _number(report, "steps_per_second"), "n_steps / total_time_s", rate, DIGITS * rate)
    cv = _number(report, "std_latency_ms") / mean if mean else math.nan
    _equal("cv", _number(report, "cv"), "std / mean", cv, DIGITS * cv)


def _check_latencies(report, latencies):
    """Numbers that follow from all latencies."""
    if not latencies:
        return
    stride, steps, n = report.get("latencies_stride") or 1, _number(report, "n_steps"), len(latencies)
    _equal("the number of latencies_ms", n, "n_steps / latencies_stride", -(-steps // stride), 0)
    if stride > 1 or not all(map(math.isfinite, latencies)):
        return
    values, mean = sorted(latencies), math.fsum(latencies) / n
    tolerance, words = DIGITS * values[-1], "that of latencies_ms"
    wanted = {"mean": mean, "min": values[0], "max": values[-1]}
    if n > 1:
        wanted["std"] = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    for name, value in wanted.items():
        _equal(f"{name}_latency_ms", _number(report, f"{name}_latency_ms"), words, value, tolerance)
    quantiles = report.get("quantiles") or {}
    if quantiles.get("exact"):
        tolerance += (quantiles.get("relative_error") or 0.0) * values[-1]
        for name, q in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
            _equal(f"{name}_latency_ms", _number(report, f"{name}_latency_ms"), words, quantile(values, q), tolerance)


def _check_memory(block):
    initial, final, peak = (_number(block, f"{name}_bytes") for name in ("initial", "final", "peak"))
    for name, value in (("initial_bytes", initial), ("final_bytes", final)):
        _sign(name, value)
        _order(name, value, "peak_bytes", peak, DIGITS)
    _equal("delta_bytes", _number(block, "delta_bytes"), "final_bytes - initial_bytes", final - initial, WHOLE_BYTES)


def _check_quantity(name, block, series):
    """A quantity of the block energy; series: that block's."""
    low, high = _number(block, "min"), _number(block, "max")
    scale = max(abs(low), abs(high))
    if not block.get("n_samples") or not math.isfinite(scale):
        return
    where = f"of energy.{name}"
    for key in ("mean", "initial", "final"):
        _order("min", low, f"{key} {where}", _number(block, key), DIGITS)
        _order(f"{key} {where}", _number(block, key), "max", high, DIGITS)
    values = _numbers(series, name)
    complete = series and series.get("stride") == 1 and len(values) == block["n_samples"]
    if not complete or not all(map(math.isfinite, values)):
        return
    wanted = {"initial": values[0], "final": values[-1], "mean": math.fsum(values) / len(values)}
    wanted.update(min=min(values), max=max(values))
    for key, value in wanted.items():
        _equal(f"{key} {where}", _number(block, key), "that of its series", value, ENERGY_DIGITS * scale)


def _check_accuracy(block):
    for name in ERRORS:
        _sign(f"accuracy.{name}", _number(block, name))
    for kind in ("energy", "force"):
        mae, rmse, most = (_number(block, f"{kind}_{name}") for name in ("mae", "rmse", "max"))
        _order(f"{kind}_mae", mae, f"{kind}_rmse", rmse, DIGITS)
        _order(f"{kind}_rmse", rmse, f"{kind}_max", most, DIGITS)
    series = block.get("series") or {}
    values = [abs(v) for v in _numbers(series, "energy_error")]
    if series.get("stride") != 1 or not values or len(values) != block.get("n_samples"):
        return
    if all(map(math.isfinite, values)):
        n, tolerance, words = len(values), DIGITS * max(values), "that of energy_error"
        _equal("energy_mae", _number(block, "energy_mae"), words, math.fsum(values) / n, tolerance)
        rmse = math.sqrt(math.fsum(v * v for v in values) / n)
        _equal("energy_rmse", _number(block, "energy_rmse"), words, rmse, tolerance)


def check(report):
    """Raises Contradiction when numbers of a report (docs/profile.schema.json) contradict each other."""
    latencies = _numbers(report, "latencies_ms")
    _check_signs(report, latencies)
    _check_orders(report, latencies)
    _check_rates(report)
    _check_latencies(report, latencies)
    for kind in ("host", "device"):
        block = (report.get("memory") or {}).get(kind)
        if block:
            _check_memory(block)
    energy = report.get("energy") or {}
    for name, block in energy.items():
        if isinstance(block, dict) and "n_samples" in block:
            _check_quantity(name, block, energy.get("series") or {})
    if report.get("accuracy"):
        _check_accuracy(report["accuracy"])
