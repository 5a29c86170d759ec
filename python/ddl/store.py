# SPDX-License-Identifier: Apache-2.0
"""A key-value store in Python over which ranks find each other where there is no PMIx."""

from __future__ import annotations

import ctypes
import errno
from typing import Any, Optional, Protocol

from ._library import GET_CALLBACK, SET_CALLBACK, CStore


class Store(Protocol):
    """What :meth:`ddl.Comm.create` takes as `store`. It is used only while the call runs, from its thread.

    Attributes:
        rank: this process's rank, 0 to size-1.
        size: number of ranks.
    """

    rank: int
    size: int

    def set(self, key: str, value: bytes) -> None:
        """Publishes a value; a key is set once."""

    def get(self, key: str, timeout: float) -> bytes:
        """Waits up to so many seconds for a key. Raises TimeoutError where it does not come."""


class Bridge:
    """The C callbacks of a store. An exception of the store becomes an errno, and is kept as the cause of the failure."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.exception: Optional[BaseException] = None
        self._last = ("", b"")  # a value that was too long for the caller's room is asked for again
        self._set, self._get = SET_CALLBACK(self._on_set), GET_CALLBACK(self._on_get)
        self.c = CStore(None, store.rank, store.size, self._set, self._get)

    def _on_set(self, _context: Any, key: bytes, data: int, size: int) -> int:
        try:
            self.store.set(key.decode(), ctypes.string_at(data, size) if size else b"")
            return 0
        except BaseException as e:  # nothing may pass into C
            self.exception = e
            return -errno.EIO

    def _on_get(self, _context: Any, key: bytes, data: int, capacity: int, size: Any, timeout_ms: int) -> int:
        try:
            name = key.decode()
            value = self._last[1] if self._last[0] == name else bytes(self.store.get(name, timeout_ms / 1000))
            size[0] = len(value)
            if len(value) > capacity:
                self._last = (name, value)
                return -errno.EMSGSIZE
            if value:
                ctypes.memmove(data, value, len(value))
            return 0
        except TimeoutError:
            return -errno.ETIMEDOUT
        except BaseException as e:  # nothing may pass into C
            self.exception = e
            return -errno.EIO
