#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# sanitize.sh: some of gpu_tests under compute-sanitizer, reduced; ends with one line per tool: its
# own closing line. Fails if any tool found an error, or could not run.
#
# usage: tests/gpu/sanitize.sh [FOLDER]   (of the program gpu_tests; default: build/release/bin)
#        COMPUTE_SANITIZER names the tool where it is not in PATH or /usr/local/cuda/bin.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$(cd "${1:-$root/build/release/bin}" && pwd) || exit 1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
for name in $(compgen -e FLEETBLAS_); do
  [ "$name" = FLEETBLAS_CPU_BLAS ] || unset "$name"
done

sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
if ! [ -x "$sanitizer" ]; then
  printf 'sanitize: there is no compute-sanitizer: it comes with the CUDA toolkit\n' >&2
  exit 1
fi

failed=()
closing=()

# under TOOL SCALE FILTER
# Errors that a call returns count. By default newer tools also report what the driver notes for calls
# that succeed: cudaMemPoolSetAccess, each time it opens a device's pool to another device (driver
# 580; the access is given).
under() {
  local tool=$1 scale=$2 filter=$3 started=$SECONDS status
  printf '\n== %s: %s\n' "$tool" "$filter"
  FLEETBLAS_TEST_SCALE=$scale timeout "${LIMIT_S:-300}" "$sanitizer" --tool "$tool" \
    --report-api-errors explicit --error-exitcode 9 \
    "$bin/gpu_tests" --gtest_filter="$filter" 2>&1 | tee "$logs/$tool"
  status=${PIPESTATUS[0]}
  # A program whose tests fail has not shown what was to be looked at.
  [ "$status" = 0 ] && grep -q '^\[  PASSED  \] [1-9]' "$logs/$tool" || failed+=("$tool")
  closing+=("$(printf '%-10s %4d s  status %d  %s; %s' "$tool" $((SECONDS - started)) "$status" \
    "$(grep -E '^=+ ERROR SUMMARY' "$logs/$tool" | tail -n 1)" \
    "$(grep -E '^\[  (PASSED|FAILED) +\]' "$logs/$tool" | tail -n 1)")")
}

# No access outside of what was allocated, and no CUDA call refused that the tool knows to be wrong.
under memcheck 0.03 'Cuda.RandomPlansGiveTheRightC:Cuda.GraphsGiveWhatStreamsGive:Cuda.AFault*'
# No kernel reads what was never copied nor computed. Without poison, which would count as written.
under initcheck 0.1 'Cuda.GraphsGiveWhatStreamsGive:Cuda.AFault*'
# racecheck and synccheck look at memory shared by the threads of a block: our kernels have none.

printf '\n'
printf '%s\n' "${closing[@]}"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'sanitize: failed: %s\n' "${failed[*]}"
  exit 1
fi
printf 'sanitize: nothing found in %d s\n' $SECONDS
