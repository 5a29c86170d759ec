# SPDX-License-Identifier: Apache-2.0
"""All-reduce of sparse tensors, as gradients of embeddings are: every rank gets what all have, and adds it up.

Ranks have different numbers of elements, so they tell them first; the caller waits for that. What is then gathered has room for a
power of two of them, so that a few requests serve all steps.
"""

from __future__ import annotations

from typing import Any, List

import torch

from .._library import Op
from ..errors import argument_error


def _gather(group: Any, mine: torch.Tensor) -> List[torch.Tensor]:
    all_of_them = [torch.empty_like(mine) for _ in range(group.size())]
    group.allgather([all_of_them], [mine]).wait()
    return all_of_them


def _padded(tensor: torch.Tensor, room: int) -> torch.Tensor:
    padded = tensor.new_zeros((room, *tensor.shape[1:]))
    padded[: tensor.shape[0]] = tensor
    return padded


def allreduce(group: Any, tensor: torch.Tensor, op: Op) -> None:
    """The tensor (COO) becomes the sum or the average over all ranks, coalesced, with the same bits on all. Blocks.

    Raises :class:`ddl.ArgumentError` for another operation, and where a rank's tensor has another shape.
    """
    if op not in (Op.SUM, Op.AVG):
        raise argument_error("backend ddl reduces sparse tensors by SUM and AVG alone: make them dense for other operations")
    mine = tensor.coalesce()
    facts = torch.tensor([mine._nnz(), mine.sparse_dim(), *mine.shape])
    rows = _gather(group, facts)
    for rank, row in enumerate(rows):
        if not torch.equal(row[1:], facts[1:]):
            shape, dims = tuple(row[2:].tolist()), int(row[1])
            raise argument_error(
                f"the sparse tensor of rank {rank} has shape {shape} with {dims} sparse dimensions, that of rank {group.rank()} "
                f"{tuple(mine.shape)} with {mine.sparse_dim()}: give tensors of one shape"
            )
    counts = [int(row[0]) for row in rows]
    if max(counts) == 0:
        return
    room = 1 << (max(counts) - 1).bit_length()
    places = _gather(group, _padded(mine.indices().t().contiguous(), room))
    values = _gather(group, _padded(mine.values(), room))
    total = torch.sparse_coo_tensor(
        torch.cat([p[:n] for p, n in zip(places, counts)]).t(), torch.cat([v[:n] for v, n in zip(values, counts)]), mine.shape
    ).coalesce()
    tensor.copy_(total / group.size() if op is Op.AVG else total)
