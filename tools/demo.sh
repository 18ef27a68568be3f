#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# demo.sh: the demonstration of `make demo`: an unmodified NumPy script on four virtual devices. It
# expects a built tree and .venv's bin folder in PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p out
devices=(--backend host --devices 4)

heading() { printf '\n== %s\n' "$1"; }

heading "examples/demo.py, unmodified, with every product on four virtual devices"
printf '%s\n' \
  "Each product has two lines. The library prints the time of the call (and of its planning, if" \
  "the plan is new), the predicted time of the plan, and the devices that it ran on. The script" \
  "prints the shape, the time, and the check of the result." ""
FLEETBLAS_OFFLOAD=always FLEETBLAS_VERBOSE=1 fleetblas run "${devices[@]}" -- \
  python examples/demo.py 2>&1

heading "Predicted against measured again, with repeats, the lower bound and the CPU BLAS"
fleetblas bench gemm --type d --size 2K "${devices[@]}" --repeat 5 --warmup 2 --vs hostblas
fleetblas bench gemm --type s --m 4K --n 1K --k 1K --transa t "${devices[@]}" --repeat 5 --warmup 2 |
  tail -n +2

heading "The same script's timeline"
FLEETBLAS_OFFLOAD=always fleetblas trace "${devices[@]}" -o out/demo.html -- \
  python examples/demo.py >/dev/null
printf 'Open %s in a browser.\n' "$PWD/out/demo.html"

heading "The plan of a product on a node with eight H200 GPUs"
fleetblas plan gemm --type d --size 16K --place h,h,h --machine h200x8
