"""Which query is matched to which object: the assignment of least cost."""

import math
from collections.abc import Sequence

import torch

from regard.config import DetectionConfig
from regard.errors import ModelError
from regard.shapes import Float, Int, Tensor
from regard.vision.detection.boxes import generalised_overlap, to_corners


def assign(costs: Sequence[Sequence[float]]) -> list[int]:
    r"""Assign a distinct column to each row so that the sum of costs is least (Kuhn 1955; Jonker & Volgenant 1987).

    .. math:: \hat\sigma = \arg\min_\sigma \sum_i c_{i \sigma(i)}

    Rows are added one by one. Each finds the shortest augmenting path, by costs reduced by prices u of rows and v of
    columns, from itself through taken columns to a free one; all rows on the path then change columns. This is the
    readable version; `assign_all` does the same for many problems at once. There may be more columns than rows.
    """
    rows, columns = len(costs), len(costs[0]) if costs else 0
    check_room(rows, columns)
    u, v = [0.0] * rows, [0.0] * columns
    owner = [-1] * columns
    for entering in range(rows):
        shortest, before = [math.inf] * columns, [-1] * columns
        done: set[int] = set()
        row, column = entering, -1
        while row >= 0:
            for j in range(columns):
                if j not in done and (reduced := costs[row][j] - u[row] - v[j]) < shortest[j]:
                    shortest[j], before[j] = reduced, column
            column = min((j for j in range(columns) if j not in done), key=shortest.__getitem__)
            step = shortest[column]
            u[entering] += step
            for j in done:
                u[owner[j]] += step
                v[j] -= step
            shortest = [math.inf if j in done else far - step for j, far in enumerate(shortest)]
            done.add(column)
            row = owner[column]
        while column >= 0:
            owner[column] = entering if before[column] < 0 else owner[before[column]]
            column = before[column]
    return [owner.index(row) for row in range(rows)]


def assign_all(costs: Float[Tensor, "P M N"], counts: Int[Tensor, " P"]) -> Int[Tensor, "P M"]:
    """Solve many assignment problems at once on their device: `assign`, each of its lines for all problems.

    Problem p has `counts[p]` rows; its other rows are not read, and get column 0. There is no host sync on a GPU: each
    row runs the maximum number of steps that it may need. Ties are broken arbitrarily.
    """
    problems, rows, columns = costs.shape
    check_room(rows, columns)
    costs = costs.double()
    # Row `rows` and column `columns` are sentinels: the start of a path, and the owner of free columns.
    u, v = costs.new_zeros(problems, rows + 1), costs.new_zeros(problems, columns + 1)
    owner = torch.full((problems, columns + 1), rows, device=costs.device)
    waits = costs.device.type == "cpu"
    for entering in range(rows):
        real = counts > entering
        owner[:, columns] = torch.where(real, entering, rows)
        shortest = torch.full_like(v, math.inf)
        before = torch.full_like(owner, columns)
        done = torch.zeros_like(owner, dtype=torch.bool)
        column = torch.full_like(counts, columns, dtype=torch.long)
        for _ in range(entering + 1):
            row = owner.gather(1, column[:, None])
            going = row < rows  # else a free column was reached
            if waits and not going.any():
                break
            done.scatter_(1, column[:, None], going | done.gather(1, column[:, None]))
            line = costs.gather(1, row.clamp(max=rows - 1)[:, :, None].expand(-1, -1, columns))[:, 0]
            reduced = line - u.gather(1, row) - v[:, :columns]
            closer = going & ~done[:, :columns] & (reduced < shortest[:, :columns])
            shortest[:, :columns] = torch.where(closer, reduced, shortest[:, :columns])
            before[:, :columns] = torch.where(closer, column[:, None], before[:, :columns])
            step, nearest = shortest.masked_fill(done, math.inf)[:, :columns].min(dim=1, keepdim=True)
            step = torch.where(going, step, 0.0)
            paid = done * step
            u.scatter_add_(1, owner, paid)
            v -= paid
            shortest -= step
            column = torch.where(going[:, 0], nearest[:, 0], column)
        for _ in range(entering + 1):
            # Column `columns`, where the path starts, is its own predecessor.
            at = column[:, None]
            earlier = before.gather(1, at)
            owner.scatter_(1, at, owner.gather(1, earlier))
            column = earlier[:, 0]
        owner[:, columns] = rows
    found = owner[:, :columns]
    chosen = costs.new_zeros(problems, rows + 1, dtype=torch.long)
    places = torch.arange(columns, device=costs.device).expand_as(found)
    return chosen.scatter(1, found, places)[:, :rows]


def check_room(objects: int, queries: int) -> None:
    """Refuse more objects than there are queries."""
    if objects > queries:
        raise ModelError(
            f"There are {objects} objects in an image, but {queries} object queries can find {queries} at most: train "
            f"with model.detection.queries={objects} or more, or leave objects out."
        )


@torch.no_grad()
def matching_costs(
    logits: Float[Tensor, "B L N W"],
    boxes: Float[Tensor, "B L N 4"],
    classes: Int[Tensor, "B M"],
    gold: Float[Tensor, "B M 4"],
    config: DetectionConfig,
) -> Float[Tensor, "B L M N"]:
    r"""Return the cost of matching each query to each object (Carion et al. 2020, section 3.1 and appendix A.2).

    .. math:: -\hat p_{\sigma(i)}(c_i) + \lambda_{L1} \|b_i - \hat b_{\sigma(i)}\|_1
        - \lambda_{iou} \mathrm{GIoU}(b_i, \hat b_{\sigma(i)})

    With probabilities rather than their logarithms, the parts have similar magnitudes. Differs from the paper: nothing.
    """
    chances = logits.float().softmax(dim=-1).transpose(2, 3)  # B L W N
    index = classes[:, None, :, None].expand(-1, chances.shape[1], -1, chances.shape[3])
    right = chances.gather(2, index)
    wanted, got = gold[:, None, :, None].float(), boxes[:, :, None].float()
    apart = (wanted - got).abs().sum(dim=-1)
    alike = generalised_overlap(to_corners(wanted), to_corners(got))
    return config.l1 * apart - config.class_cost * right - config.giou * alike


def match(costs: Float[Tensor, "B L M N"], counts: Int[Tensor, " B"]) -> Int[Tensor, "B L M"]:
    """Assign a query to each object, for each layer separately; padding gets query 0."""
    layers = costs.shape[1]
    return assign_all(costs.flatten(0, 1), counts.repeat_interleave(layers)).view(costs.shape[:3])
