# SPDX-License-Identifier: Apache-2.0
"""The all-reduce as an operation of JAX: XLA's custom call to libddl_xla.so, ordered by an effect.

Ordered effects of one's own are not in JAX's public interface; where this release has them elsewhere, or libddl_xla.so is not
installed, the operation is JAX's ordered io_callback instead, which every release has: the same results and order, with a copy in
and out. DDL_JAX=callback asks for that.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import jax
import numpy

from .._library import SONAME, Op
from ..comm import Comm
from ..errors import error
from ..request import Request

_TARGET = "ddl_allreduce"
_attached: List["_Attached"] = []  # by number


class _Attached:
    """A communicator under a number. It stands among the communicator's requests, and ends what is made there as they do."""

    def __init__(self, comm: Comm, number: int) -> None:
        self.comm, self.number = comm, number
        self._handle: Optional[int] = None  # nothing that could be tested
        if native is not None:
            rc = native.ddl_xla_attach(number, comm._live())
            if rc:
                raise error(rc)
        comm._requests.add(self)  # type: ignore[arg-type]

    def free(self) -> None:
        if native is not None:
            native.ddl_xla_detach(self.number)


def number_of(comm: Comm) -> int:
    """The number under which compiled programs know a communicator: they are given out in the same order on every rank."""
    for attached in _attached:
        if attached.comm is comm:
            return attached.number
    comm._live()
    _attached.append(_Attached(comm, len(_attached)))
    return _attached[-1].number


def _load() -> Optional[ctypes.CDLL]:
    """libddl_xla.so lies in the folder ddl beside the library in use."""
    if os.environ.get("DDL_JAX") == "callback" or not hasattr(jax, "ffi"):
        return None
    with open("/proc/self/maps") as maps:
        paths = [line.split()[-1] for line in maps if os.path.basename(line.split()[-1]).startswith(SONAME)]
    for path in paths[:1]:
        for name in glob.glob(os.path.join(glob.escape(os.path.dirname(path)), "ddl", "libddl_xla.so")):
            library = ctypes.CDLL(name)
            library.ddl_xla_attach.argtypes = [ctypes.c_int64, ctypes.c_void_p]
            library.ddl_xla_detach.argtypes = [ctypes.c_int64]
            library.ddl_xla_detach.restype = None
            return library
    return None


def _effect() -> Any:
    """An effect that JAX keeps in order, and allows in loops and branches; None where this release has none."""
    try:
        from jax._src import effects

        class Collective(effects.Effect):
            def __str__(self) -> str:
                return "ddl"

        kinds = (effects.lowerable_effects, effects.ordered_effects, effects.control_flow_allowed_effects)
        for kind in kinds:
            kind.add_type(Collective)
        return Collective()
    except (ImportError, AttributeError):
        return None


def _operation(effect: Any) -> Any:
    """The primitive. Raises ImportError or AttributeError where this release of JAX has its parts elsewhere."""
    from jax._src.core import abstract_token
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    primitive = Primitive("ddl_allreduce")
    primitive.multiple_results = True

    def abstract(*arrays: Any, numbers: Any, algorithm: str) -> Any:
        return [array.update(weak_type=False) for array in arrays], {effect}

    def lower(context: Any, *operands: Any, numbers: Any, algorithm: str) -> Any:
        """The call has a token besides its arrays, and returns the next one: that is what orders calls."""
        tokens = context.tokens_in
        inner = context.replace(avals_in=[*context.avals_in, abstract_token], avals_out=[*context.avals_out, abstract_token])
        made = jax.ffi.ffi_lowering(_TARGET, has_side_effect=True)(
            inner, *operands, tokens.get(effect), numbers=numpy.array(numbers, numpy.int64), algorithm=algorithm
        )
        *results, token = made
        context.set_tokens_out(tokens.update_tokens(type(tokens)({effect: token})))
        return results

    primitive.def_effectful_abstract_eval(abstract)
    primitive.def_impl(lambda *arrays, **keywords: _compiled(primitive, tuple(keywords.items()))(*arrays))
    mlir.register_lowering(primitive, lower, platform="cpu")
    return primitive


@functools.lru_cache(maxsize=None)
def _compiled(primitive: Any, keywords: Tuple[Any, ...]) -> Any:
    """What an all-reduce outside of jit is."""
    return jax.jit(functools.partial(primitive.bind, **dict(keywords)))


_kept: Dict[Any, List[Request]] = {}  # requests of the callback, by what all ranks agree on


def _by_callback(arrays: Sequence[Any], numbers: Tuple[int, ...], algorithm: str) -> List[Any]:
    """The same by JAX's own means."""
    from jax.experimental import io_callback

    comm = _attached[numbers[0]].comm
    names = ("wire", "rings", "rounding", "seed", "accuracy")
    keywords = dict(
        zip(names, numbers[2:7]), algorithm=algorithm or None, reproducible=None if numbers[7] < 0 else bool(numbers[7])
    )
    kind = (numbers, algorithm, tuple((a.shape, a.dtype) for a in arrays))

    def run(*values: Any) -> Tuple[Any, ...]:
        comm._live()
        results = [numpy.array(value) for value in values]  # copies, which may be written to
        if kind not in _kept:
            _kept[kind] = [comm.allreduce_init(r.reshape(-1), op=Op(numbers[1]), **keywords) for r in results]
        for request, result in zip(_kept[kind], results):
            request.set_buffers(result.reshape(-1), result.reshape(-1))
            request.start()
        for request in _kept[kind]:
            request.wait()
        return tuple(results)

    shapes = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays)
    return list(io_callback(run, shapes, *arrays, ordered=True))


def _register() -> Any:
    """The operation by XLA's custom call; None: by the callback."""
    effect = _effect() if native is not None else None
    if native is None or effect is None:
        return None
    try:
        made = _operation(effect)
    except (ImportError, AttributeError):
        return None
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(native.ddl_xla_allreduce), platform="cpu")
    return made


native = _load()
_primitive = _register()
if _primitive is None:
    native = None


def way() -> str:
    """How calls are made: "custom call" or "callback"."""
    return "callback" if _primitive is None else "custom call"


def allreduce(arrays: Sequence[Any], numbers: Tuple[int, ...], algorithm: str) -> List[Any]:
    """Arrays with the operation over all ranks; numbers are those of python/xla/xla.h, in its order."""
    if _primitive is None:
        return _by_callback(arrays, numbers, algorithm)
    return _primitive.bind(*arrays, numbers=numbers, algorithm=algorithm)
