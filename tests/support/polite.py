"""Settings of MPICH for ranks that share a core: one that waits sleeps, so that the one it waits for runs. They need
tests/lammps/polite.c preloaded. Collectives are made of messages, because waits for these call sched_yield."""

SETTINGS = {
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    **{
        f"MPIR_CVAR_{name}_POSIX_INTRA_ALGORITHM": "mpir"
        for name in ("BCAST", "REDUCE", "ALLREDUCE", "BARRIER", "ALLTOALL", "ALLGATHER", "ALLGATHERV")
    },
}
