# SPDX-License-Identifier: Apache-2.0
"""What a call of torch.distributed becomes: a start of a persistent request, and the Work that its caller waits for.

Requests are kept by what all ranks that take part agree on (collective, lengths, type, operation, root), never by addresses, which
differ from rank to rank: so all ranks make a request or find one together. Of each kind there are a few, used in turn, so that as
many calls may be under way; a call whose turn comes while the request still works starts when that is complete.
"""

from __future__ import annotations

import collections
import queue
import threading
import weakref
from typing import Any, Callable, List, Optional, Tuple

import torch
from torch.distributed import Work as _Work

from ..errors import Error
from ..request import Request

AT_ONCE = 4  # calls of one kind that are under way at once
KINDS = 256  # kinds that are kept
Future = torch.futures.Future


class Slot:
    """A request and the last call that it was used for."""

    __slots__ = ("request", "last", "at")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.last: Callable[[], Optional[Work]] = lambda: None  # whoever waits for it keeps it alive, and with it the result
        self.at: Tuple[int, int] = (-1, -1)


class Pool:
    """The requests of a group, or of the messages between two ranks with one tag: whoever takes part makes the same calls in
    order."""

    def __init__(self) -> None:
        self._kinds: "collections.OrderedDict[Tuple[Any, ...], Tuple[List[Slot], List[int]]]" = collections.OrderedDict()

    def take(self, kind: Tuple[Any, ...], make: Callable[[], Request]) -> Slot:
        """The slot whose turn it is; `make` makes its request where there is none yet."""
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= KINDS:
                self._drop(next(iter(self._kinds)))
            found = self._kinds[kind] = ([], [0])
        else:
            self._kinds.move_to_end(kind)
        slots, calls = found
        turn = calls[0] % AT_ONCE
        if turn == len(slots):
            slots.append(Slot(make()))
        calls[0] += 1
        return slots[turn]

    def _drop(self, kind: Tuple[Any, ...]) -> None:
        slots, _ = self._kinds.pop(kind)
        for slot in slots:
            last = slot.last()
            if last is not None:
                last.settle()
            slot.request.free()

    def clear(self) -> None:
        """Frees all; what is under way stays with the communicator, which ends it."""
        for slots, _ in self._kinds.values():
            for slot in slots:
                try:
                    slot.request.free()
                except Error:
                    pass
        self._kinds.clear()


class Work(_Work):  # type: ignore[misc]
    """One call. `wait` runs in the caller's thread; a thread of the group's comes in only where a Future is asked for."""

    def __init__(
        self,
        group: Any,
        slot: Optional[Slot],
        send: int = 0,
        recv: int = 0,
        keep: Any = None,
        result: Any = None,
        finish: Any = None,
        message: bool = False,
    ) -> None:
        super().__init__()
        self._group = group
        self._message = message  # between two ranks: they do not come in an order that all share
        self._slot = slot
        self._at = (send, recv)
        self._keep = keep
        self._result = result
        self._finish: Optional[Callable[[], None]] = finish  # after completion: copies to where the caller wants the result
        self._failure: Optional[BaseException] = None
        self._future: Any = None
        self._lock = threading.Lock()
        self._before: Optional[Work] = None
        self.over = slot is None
        if slot is None:
            return
        self._before = slot.last()
        slot.last = weakref.ref(self)
        if self._before is None or self._before.over:
            self._start()
        elif self._before.is_completed():
            self._start()
        else:
            group.complete(self, None, message)

    def _start(self) -> None:
        self._before = None
        slot = self._slot
        assert slot is not None
        try:
            if slot.at != self._at:
                slot.request.lay(self._at[0], self._at[1], None)
                slot.at = self._at
            slot.request.start()
        except Error as e:
            self._end(e)

    def _end(self, failure: Optional[BaseException]) -> None:
        self._failure = failure
        if failure is None and self._finish is not None:
            self._finish()
        self._keep = self._finish = self._before = self._slot = None
        self.over = True

    def settle(self) -> None:
        """Waits, and raises nothing."""
        if self.over:
            return
        with self._lock:
            if self.over:
                return
            if self._before is not None:
                self._before.settle()
                self._start()
                if self.over:
                    return
            try:
                self._slot.request.wait()  # type: ignore[union-attr]
            except Error as e:
                self._end(e)
            else:
                self._end(None)

    def wait(self, timeout: Any = None) -> bool:
        """Blocks until complete (or the group's deadline). Raises :class:`ddl.Error` where it failed."""
        self.settle()
        self._group.release(self)
        if self._failure is not None:
            raise self._failure
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self.over:
            return True
        if not self._lock.acquire(blocking=False):
            return False  # another thread waits for it
        try:
            if self._before is not None:
                if not self._before.is_completed():
                    return False
                self._start()
            if not self.over:
                try:
                    if not self._slot.request.test():  # type: ignore[union-attr]
                        return False
                except Error as e:
                    self._end(e)
                else:
                    self._end(None)
            return True
        finally:
            self._lock.release()

    def is_success(self) -> bool:
        return self.is_completed() and self._failure is None

    def exception(self) -> Optional[BaseException]:
        return self._failure

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        """A Future of the result, for those who cannot call `wait`: DDP's reducer."""
        if self._future is None:
            told: Any = Future()
            self._future = told.then(self._tell)  # a failure raised in a callback is safe in every release, set_exception() is not
            if self.over:
                told.set_result(None)
            else:
                self._group.complete(self, told, self._message)
            self._group.release(self)
        return self._future

    def _tell(self, _: Any) -> Any:
        if self._failure is not None:
            raise self._failure
        return self._result


class Several(_Work):  # type: ignore[misc]
    """Calls that make one."""

    def __init__(self, group: Any, works: List[Work], result: Any) -> None:
        super().__init__()
        self._group, self._works, self._result = group, works, result
        group.hold(self)

    def wait(self, timeout: Any = None) -> bool:
        self._group.release(self)
        for work in self._works:
            work.wait()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self._works])

    def is_success(self) -> bool:
        return all([work.is_success() for work in self._works])

    def exception(self) -> Optional[BaseException]:
        return next((e for e in (work.exception() for work in self._works) if e is not None), None)

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        result = self._result
        self._group.release(self)

        def tell(done: Any) -> Any:
            for future in done.value():
                future.value()
            return result

        return torch.futures.collect_all([work.get_future() for work in self._works]).then(tell)


class Completer:
    """A thread that waits for works in the order in which they were started, and completes their Futures."""

    def __init__(self) -> None:
        self._queue: "queue.SimpleQueue[Optional[Tuple[Any, Any]]]" = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ddl-futures", daemon=True)
        self._thread.start()

    @staticmethod
    def once(work: Any, told: Any) -> None:
        """A thread for this one alone."""

        def run() -> None:
            work.settle()
            if told is not None:
                told.set_result(None)

        threading.Thread(target=run, name="ddl-message", daemon=True).start()

    def add(self, work: Any, told: Any = None) -> None:
        self._queue.put((work, told))

    def stop(self) -> None:
        self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            work, told = item
            work.settle()
            if told is not None:
                told.set_result(None)
            del item, work, told
