#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh: all tests that need GPUs, on all GPUs of this machine; ends with the runners' own closing
# lines. Fails if any part did, or could not run.
#
# usage: tests/gpu/run.sh [FOLDER]   (of the programs gpu_tests and gpu_panel_tests; default: build/release/bin)
#        PYTHON=python3 names the interpreter, which needs NumPy and pytest.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$(cd "${1:-$root/build/release/bin}" && pwd) || exit 1
python=${PYTHON:-python3}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# A setting from outside must not change what is tested.
for name in $(compgen -e FLEETBLAS_); do
  case $name in
    FLEETBLAS_TEST_SCALE | FLEETBLAS_CPU_BLAS) ;;
    *) unset "$name" ;;
  esac
done

# Streams are held while calls compute: what is behind one in a hardware queue waits with it. With
# kernels loaded early (CUDA_MODULE_LOADING=EAGER) calls did not end beside a held stream on H100.
export CUDA_DEVICE_MAX_CONNECTIONS=32

failed=()
closing=()

# part NAME PATTERN COMMAND...: runs it and keeps its closing lines, which match PATTERN.
part() {
  local name=$1 pattern=$2 started=$SECONDS status lines
  shift 2
  printf '\n== %s\n' "$name"
  "$@" 2>&1 | tee "$logs/$name"
  status=${PIPESTATUS[0]}
  lines=$(grep -E "$pattern" "$logs/$name" | tail -n 3)
  [ "$status" = 0 ] && [ -n "$lines" ] || failed+=("$name")
  closing+=("$(printf '%-8s %4d s  %s' "$name" $((SECONDS - started)) \
    "${lines:-no closing line: it ended with status $status}")")
}

part gtest '^\[  (PASSED|FAILED) +\]|^ *[0-9]+ FAILED TEST' "$bin/gpu_tests"
part panels '^\[  (PASSED|FAILED) +\]|^ *[0-9]+ FAILED TEST' "$bin/gpu_panel_tests"

# The package made ready in the tree, an installed one, or the libraries beside the program.
if [ -e "$root/python/fleetblas/lib/libfleetblas_cuda.so" ]; then
  export PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH}
elif [ -e "$bin/../lib/libfleetblas_cuda.so" ]; then
  export PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH}
  FLEETBLAS_LIB_DIR=$(cd "$bin/../lib" && pwd)
  export FLEETBLAS_LIB_DIR
fi
if "$python" -c 'import numpy, pytest' 2>/dev/null; then
  part python '[0-9]+ (passed|failed|skipped|error)' \
    env PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -rs -p no:cacheprovider "$root/tests/gpu/python"
else
  failed+=(python)
  closing+=("python: $python has no NumPy or no pytest")
fi

printf '\n'
printf '%s\n' "${closing[@]}"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'gpu tests: failed: %s\n' "${failed[*]}"
  exit 1
fi
printf 'gpu tests: all parts passed in %d s\n' $SECONDS
