#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# build.sh: configures a preset once and builds its targets, silently unless the build fails.
#
# usage: tools/build.sh PRESET [TARGET...]   (no target: all)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
shift
folder=build/$preset
log=$folder/build.log
mkdir -p "$folder"

quietly() {
  "$@" >"$log" 2>&1 && return
  grep -E 'error|FAILED|CMake Error' -A 6 "$log" | head -n 60 >&2 || tail -n 20 "$log" >&2
  printf 'build: failed (complete log: %s)\n' "$PWD/$log" >&2
  exit 1
}

# A newer compiler may have new warnings: they are errors in CI, but must not stop a user's build.
werror=$([ -n "${CI:-}" ] && echo ON || echo OFF)
# CI runs nothing on GPUs: compiling kernels for the oldest and the newest generation shows their errors.
kernels=${CI:+-DCMAKE_CUDA_ARCHITECTURES=75-virtual;90-real}
# Nor does what CI needs depend on what ccache remembers.
unity=${CI:+-DFLEETBLAS_UNITY=ON}
# Where the machine has no MPI, the tests bring one.
if [ -d .deps/mpich ]; then export MPI_HOME=$PWD/.deps/mpich; fi
lacks_mpi() { grep -q '^MPI_CXX_COMPILER:.*NOTFOUND' "$folder/CMakeCache.txt"; }
if [ -f "$folder/build.ninja" ] && [ -n "${MPI_HOME:-}" ] && lacks_mpi; then
  rm "$folder/build.ninja"
fi
if [ ! -f "$folder/build.ninja" ]; then
  quietly cmake --preset "$preset" -DFLEETBLAS_WERROR="$werror" ${kernels:+"$kernels"} $unity
  sed -n 's/^-- left out: /build: left out: /p' "$log"
fi
started=$SECONDS
quietly cmake --build "$folder" --parallel "${JOBS:-$(nproc)}" ${1:+--target "$@"}
printf 'build: %s in %d s\n' "$folder" $((SECONDS - started))
