"""The benchmark suite, scaling over ranks, validation, and the reports that they read and write."""
