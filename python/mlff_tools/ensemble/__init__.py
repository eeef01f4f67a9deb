"""Is a trajectory one of its ensemble? Statistics of correlated series, and verdicts on NVE, NVT and NPT runs. Used by
`mlff bench`, `mlff validate` and `mlff certify`; docs/statistics.md explains the verdicts."""
