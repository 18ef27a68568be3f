#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# setup.sh: installs everything that a new Debian or Ubuntu machine lacks, inside this folder and
# without root: .venv (Python packages), .deps (C++ headers from Debian packages), .venv-tests (the
# environments of the drop-in tests). Does nothing if they are complete. It knows no source file.
#
# usage: tools/setup.sh [dev] [dropin] [mpi]
#   (nothing)  what `make` and `make demo` need
#   dev        and what `make test`, `make lint`, `make format` and `make wheel` need
#   dropin     and one environment per NumPy generation that the drop-in tests run in
#   mpi        and an MPI (.deps/mpich) if the machine has none, so that the tests have one
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
python=${PYTHON:-python3}
cxx=${CXX:-g++}
log=.deps/setup.log
mkdir -p .deps

fail() {
  printf 'setup: %s\n' "$1" >&2
  exit 1
}

say() { printf 'setup: %s\n' "$1"; }

# Runs a command with its output in the log; if it fails, prints one line and the end of the log.
logged() {
  local what=$1
  shift
  "$@" >>"$log" 2>&1 && return
  tail -n 5 "$log" >&2
  fail "$what failed (complete log: $root/$log)"
}

command -v "$cxx" >/dev/null || fail "no C++ compiler: sudo apt-get install g++ (or set CXX)"
command -v "$python" >/dev/null || fail "no $python: sudo apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
  fail "$("$python" --version) is too old: 3.9 or later is needed (set PYTHON)"

# A virtual environment belongs to one folder and one Python; if either changes, it is made again.
place="$root $("$python" -c 'import sys; print(sys.version, sys.base_prefix)' | tr '\n' ' ')"

# make_venv FOLDER REQUIREMENTS...: installs requirements that are not installed yet.
make_venv() {
  local folder=$1 file stamp
  shift
  if [ "$(cat "$folder/place" 2>/dev/null)" != "$place" ]; then
    rm -rf "$folder"
    "$python" -m venv "$folder" >>"$log" 2>&1 || {
      rm -rf "$folder"
      fail "$python cannot make virtual environments: sudo apt-get install python3-venv"
    }
    printf '%s\n' "$place" >"$folder/place"
  fi
  for file in "$@"; do
    stamp=$folder/$(basename "$file")
    cmp -s "$file" "$stamp" && continue
    say "$folder: $(basename "$file")"
    logged "pip install -r $file" "$folder/bin/python" -m pip install --quiet \
      --disable-pip-version-check -r "$file"
    cp "$file" "$stamp"
  done
}

# The package is imported from python/, so an edit needs no second installation.
link_package() {
  local site
  site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$root/python" >"$site/fleetblas-tree.pth"
  cat >.venv/bin/fleetblas <<'END'
#!/bin/sh
exec "$(dirname "$0")/python" -m fleetblas "$@"
END
  # A program that is not Python's finds the CPU BLAS of this environment by its name.
  cat >.venv/bin/fleetblas-linpack <<END
#!/bin/sh
program=$root/build/release/bin/fleetblas-linpack
[ -x "\$program" ] || {
  echo "fleetblas-linpack: not built, since no MPI was found (libopenmpi-dev, for one); then: make" >&2
  exit 2
}
for file in $root/.venv/lib/python3*/site-packages/scipy_openblas64/lib/libscipy_openblas64_.so; do
  FLEETBLAS_CPU_BLAS=\${FLEETBLAS_CPU_BLAS:-\$file}
done
export FLEETBLAS_CPU_BLAS
exec "\$program" "\$@"
END
  chmod +x .venv/bin/fleetblas .venv/bin/fleetblas-linpack
}

# An MPI for the tests, where the machine has none: unpacked here.
get_mpi() {
  [ -d .deps/mpich ] && return
  say ".deps/mpich"
  logged "pip install mpich" .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --no-deps --prefix "$root/.deps/mpich" 'mpich>=4.2'
}

has_headers() {
  local paths=()
  [ -d .deps/usr/include ] && paths=(-isystem .deps/usr/include)
  printf '#if !__has_include(<nlohmann/json.hpp>) || !__has_include(<gtest/gtest.h>)\n#error\n#endif\n' |
    "$cxx" -std=c++17 "${paths[@]}" -fsyntax-only -x c++ - 2>/dev/null || return 1
  [ -f "$("$cxx" -print-file-name=libgtest.a)" ] || ls .deps/usr/lib/*/libgtest.a >/dev/null 2>&1
}

# nlohmann/json and GoogleTest are headers and a static library: unpacked here, nothing installed.
get_headers() {
  local packages=(nlohmann-json3-dev libgtest-dev) state="$root/.deps/apt" private
  command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
    fail "nlohmann/json and GoogleTest are missing, and apt-get is not available to fetch them"
  say ".deps: ${packages[*]}"
  mkdir -p .deps/debs "$state/lists/partial" "$state/cache/archives/partial"
  private=(-o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o Debug::NoLocking=1)
  # First with the machine's package lists; a new image has none, so then with private ones.
  if ! (cd .deps/debs && apt-get download "${packages[@]}") >>"$log" 2>&1; then
    logged "apt-get update" apt-get "${private[@]}" update
    (cd .deps/debs && apt-get "${private[@]}" download "${packages[@]}") >>"$log" 2>&1 ||
      fail "cannot download ${packages[*]}: sudo apt-get install ${packages[*]}"
  fi
  for package in .deps/debs/*.deb; do logged "dpkg -x $package" dpkg -x "$package" .deps; done
  rm -rf .deps/debs "$state"
  has_headers || fail "${packages[*]} are incomplete here: sudo apt-get install ${packages[*]}"
}

requirements=(tools/requirements.txt)
dropin=no mpi=no
for word in "$@"; do
  case $word in
    dev) requirements+=(tools/requirements-dev.txt) ;;
    mpi) mpi=yes ;;
    dropin) dropin=yes ;;
    *) fail "unknown word '$word'; known: dev dropin mpi" ;;
  esac
done

make_venv .venv "${requirements[@]}"
link_package
has_headers || get_headers
if [ $mpi = yes ] && ! command -v mpicxx >/dev/null; then get_mpi; fi
if [ $dropin = yes ]; then
  mkdir -p .venv-tests
  if "$python" -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then
    make_venv .venv-tests/numpy1 tools/requirements-numpy1.txt
  else
    say "no NumPy 1.26 wheel for $("$python" --version): its drop-in tests are left out"
  fi
  make_venv .venv-tests/numpy2 tools/requirements-numpy2.txt
fi
