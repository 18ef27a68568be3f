# SPDX-License-Identifier: BSD-3-Clause
"""Solves on one GPU with more right-hand sides than are copied at once."""

import fleetblas
import numpy as np
import pytest


# A block of 128 rows takes 1 KiB for each right-hand side, and 32 MiB are copied at once.
@pytest.mark.parametrize("side", ["l", "r"])
@pytest.mark.parametrize("right_sides", [(32 << 10) + 100, (64 << 10) + 1])
def test_right_hand_sides_are_solved_in_parts(gpus, side, right_sides):
    order = 512 + 7  # above that from which triangles are solved by inverses
    random = np.random.default_rng(7)
    a = np.tril(random.standard_normal((order, order))) / order + np.eye(order)
    shape = (order, right_sides) if side == "l" else (right_sides, order)
    b = np.asfortranarray(random.standard_normal(shape))

    with fleetblas.Context(
        backend="cuda", offload="always", devices=1, tile=right_sides, cpu_share="off"
    ) as context:
        x = context.trsm(np.asfortranarray(a), b, side=side)
        last = context.stats()["last"]
    assert (last["where"], last["tile"], last["workers"]) == ("devices", right_sides, 1)

    residual = (a @ x if side == "l" else x @ a) - b
    assert np.abs(residual).max() < 100 * order * np.finfo(float).eps
