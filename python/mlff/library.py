"""The C API (mlff.h, mlff_watch.h, mlff_xyz.h and the reader of mlffprof.h in include/mlff) by ctypes: structures as
they are there, and the shared library that has it.

Calls release Python's lock. tests/python/test_api_library.py compares the structures with the header.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint64, c_void_p

PACKAGE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(PACKAGE))  # the checkout, unless the package is installed
NAME = "libmlff.dylib" if sys.platform == "darwin" else "libmlff.so"


class Error(RuntimeError):
    """Error of a model file, a structure or the library; the text states the cause and the fix."""


class ModelWarning(UserWarning):
    """Nothing checks what a model computes: its file has no self-test structures."""


class CError(ctypes.Structure):
    _fields_ = [("code", c_int), ("text", ctypes.c_char * 1024)]


class COptions(ctypes.Structure):
    _fields_ = [
        ("device", c_char_p),
        ("local_rank", c_int),
        ("precision", c_char_p),
        ("kernels", c_char_p),
        ("elements", POINTER(c_char_p)),
        ("n_elements", c_int),
        ("skip_self_test", c_int),
        ("members", c_char_p),
        ("replay", c_char_p),
        ("radial_intervals", c_char_p),
        ("fuse", c_char_p),
        ("e0", c_char_p),
    ]


class CGraph(ctypes.Structure):
    _fields_ = [
        ("n_local", c_int32),
        ("n_all", c_int32),
        ("n_nodes", c_int32),
        ("n_interior", c_int32),
        ("n_pairs", c_int64),
        ("list_id", c_uint64),
        ("species", POINTER(c_int32)),
        ("node", POINTER(c_int32)),
        ("row", POINTER(c_int64)),
        ("nbr", POINTER(c_int32)),
        ("pos", POINTER(c_double * 3)),
        ("reach", c_double),
        ("boundary", c_int),
        ("volume", c_double),
        ("tag", POINTER(c_int64)),
        ("on_device", c_int),
        ("name", c_void_p),
        ("name_context", c_void_p),
    ]


class CResult(ctypes.Structure):
    _fields_ = [
        ("energy", c_double),
        ("virial", c_double * 6),
        ("forces", c_void_p),
        ("atom_energy", c_void_p),
        ("atom_virial", c_void_p),
        ("atom_centroid", c_void_p),
        ("member_energy", c_void_p),
        ("atom_spread", c_void_p),
        ("member_forces", c_void_p),
        ("member_virial", c_void_p),
        ("atom_uncertainty", c_void_p),
        ("atom_features", c_void_p),
        ("device_forces", c_void_p),
        ("n_edges", c_int64),
        ("min_distance", c_double),
    ]


class CInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("architecture", c_char_p),
        ("citation", c_char_p),
        ("sha256", c_char_p),
        ("device", c_char_p),
        ("device_number", c_int),
        ("device_id", c_char_p),
        ("device_why", c_char_p),
        ("precision", c_char_p),
        ("kernels", c_char_p),
        ("traits", c_uint),
        ("cutoff", c_double),
        ("n_elements", c_int),
        ("elements", POINTER(c_char_p)),
        ("trained", POINTER(c_int)),
        ("n_members", c_int),
        ("n_members_of_file", c_int),
        ("n_parameters", c_int64),
        ("exchange_width", c_int),
        ("reverse_width", c_int),
        ("temperature", POINTER(c_double)),
        ("density", POINTER(c_double)),
        ("distances", POINTER(c_double)),
        ("pressure", POINTER(c_double)),
        ("triples", POINTER(c_double)),
        ("max_force", c_double),
        ("distances_are_cutoffs", c_int),
        ("n_features", c_int),
        ("uncertainty_unit", c_char_p),
        ("uncertainty_why", c_char_p),
        ("uncertainty_limit", c_double),
        ("header_sha256", c_char_p),
        ("header_is_hashed", c_int),
        ("caution", c_char_p),
        ("n_self_tests", c_int),
        ("n_self_tests_passed", c_int),
        ("model_citation", c_char_p),
        ("license", c_char_p),
    ]


class CFinding(ctypes.Structure):
    _fields_ = [("excess", c_double), ("verdict", c_int), ("text", ctypes.c_char * 300)]


class CWatchSystem(ctypes.Structure):
    _fields_ = [
        ("temperature", c_double),
        ("n_free", c_double),
        ("density", c_double),
        ("pressure", c_double),
        ("box_changes", c_int),
    ]


class CXyzKey(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("raw", c_char_p),
        ("text", c_char_p),
        ("values", POINTER(c_double)),
        ("n_values", c_int),
        ("kind", c_char),
    ]


class CXyzColumn(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("text", c_void_p),
        ("values", c_void_p),
        ("text_size", c_size_t),
        ("width", c_int),
        ("kind", c_char),
    ]


class CXyzFrame(ctypes.Structure):
    _fields_ = [
        ("comment", c_char_p),
        ("why", c_char_p),
        ("keys", POINTER(CXyzKey)),
        ("columns", POINTER(CXyzColumn)),
        ("numbers", c_void_p),
        ("positions", c_void_p),
        ("line", c_int64),
        ("end", c_int64),
        ("cell", c_double * 3 * 3),
        ("n_atoms", c_int32),
        ("n_keys", c_int),
        ("n_columns", c_int),
        ("has_cell", c_int),
        ("pbc", c_int * 3),
    ]


class CProfileOptions(ctypes.Structure):
    _fields_ = [
        *((k, c_char_p) for k in ("name", "model_name", "device", "ensemble", "notes", "timestamp")),
        ("n_atoms", c_int64),
        ("n_warmup", c_int64),
        ("n_ranks", c_int),
        ("lj_units", c_int),
        ("n_exact", c_int64),
        ("n_latencies", c_int),
        ("n_series", c_int),
        ("n_slow_steps", c_int),
        ("components", c_void_p),
        ("n_components", c_int),
        ("reference", c_char_p),
        ("elements", POINTER(c_char_p)),
        ("n_elements", c_int),
        ("explosion_temperature", c_double),
        ("explosion_energy", c_double),
        ("memory_tolerance_mb", c_double),
    ]


class CStep(ctypes.Structure):
    _fields_ = [
        ("step", c_int64),
        ("seconds", c_double),
        ("dt_ps", c_double),
        ("n_atoms", c_int64),
        ("tags", c_uint),
        ("slowest_rank", c_int),
        ("components", c_void_p),
        ("flop", c_void_p),
        ("bytes", c_void_p),
        ("cpu_seconds", c_double),
        ("busy_most", c_double),
        ("busy_mean", c_double),
        ("atoms_most", c_int64),
    ]


class CMemorySample(ctypes.Structure):
    _fields_ = [
        (k, c_int64)
        for k in (
            "step",
            "host_bytes",
            "host_peak_bytes",
            "device_bytes",
            "host_reference_bytes",
            "device_reference_bytes",
        )
    ]


class CRatio(ctypes.Structure):
    _fields_ = [*((k, c_double) for k in ("ratio", "low", "high", "p")), ("n_a", c_int), ("n_b", c_int)]


PERIODIC = 2  # MLFF_BOUNDARY_PERIODIC
N_WATCHED = 8  # MLFF_N_WATCHED
VERDICT_STOP = 2  # MLFF_VERDICT_STOP

STRUCTURES = {
    "mlff_error": CError,
    "mlff_options": COptions,
    "mlff_graph": CGraph,
    "mlff_result": CResult,
    "mlff_info": CInfo,
    "mlff_finding": CFinding,
    "mlff_watch_system": CWatchSystem,
    "mlff_xyz_key": CXyzKey,
    "mlff_xyz_column": CXyzColumn,
    "mlff_xyz_frame": CXyzFrame,
}

# Structures of mlffprof.h, whose sizes the library does not know.
PROFILE_STRUCTURES = {
    "mlffprof_options": CProfileOptions,
    "mlffprof_step": CStep,
    "mlffprof_memory_sample": CMemorySample,
    "mlffprof_ratio": CRatio,
}

# Bits of mlff_info.traits.
TRAITS = {
    "conservative": 1,
    "rotation_exact": 2,
    "smooth": 4,
    "strictly_local": 8,
    "node_energies": 16,
    "inversion_exact": 32,
}

# Name: what it returns, what it takes. Handles are numbers; arrays are addresses or bytes.
FUNCTIONS = {
    "mlff_version": (c_char_p, ()),
    "mlff_size_of": (c_size_t, (c_char_p,)),
    "mlff_options_set": (c_int, (POINTER(COptions), c_char_p, c_char_p, POINTER(CError))),
    "mlff_model_read": (
        c_int,
        (c_char_p, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_void_p), POINTER(c_size_t), POINTER(CError)),
    ),
    "mlff_model_open_memory": (
        c_int,
        (c_char_p, c_void_p, c_size_t, c_void_p, c_size_t, POINTER(COptions), POINTER(c_void_p), POINTER(CError)),
    ),
    "mlff_model_close": (None, (c_void_p,)),
    "mlff_bibtex": (c_size_t, (c_char_p, c_char_p, c_size_t)),
    "mlff_model_info": (POINTER(CInfo), (c_void_p,)),
    "mlff_model_evaluate": (c_int, (c_void_p, POINTER(CGraph), c_void_p, POINTER(CResult), POINTER(CError))),
    "mlff_system_create": (
        c_int,
        (c_int32, c_void_p, c_void_p, c_void_p, c_void_p, c_double, POINTER(c_void_p), POINTER(CError)),
    ),
    "mlff_system_move": (c_int, (c_void_p, c_void_p, c_void_p, c_double, POINTER(c_int), POINTER(CError))),
    "mlff_system_graph": (POINTER(CGraph), (c_void_p,)),
    "mlff_system_free": (None, (c_void_p,)),
    "mlff_watch_create": (c_int, (POINTER(CInfo), c_int, c_char_p, POINTER(c_void_p), POINTER(CError))),
    "mlff_watch_free": (None, (c_void_p,)),
    "mlff_watch_begin": (None, (c_void_p,)),
    "mlff_watch_atoms": (None, (c_void_p, POINTER(CGraph), c_void_p, c_void_p, POINTER(CFinding))),
    "mlff_watch_state": (None, (c_void_p, POINTER(CWatchSystem), POINTER(CFinding))),
    "mlff_watch_judge": (None, (c_void_p, c_int, POINTER(CFinding))),
    "mlff_xyz_open": (c_int, (c_char_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(CError))),
    "mlff_xyz_next": (c_int, (c_void_p, POINTER(POINTER(CXyzFrame)), POINTER(CError))),
    "mlff_xyz_is_cut": (c_int, (c_void_p,)),
    "mlff_xyz_close": (None, (c_void_p,)),
    "mlffprof_report_read": (c_int, (c_char_p, POINTER(c_void_p), POINTER(CError))),
    "mlffprof_report_free": (None, (c_void_p,)),
    "mlffprof_report_write": (c_int, (c_void_p, c_char_p, POINTER(CError))),
    "mlffprof_recorder_create": (c_int, (POINTER(CProfileOptions), POINTER(c_void_p), POINTER(CError))),
    "mlffprof_recorder_free": (None, (c_void_p,)),
    "mlffprof_recorder_step": (c_int, (c_void_p, POINTER(CStep), POINTER(CError))),
    "mlffprof_recorder_memory": (c_int, (c_void_p, POINTER(CMemorySample), POINTER(CError))),
    "mlffprof_recorder_context": (c_int, (c_void_p, c_char_p, c_char_p, POINTER(CError))),
    "mlffprof_recorder_report": (c_int, (c_void_p, POINTER(c_void_p), POINTER(CError))),
    "mlffprof_host_memory": (c_int, (POINTER(c_int64), POINTER(c_int64), POINTER(CError))),
    "mlffprof_compare_latency": (c_int, (c_void_p, c_void_p, c_char_p, POINTER(CRatio), POINTER(CError))),
}


def find_library() -> str:
    """Path of libmlff.so: $MLFF_LIBRARY, else next to this package, else in the build folder of the checkout."""
    named = os.environ.get("MLFF_LIBRARY")
    if named:
        if not os.path.isfile(named):
            raise Error(f"$MLFF_LIBRARY is '{named}', which is not a file")
        return named
    folders = (PACKAGE, os.path.join(SOURCE, "build"), os.path.join(SOURCE, "build", "release"))
    for path in (os.path.join(folder, NAME) for folder in folders):
        if os.path.isfile(path):
            return path
    raise Error(
        f"{NAME} was not found: `pip install .` or `make build` in the source makes it, $MLFF_LIBRARY names one"
    )


def load(path: str, version: str) -> ctypes.CDLL:
    """Opens a library and compares its version and structures with this package. Error when they differ."""
    try:
        library = ctypes.CDLL(path)
        for name, (returns, takes) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = returns, takes
    except (OSError, AttributeError) as e:
        raise Error(f"{path}: is not the library of mlff {version}: {e}: build it again with `make build`") from e
    found = library.mlff_version().decode()
    if found != version:
        raise Error(f"{path}: is of mlff {found}, and this Python package of {version}: install or build them together")
    for name, structure in STRUCTURES.items():
        size = library.mlff_size_of(name.encode())
        if size != ctypes.sizeof(structure):
            raise Error(
                f"{path}: {name} has {size} bytes, and {ctypes.sizeof(structure)} in this Python package: the library "
                "is of another source: build it again with `make build`"
            )
    return library


@functools.cache
def library() -> ctypes.CDLL:
    """The library that find_library finds, opened once."""
    from . import __version__

    return load(find_library(), __version__)
