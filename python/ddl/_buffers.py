# SPDX-License-Identifier: Apache-2.0
"""What can be handed to a collective: address, number of elements and type of whatever holds contiguous numbers.

In this order: an object with ``data_ptr()`` (torch), numpy's array interface, the buffer protocol (bytearray, array, memoryview),
DLPack on the host. Nothing is copied, and no framework is imported.
"""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Optional

from ._library import Type
from .errors import argument_error

NAMES = {t.name.lower(): t for t in Type}
# the buffer protocol's letters, by kind and size
_KINDS = {**{c: "f" for c in "efd"}, **{c: "i" for c in "bhilqn"}, **{c: "u" for c in "BHILQNc"}}
_BY_KIND = {
    ("f", 8): Type.FLOAT64,
    ("f", 4): Type.FLOAT32,
    ("f", 2): Type.FLOAT16,
    ("bf", 2): Type.BFLOAT16,
    ("i", 8): Type.INT64,
    ("i", 4): Type.INT32,
    ("i", 1): Type.INT8,
    ("u", 1): Type.UINT8,
}


@dataclasses.dataclass
class Buffer:
    """Memory that a request may borrow."""

    address: int  # 0: none
    count: int  # elements
    type: Optional[Type]  # None where there is no memory
    owner: Any  # keeps the memory where it is


NOTHING = Buffer(0, 0, None, None)


def type_of(name: str) -> Type:
    """The element type of a name such as "float32". Raises ArgumentError."""
    try:
        return NAMES[name]
    except KeyError:
        raise argument_error(f"elements of type {name} cannot be used: give one of {', '.join(NAMES)}") from None


def buffer(thing: Any, writable: bool, what: str = "buffer") -> Buffer:
    """Looks at `thing`. Raises ArgumentError with a sentence where it is of no use."""
    if thing is None:
        return NOTHING
    if hasattr(thing, "data_ptr"):
        return _tensor(thing, what)
    if hasattr(thing, "__array_interface__"):
        return _array(thing, writable, what)
    try:
        view = memoryview(thing)
    except (TypeError, BufferError, ValueError):
        view = None
    if view is not None:
        return _view(view, writable, what)
    if hasattr(thing, "__dlpack__"):
        return _dlpack(thing, what)
    raise argument_error(
        f"the {what} is a {type(thing).__name__}: give an array or tensor (buffer protocol, numpy, DLPack or data_ptr)"
    )


def _contiguous(good: bool, what: str) -> None:
    if not good:
        raise argument_error(f"the {what} is not contiguous: make a contiguous copy of it first")


def _tensor(tensor: Any, what: str) -> Buffer:
    if tensor.device.type != "cpu":
        raise argument_error(f"the {what} is on device {tensor.device}: move it to the CPU first")
    _contiguous(tensor.is_contiguous(), what)
    return Buffer(tensor.data_ptr(), tensor.numel(), type_of(str(tensor.dtype).rpartition(".")[2]), tensor)


def _array(array: Any, writable: bool, what: str) -> Buffer:
    interface = array.__array_interface__
    address, read_only = interface["data"]
    if writable and read_only:
        raise argument_error(f"the {what} is read-only and results are written to it: give a writable array")
    _contiguous(interface.get("strides") is None, what)
    count = 1
    for length in interface["shape"]:
        count *= length
    dtype = getattr(array, "dtype", None)
    if dtype is None or interface["typestr"][0] == ">":
        raise argument_error(f"the {what} has elements of type {interface['typestr']}: give numbers in this machine's byte order")
    return Buffer(address, count, type_of(dtype.name), array)


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def _view(view: memoryview, writable: bool, what: str) -> Buffer:
    if writable and view.readonly:
        raise argument_error(f"the {what} is read-only and results are written to it: give writable memory")
    _contiguous(view.c_contiguous, what)
    code = view.format.lstrip("@=<")
    kind = _BY_KIND.get((_KINDS.get(code, ""), view.itemsize))
    if kind is None:
        raise argument_error(f"elements of format {view.format!r} cannot be used as {what}: give one of {', '.join(NAMES)}")
    raw = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), 0)
    address = raw.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))
    return Buffer(address, view.nbytes // view.itemsize, kind, view)


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DL_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
_DL_KINDS = {0: "i", 1: "u", 2: "f", 4: "bf"}
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _dlpack(thing: Any, what: str) -> Buffer:
    capsule = thing.__dlpack__()
    tensor = DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    if tensor.device_type not in _DL_HOST:
        raise argument_error(f"the {what} is on DLPack device {tensor.device_type}: move it to the CPU first")
    kind = _BY_KIND.get((_DL_KINDS.get(tensor.code, ""), tensor.bits // 8)) if tensor.lanes == 1 else None
    if kind is None:
        raise argument_error(
            f"the {what} has DLPack elements of code {tensor.code}, {tensor.bits} bits: give one of {', '.join(NAMES)}"
        )
    count = 1
    for d in reversed(range(tensor.ndim)):
        _contiguous(not tensor.strides or tensor.shape[d] <= 1 or tensor.strides[d] == count, what)
        count *= tensor.shape[d]
    return Buffer((tensor.data or 0) + tensor.byte_offset, count, kind, (thing, capsule))
