#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# test.sh: runs parts of the test suite and ends with the closing line of each. Fails if a part
# fails. It sets up and builds what the parts need.
#
# usage: tools/test.sh PART...   (core, sanitizers, python, dropin, docs)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
export PATH=$root/.venv/bin:$PATH
export PYTHONDONTWRITEBYTECODE=1
mkdir -p out/test
# Settings of the environment must not change what is tested.
for name in $(compgen -e FLEETBLAS_); do
  [ "$name" = FLEETBLAS_TEST_SCALE ] || unset "$name"
done

# Parts may run concurrently, so their results are kept in files.
rm -f out/test/failed out/test/closing

# part NAME COMMAND...: runs the command and keeps its closing line.
part() {
  local name=$1 started=$SECONDS status
  shift
  printf '\n== %s\n' "$name"
  "$@" 2>&1 | tee "out/test/$name.log"
  status=${PIPESTATUS[0]}
  [ "$status" = 0 ] || printf '%s\n' "$name" >>out/test/failed
  printf '%-12s %4d s  %s\n' "$name" $((SECONDS - started)) \
    "$(grep -E 'tests passed|tests failed|[0-9]+ (passed|failed|error)' "out/test/$name.log" |
      tail -n 1 || true)" >>out/test/closing
}

# beside COMMAND...: starts the command in its own process group, which ends with this script.
beside() {
  set -m
  "$@" &
  beside=$!
  set +m
  trap 'kill -- -$beside 2>/dev/null' EXIT
}

# Waits for the command started by `beside`, and returns its status.
joined() {
  local status
  wait $beside
  status=$?
  trap - EXIT
  return $status
}

built() {
  tools/build.sh "$@" || {
    printf 'test: the build of %s failed\n' "$1" >&2
    exit 1
  }
}

for word in "$@"; do
  case $word in
    core | sanitizers | python | dropin | docs) ;;
    *)
      printf "test: unknown part '%s'; known: core sanitizers python dropin docs\n" "$word" >&2
      exit 1
      ;;
  esac
done
words=" $* "
# Virtual devices compute with the OpenBLAS of .venv, whatever the machine has installed.
wheel_blas() {
  python - <<'END'
import glob, os, scipy_openblas64
lib = os.path.join(os.path.dirname(scipy_openblas64.__file__), "lib")
print(glob.glob(os.path.join(lib, "libscipy_openblas64_.so*"))[0])
END
}
# has PART...: whether one of the parts was requested.
has() {
  local part
  for part in "$@"; do [[ $words != *" $part "* ]] || return 0; done
  return 1
}

tools/setup.sh dev || exit 1
# The environments of the drop-in tests are downloaded while the compiler runs.
if has dropin; then beside tools/setup.sh dev dropin; fi
built release
cmake --install build/release --component python --prefix python/fleetblas >/dev/null || exit 1
if has dropin; then joined || exit 1; fi

FLEETBLAS_CPU_BLAS=$(wheel_blas) || exit 1
export FLEETBLAS_CPU_BLAS

# The ThreadSanitizer of older compilers does not support the address layouts of newer kernels.
fixed_layout=()
setarch -R true 2>/dev/null && fixed_layout=(setarch -R)

ctest=(ctest --parallel "${JOBS:-$(nproc)}" --timeout 600 --no-tests=error)
pytest=(python -m pytest -q -p no:cacheprovider)

sanitizers() {
  local preset
  for preset in asan tsan; do
    built $preset
    part $preset "${fixed_layout[@]}" "${ctest[@]}" --preset $preset
  done
}

sanitizers_last() {
  renice -n 10 $BASHPID >/dev/null
  sanitizers
}

interpreted() {
  if has python; then part python "${pytest[@]}" tests/python; fi
  if has dropin; then
    part dropin env FLEETBLAS_PRELOAD="$root/python/fleetblas/lib/libfleetblas_preload.so" \
      FLEETBLAS_TEST_VENVS="$root/.venv-tests" "${pytest[@]}" tests/dropin
  fi
  if has docs; then part docs "${pytest[@]}" tests/house/test_site.py; fi
}

# The core tests run alone, since some of them measure the time of planning.
if has core; then part core "${ctest[@]}" --preset release; fi
# pytest uses one core. The sanitizers take the others, at a lower priority, because some tests
# under pytest have time limits.
if has sanitizers && has python dropin docs; then
  beside sanitizers_last >out/test/sanitizers.out 2>&1
  interpreted
  printf '\ntest: asan and tsan (so far: out/test/sanitizers.out)\n'
  joined || printf 'sanitizers\n' >>out/test/failed
  cat out/test/sanitizers.out
elif has sanitizers; then
  sanitizers
else
  interpreted
fi

printf '\n'
cat out/test/closing
if [ -s out/test/failed ]; then
  printf 'test: failed: %s\n' "$(paste -sd ' ' out/test/failed)"
  exit 1
fi
printf 'test: all parts passed in %d s\n' $SECONDS
