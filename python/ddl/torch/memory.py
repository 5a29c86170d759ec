# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory that the ranks of a node reduce in place (ddl_mem_alloc).

torch may drop a tensor after the interpreter has ended, and memory that Python owns then waits for an interpreter lock that nobody
gives. So such a tensor comes by DLPack, with a record that C's free() releases; the memory itself stays until the communicator
ends.
"""

from __future__ import annotations

import ctypes

import torch
import torch.utils.dlpack

from .._buffers import DLTensor
from ..comm import Comm

_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_NAME = b"dltensor"  # the capsule borrows it
_UINT8 = (1, 8)


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("shape", ctypes.c_int64),
        ("stride", ctypes.c_int64),
    ]


def zeros(comm: Comm, count: int, dtype: torch.dtype) -> torch.Tensor:
    """count zeros in one row."""
    size = count * torch.empty(0, dtype=dtype).element_size()
    address = comm.keep_bytes(size)
    at = _libc.malloc(ctypes.sizeof(_Managed))
    if not at:
        raise MemoryError
    record = _Managed.from_address(at)
    record.shape, record.stride = size, 1
    tensor = record.tensor
    tensor.data, tensor.byte_offset = address, 0
    tensor.device_type, tensor.device_id, tensor.ndim = 1, 0, 1
    tensor.code, tensor.bits, tensor.lanes = *_UINT8, 1
    tensor.shape = ctypes.cast(at + _Managed.shape.offset, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(at + _Managed.stride.offset, ctypes.POINTER(ctypes.c_int64))
    record.context, record.deleter = None, ctypes.cast(_libc.free, ctypes.c_void_p).value
    return torch.utils.dlpack.from_dlpack(_new_capsule(at, _NAME, None)).view(dtype)
