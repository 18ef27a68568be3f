#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# install.sh: installs the build under an empty prefix, moves that away, and builds and runs the C
# examples from it, by find_package and by pkg-config. It sees nothing of the source tree's headers.
#
# usage: install.sh SOURCE_FOLDER BUILD_FOLDER CMAKE
set -euo pipefail
source_folder=$1
build_folder=$2
cmake=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$cmake" --install "$build_folder" --prefix "$place/first" >"$place/log"
mv "$place/first" "$place/moved"
lib=$(dirname "$(find "$place/moved" -name libfleetblas.so)")
test -f "$lib/libfleetblas_preload.so"
test -f "$lib/libfleetblas_linpack.so"
test -f "$lib/fleetblas/libblas/libblas.so.3"
# Where the machine has an MPI.
for name in mpi scalapack; do
  [ ! -f "$build_folder/lib/libfleetblas_$name.so" ] || test -f "$lib/libfleetblas_$name.so"
done
test -f "$place/moved/share/fleetblas/machines/h200x8.json"
cp -r "$source_folder/examples/c" "$place/examples"

"$cmake" -S "$place/examples" -B "$place/build" -DCMAKE_PREFIX_PATH="$place/moved" >>"$place/log"
"$cmake" --build "$place/build" >>"$place/log"
built=0
for program in "$place"/examples/*.c; do
  name=$(basename "$program" .c)
  echo "find_package: $name"
  "$place/build/$name"
  built=$((built + 1))
done
test $built -gt 0

# The Python package carries the same files in a layout of its own.
"$cmake" --install "$build_folder" --component python --prefix "$place/package" >>"$place/log"
test -f "$place/package/machines/h200x8.json"
"$cmake" -S "$place/examples" -B "$place/build2" -Dfleetblas_DIR="$place/package/cmake" >>"$place/log"
"$cmake" --build "$place/build2" >>"$place/log"

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$lib/pkgconfig
  test "$(pkg-config --modversion fleetblas)" = \
    "$(sed -n 's/^project(fleetblas VERSION \([0-9.]*\).*/\1/p' "$source_folder/CMakeLists.txt")"
  test -f "$(pkg-config --variable=libblas fleetblas)"
  for program in "$place"/examples/*.c; do
    name=$(basename "$program" .c)
    echo "pkg-config: $name"
    # Word splitting is how the flags of pkg-config are meant to be used.
    # shellcheck disable=SC2046
    cc -std=c99 "$program" -o "$place/$name" $(pkg-config --cflags --libs fleetblas) -lm
    LD_LIBRARY_PATH=$lib "$place/$name"
  done
  printf '%s\n' '#include <fleetblas/linpack.h>' \
    'int main(void) { return fleet_linpack_simulate_json(0, 0, 0) == FLEET_OK; }' >"$place/simulate.c"
  # shellcheck disable=SC2046
  cc -std=c99 "$place/simulate.c" -o "$place/simulate" $(pkg-config --cflags --libs fleetblas_linpack)
  LD_LIBRARY_PATH=$lib "$place/simulate"
else
  echo "pkg-config: not on this machine, so only find_package was tried"
fi
echo "install: $built examples"
