#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# wheel.sh: packs a build folder into one wheel for every Python, with stripped libraries and the
# oldest platform tag that auditwheel confirms. It builds nothing.
#
# usage: tools/wheel.sh BUILD_FOLDER DIST_FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
dist=$2
most_bytes=$((50 * 1000 * 1000))
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

fail() {
  printf 'wheel: %s\n' "$1" >&2
  exit 1
}

# Files that CMake installs into the package come from the build, not from copies in the source
# tree.
mkdir -p "$stage/python"
cp -r python/fleetblas "$stage/python/"
rm -rf "$stage"/python/fleetblas/{lib,include,machines,cmake}
find "$stage" -name __pycache__ -prune -exec rm -rf {} +
cp pyproject.toml setup.py README.md LICENSE "$stage"
cmake --install "$build" --component python --strip --prefix "$stage/python/fleetblas" >/dev/null

python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir "$stage/plain" "$stage"
plain=$(echo "$stage"/plain/*.whl)

# auditwheel examines the symbol versions and the linked libraries of every library inside, and
# reports the platform tag that holds. Only the tag of the wheel is then changed.
python -m auditwheel show "$plain" >"$stage/audit"
tag=$(tr '\n' ' ' <"$stage/audit" |
  sed -n 's/.*consistent with the following platform tag: *"\(manylinux_[0-9]*_[0-9]*_[a-z0-9_]*\)".*/\1/p')
[ -n "$tag" ] || {
  cat "$stage/audit" >&2
  fail "auditwheel confirms no manylinux tag"
}
python -m wheel tags --remove --platform-tag "$tag" "$plain" >/dev/null
wheel=$(echo "$stage"/plain/*.whl)
bytes=$(stat -c %s "$wheel")
[ "$bytes" -lt $most_bytes ] || fail "$(basename "$wheel") has $bytes bytes, limit $most_bytes"

mkdir -p "$dist"
rm -f "$dist"/fleetblas-*.whl
cp "$wheel" "$dist"
printf '%s: %d kB\n' "$dist/$(basename "$wheel")" $((bytes / 1000))
