# SPDX-License-Identifier: Apache-2.0
"""libddl through ctypes: where it is, its enums and structs, its prototypes.

What stands here mirrors ddl/ddl.h; tests/python/test_header.py holds it against the header and the compiler. Calls release the
interpreter's lock, so other threads run while one waits.
"""

from __future__ import annotations

import ctypes
import enum
import glob
import os
from ctypes import POINTER, Structure, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Iterator, List, Tuple

from .errors import LibraryError

VERSION = "0.1.0"  # of this package
SONAME = "libddl.so.0"


class Type(enum.IntEnum):
    """Element types of buffers (``enum ddl_type``)."""

    FLOAT64 = 1
    FLOAT32 = 2
    FLOAT16 = 3
    BFLOAT16 = 4
    INT64 = 5
    INT32 = 6
    INT8 = 7
    UINT8 = 8

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return _SIZES[self]


_SIZES = {
    Type.FLOAT64: 8,
    Type.FLOAT32: 4,
    Type.FLOAT16: 2,
    Type.BFLOAT16: 2,
    Type.INT64: 8,
    Type.INT32: 4,
    Type.INT8: 1,
    Type.UINT8: 1,
}


class Op(enum.IntEnum):
    """Reductions (``enum ddl_op``). Integer sums and products wrap; AVG of integers truncates towards zero."""

    SUM = 1
    AVG = 2
    MIN = 3
    MAX = 4
    PROD = 5


class Wire(enum.IntEnum):
    """Types in which float32 elements travel (``enum ddl_wire``); others travel natively. See doc/precision.md."""

    AUTO = 0
    NATIVE = 1
    BFLOAT16 = 2
    FLOAT16 = 3
    INT8 = 4


class Rounding(enum.IntEnum):
    """How elements are rounded to a narrower wire (``enum ddl_rounding``)."""

    NEAREST = 0
    STOCHASTIC = 1


class Accuracy(enum.IntEnum):
    """What rounding on the way may take from a reduction's result (``enum ddl_accuracy``). See doc/precision.md."""

    AUTO = 0
    FAST = 1
    FLAT = 2
    EXACT = 3


ENUMS = {
    "ddl_type": (Type, "DDL_"),
    "ddl_op": (Op, "DDL_"),
    "ddl_wire": (Wire, "DDL_WIRE_"),
    "ddl_accuracy": (Accuracy, "DDL_ACCURACY_"),
    "ddl_rounding": (Rounding, "DDL_ROUND_"),
}

SET_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
GET_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_size_t), c_int)

ERROR_TEXT_SIZE = 512
STATS_LEVELS = 17
STATS_RAILS = 8


class CError(Structure):
    _fields_ = [("code", c_int), ("text", c_char * ERROR_TEXT_SIZE)]


class CStore(Structure):
    _fields_ = [("context", c_void_p), ("rank", c_int), ("size", c_int), ("set", SET_CALLBACK), ("get", GET_CALLBACK)]


class CCommOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("store", POINTER(CStore)),
        ("plan", c_char_p),
        ("transports", c_char_p),
        ("interfaces", c_char_p),
        ("timeout_ms", c_int),
        ("progress_threads", c_int),
        ("measure", c_int),
    ]


class CRequestOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("wire", c_int),
        ("priority", c_int),
        ("rings", c_int),
        ("algorithm", c_char_p),
        ("rounding", c_int),
        ("seed", c_uint64),
        ("error_feedback", c_int),
        ("accuracy", c_int),
        ("reproducible", c_int),
    ]


class CStats(Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "bytes_sent",
            "bytes_received",
            "slices_sent",
            "slices_received",
            "wait_data_ns",
            "wait_credit_ns",
            "wait_lane_ns",
            "reduce_ns",
            "copy_ns",
        )
    ]


class CRequestStats(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("starts", c_uint64),
        ("total_ns", c_uint64),
        ("shortest_ns", c_uint64),
        ("longest_ns", c_uint64),
        ("n_levels", c_uint32),
        ("n_rails", c_uint32),
        ("all", CStats),
        ("levels", CStats * STATS_LEVELS),
        ("rails", CStats * STATS_RAILS),
    ]


STRUCTS = {
    "ddl_error": CError,
    "ddl_store": CStore,
    "ddl_comm_options": CCommOptions,
    "ddl_request_options": CRequestOptions,
    "ddl_stats": CStats,
    "ddl_request_stats": CRequestStats,
}


def _prototypes() -> Dict[str, Tuple[Any, List[Any]]]:
    """name: (result, arguments) of every function of ddl.h."""
    counts, out, err = POINTER(c_size_t), POINTER(c_void_p), POINTER(CError)
    made = [c_void_p, POINTER(CRequestOptions), out, err]  # communicator, options, request, error: the ends of all _init calls
    table: Dict[str, Tuple[Any, List[Any]]] = {
        "ddl_version": (c_char_p, []),
        "ddl_type_size": (c_size_t, [c_int]),
        "ddl_comm_create": (c_int, [POINTER(CCommOptions), out, err]),
        "ddl_comm_split": (c_int, [c_void_p, c_int, c_int, out, err]),
        "ddl_comm_dup": (c_int, [c_void_p, out, err]),
        "ddl_comm_destroy": (None, [c_void_p]),
        "ddl_comm_abort": (c_int, [c_void_p, c_char_p]),
        "ddl_comm_get_error": (c_int, [c_void_p, err]),
        "ddl_comm_rank": (c_int, [c_void_p]),
        "ddl_comm_size": (c_int, [c_void_p]),
        "ddl_comm_plan": (c_char_p, [c_void_p]),
        "ddl_comm_order": (c_int, [c_void_p, c_int, POINTER(c_int)]),
        "ddl_comm_node_name": (c_char_p, [c_void_p, c_int]),
        "ddl_mem_alloc": (c_int, [c_void_p, c_size_t, out, err]),
        "ddl_mem_free": (c_int, [c_void_p, c_void_p]),
        "ddl_request_set_buffers": (c_int, [c_void_p, c_void_p, c_void_p, err]),
        "ddl_start": (c_int, [c_void_p]),
        "ddl_test": (c_int, [c_void_p]),
        "ddl_wait": (c_int, [c_void_p]),
        "ddl_request_get_stats": (c_int, [c_void_p, POINTER(CRequestStats)]),
        "ddl_request_get_peer_stats": (c_int, [c_void_p, c_int, POINTER(CStats)]),
        "ddl_request_free": (c_int, [c_void_p]),
        "ddl_request_reset_feedback": (c_int, [c_void_p]),
        "ddl_request_get_feedback": (c_int, [c_void_p, POINTER(ctypes.c_float), c_size_t]),
        "ddl_request_set_feedback": (c_int, [c_void_p, POINTER(ctypes.c_float), c_size_t]),
    }
    collectives: Dict[str, List[Any]] = {
        "allreduce": [c_void_p, c_void_p, c_size_t, c_int, c_int],
        "broadcast": [c_void_p, c_size_t, c_int, c_int],
        "barrier": [],
        "reduce_scatter": [c_void_p, c_void_p, c_size_t, c_int, c_int],
        "reduce_scatter_counts": [c_void_p, c_void_p, counts, c_int, c_int],
        "allgather": [c_void_p, c_void_p, c_size_t, c_int],
        "allgather_counts": [c_void_p, c_void_p, counts, c_int],
        "reduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int],
        "alltoall": [c_void_p, c_void_p, c_size_t, c_int],
        "alltoall_counts": [c_void_p, counts, c_void_p, counts, c_int],
        "gather": [c_void_p, c_void_p, c_size_t, c_int, c_int],
        "gather_counts": [c_void_p, c_void_p, counts, c_int, c_int],
        "scatter": [c_void_p, c_void_p, c_size_t, c_int, c_int],
        "scatter_counts": [c_void_p, c_void_p, counts, c_int, c_int],
        "send": [c_void_p, c_size_t, c_int, c_int, c_uint32],
        "recv": [c_void_p, c_size_t, c_int, c_int, c_uint32],
    }
    for name, arguments in collectives.items():
        table["ddl_" + name] = (c_int, arguments + [c_void_p])
        table["ddl_" + name + "_init"] = (c_int, arguments + made)
    return table


PROTOTYPES = _prototypes()


def _candidates() -> Iterator[str]:
    """Where the library may be: what DDL_LIBRARY names and nothing else; beside this package's prefix; where the loader looks."""
    named = os.environ.get("DDL_LIBRARY")
    if named:
        yield named
        return
    folder = os.path.dirname(os.path.abspath(__file__))
    for _ in range(5):  # PREFIX/lib/python3.11/site-packages/ddl
        folder = os.path.dirname(folder)
        for place in ("", "lib", "lib64", os.path.join("lib", "*-linux-gnu*")):
            yield from glob.glob(os.path.join(glob.escape(folder), place, SONAME))
    yield SONAME


def _check_version(library: ctypes.CDLL, path: str) -> None:
    library.ddl_version.restype = c_char_p
    version = library.ddl_version().decode()
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        raise LibraryError(
            f"{path} is version {version}, and the Python package ddl is version {VERSION}: install both from one release, or name "
            "the other library in DDL_LIBRARY"
        )


def _load() -> ctypes.CDLL:
    reason = ""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as e:
            reason = str(e)
            continue
        if not hasattr(library, "ddl_comm_create"):  # another product's library of this name
            reason = f"{path} is not DDL for Slurm's"
            continue
        _check_version(library, path)
        for name, (result, arguments) in PROTOTYPES.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise LibraryError(
                    f"{path} has no {name}(): it is older than the Python package ddl {VERSION}; install both from one release"
                ) from None
            function.restype, function.argtypes = result, arguments
        return library
    raise LibraryError(
        f"{SONAME} was not found ({reason}): install DDL for Slurm, or name the library in DDL_LIBRARY or its folder in "
        "LD_LIBRARY_PATH"
    )


lib = _load()
