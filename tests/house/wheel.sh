#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# wheel.sh: installs a wheel into an empty environment, without a network and without any of its
# dependencies, and uses it from there: commands, a program under the drop-in, and the C examples
# built against the installed folder by pkg-config and by find_package.
#
# usage: wheel.sh SOURCE_FOLDER WHEEL|BUILD_FOLDER CMAKE   (a build folder is packed first)
set -euo pipefail
source_folder=$(cd "$1" && pwd)
cmake=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
wheel=$(realpath "$2")
if [ -d "$wheel" ]; then
  "$source_folder/tools/wheel.sh" "$wheel" "$place/dist"
  wheel=$(echo "$place"/dist/*.whl)
fi
cd "$place" # nothing of the source tree is to be found by chance
unset PYTHONPATH FLEETBLAS_LIB_DIR FLEETBLAS_CPU_BLAS
export FLEETBLAS_CACHE_DIR=$place/cache

[[ $wheel == *-py3-none-manylinux_2_*_*.whl ]] || {
  echo "the tag is not that of a wheel for every Python and many systems: $wheel"
  exit 1
}

python3 -m venv empty
empty/bin/pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
run=$place/empty/bin/fleetblas
paths=$("$run" paths)
folder() { sed -n 's/^ *"'"$1"'": "\(.*\)",\{0,1\}$/\1/p' <<<"$paths"; }

"$run" --version
"$run" plan gemm --size 4K --machine h200x8 | grep 'of bound'
# There is no NumPy in this environment, and perhaps no BLAS: no reason not to work.
"$run" doctor --backend host --devices 2 >doctor.txt
grep '^ok      pairs of devices' doctor.txt
"$run" run --backend host --devices 2 -- true
if "$run" bench gemm --size 4 2>error.txt; then
  echo "bench cannot work without NumPy"
  exit 1
fi
grep 'NumPy is needed' error.txt

test -f "$(folder core)"
test -f "$(folder preload)"
for library in "$(dirname "$(folder core)")"/*.so "$(folder libblas)"; do
  ! readelf -S "$library" | grep -q '\.debug_info\|\.symtab' || {
    echo "not stripped: $library"
    exit 1
  }
done

cp -r "$source_folder/examples/c" examples
built=0
"$cmake" -S examples -B build -Dfleetblas_DIR="$(folder cmake)" >log
"$cmake" --build build >>log
for program in examples/*.c; do
  name=$(basename "$program" .c)
  echo "find_package: $name"
  build/"$name"
  built=$((built + 1))
done
test $built -gt 0

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=
  PKG_CONFIG_PATH=$(folder pkgconfig)
  for program in examples/*.c; do
    name=$(basename "$program" .c)
    echo "pkg-config: $name"
    # Word splitting is how the flags of pkg-config are meant to be used.
    # shellcheck disable=SC2046
    cc -std=c99 "$program" -o "$name" $(pkg-config --cflags --libs fleetblas) -lm
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir fleetblas) "./$name"
  done
else
  echo "pkg-config: not on this machine, so only find_package was tried"
fi
echo "wheel: $(basename "$wheel"), $built examples"
