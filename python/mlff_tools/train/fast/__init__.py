"""Training steps of first order on a CPU, in C, and the optimiser SOAP."""
