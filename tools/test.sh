#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# test.sh: runs parts of the test suite and ends with each runner's own closing lines. Fails if any
# part did. It sets up and builds what the parts need.
#
# usage: tools/test.sh PART...   (core, sanitizers, python, dropin, docs)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
export PATH=$root/.venv/bin:$PATH
export PYTHONDONTWRITEBYTECODE=1
mkdir -p out/test
# A setting from outside must not change what is tested.
for name in $(compgen -e FLEETBLAS_); do
  [ "$name" = FLEETBLAS_TEST_SCALE ] || unset "$name"
done

failed=()
closing=()

# part NAME COMMAND...: runs it and keeps its closing lines.
part() {
  local name=$1 started=$SECONDS status
  shift
  printf '\n== %s\n' "$name"
  "$@" 2>&1 | tee "out/test/$name.log"
  status=${PIPESTATUS[0]}
  [ "$status" = 0 ] || failed+=("$name")
  closing+=("$(printf '%-12s %4d s  %s' "$name" $((SECONDS - started)) \
    "$(grep -E 'tests passed|tests failed|[0-9]+ (passed|failed|error)' "out/test/$name.log" |
      tail -n 1 || true)")")
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
# The virtual devices compute with the OpenBLAS of .venv, whatever the machine has.
wheel_blas() {
  python - <<'END'
import glob, os, scipy_openblas64
lib = os.path.join(os.path.dirname(scipy_openblas64.__file__), "lib")
print(glob.glob(os.path.join(lib, "libscipy_openblas64_.so*"))[0])
END
}
tools/setup.sh dev $([[ $words == *" dropin "* ]] && echo dropin) || exit 1
built release
cmake --install build/release --component python --prefix python/fleetblas >/dev/null || exit 1

FLEETBLAS_CPU_BLAS=$(wheel_blas) || exit 1
export FLEETBLAS_CPU_BLAS

# ThreadSanitizer of older compilers does not know the address layouts of newer kernels.
fixed_layout=()
setarch -R true 2>/dev/null && fixed_layout=(setarch -R)

ctest=(ctest --parallel "${JOBS:-$(nproc)}" --timeout 600 --no-tests=error)
if [[ $words == *" core "* ]]; then
  part core "${ctest[@]}" --preset release
fi
if [[ $words == *" sanitizers "* ]]; then
  for preset in asan tsan; do
    built $preset
    part $preset "${fixed_layout[@]}" "${ctest[@]}" --preset $preset
  done
fi
if [[ $words == *" python "* ]]; then
  part python python -m pytest -q -p no:cacheprovider tests/python
fi
if [[ $words == *" dropin "* ]]; then
  export FLEETBLAS_PRELOAD=$root/python/fleetblas/lib/libfleetblas_preload.so
  export FLEETBLAS_TEST_VENVS=$root/.venv-tests
  part dropin python -m pytest -q -p no:cacheprovider tests/dropin
fi
if [[ $words == *" docs "* ]]; then
  part docs python -m pytest -q -p no:cacheprovider tests/house/test_site.py
fi

printf '\n'
printf '%s\n' "${closing[@]}"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'test: failed: %s\n' "${failed[*]}"
  exit 1
fi
printf 'test: all parts passed in %d s\n' $SECONDS
