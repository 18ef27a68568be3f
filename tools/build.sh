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
# CI runs nothing on GPUs: compiling kernels for the oldest and the newest generation shows their errors,
# and optimising them shows no more. Who has GPUs and CI in the environment sees it in every time.
kernels=()
if [ -n "${CI:-}" ]; then
  kernels=('-DCMAKE_CUDA_ARCHITECTURES=75-virtual;90-real'
    '-DCMAKE_CUDA_FLAGS_RELEASE=-O1 -DNDEBUG -Xcicc -O0 -Xptxas -O0'
    -DFLEETBLAS_GPU_PROGRAM_FLAGS=-O0)
fi
# Nor does what CI needs depend on what ccache remembers. It has memory for larger parts.
unity=${CI:+-DFLEETBLAS_UNITY=ON -DFLEETBLAS_UNITY_FILES=24}
# It has memory for its two compilers: with sanitizers a tenth of their time goes into finding some.
heap=${CI:+-DFLEETBLAS_COMPILER_HEAP=524288}
# Where the machine has no MPI, the tests bring one. A build that has looked for one looks again if
# there is another one now.
mpicxx=$(command -v mpicxx || true)
if [ -z "$mpicxx" ] && [ -d .deps/mpich ]; then
  export MPI_HOME=$PWD/.deps/mpich
  mpicxx=$MPI_HOME/bin/mpicxx
fi
known=$(sed -n 's/^MPI_CXX_COMPILER:FILEPATH=//p' "$folder/CMakeCache.txt" 2>/dev/null || true)
if [ -n "$known" ] && [ -n "$mpicxx" ] && [ "$(realpath -m "$known")" != "$(realpath -m "$mpicxx")" ]; then
  forget_mpi='-UMPI*'
  rm -f "$folder/build.ninja"
fi
if [ ! -f "$folder/build.ninja" ]; then
  quietly cmake --preset "$preset" -DFLEETBLAS_WERROR="$werror" "${kernels[@]}" $unity \
    $heap ${forget_mpi:-}
  sed -n 's/^-- left out: /build: left out: /p' "$log"
fi
started=$SECONDS
quietly cmake --build "$folder" --parallel "${JOBS:-$(nproc)}" ${1:+--target "$@"}
printf 'build: %s in %d s\n' "$folder" $((SECONDS - started))
