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
# Threads of OpenBLAS look for work for 2^n cycles before they sleep, by default n = 26. With more
# tests than cores that is time of others: on two cores NumPy's TestCond takes 15 s instead of 67.
export OPENBLAS_THREAD_TIMEOUT=4
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

# beside NAME COMMAND...: starts the command in its own process group, which ends with this script.
# Its output is in out/test/NAME.out.
declare -A beside
beside() {
  local name=$1
  shift
  set -m
  "$@" >"out/test/$name.out" 2>&1 &
  beside[$name]=$!
  set +m
}
trap 'for group in "${beside[@]}"; do kill -- -$group 2>/dev/null; done' EXIT

# joined NAME: waits for the command started by `beside`, prints its output, and returns its status.
joined() {
  local status
  wait ${beside[$1]}
  status=$?
  unset "beside[$1]"
  cat "out/test/$1.out"
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

# What the compiler needs first; the rest is downloaded while it runs.
tools/setup.sh mpi || exit 1
beside setup tools/setup.sh dev $(has dropin && echo dropin)
built release
cmake --install build/release --component python --prefix python/fleetblas >/dev/null || exit 1
joined setup || exit 1
# Tests start Python with the package hundreds of times, and write no bytecode themselves.
python -m compileall -q python/fleetblas || exit 1

FLEETBLAS_CPU_BLAS=$(wheel_blas) || exit 1
export FLEETBLAS_CPU_BLAS

# The ThreadSanitizer of older compilers does not support the address layouts of newer kernels.
fixed_layout=()
setarch -R true 2>/dev/null && fixed_layout=(setarch -R)

jobs=${JOBS:-$(nproc)}
ctest=(ctest --timeout 600 --no-tests=error --parallel)
pytest=(python -m pytest -q -p no:cacheprovider --durations=8)

build_sanitizers() {
  # A thread of a test that wakes up takes the core at once from what is scheduled as idle.
  chrt --idle --pid 0 $BASHPID 2>/dev/null || renice -n 10 $BASHPID >/dev/null
  built asan
  built tsan
}

# The tests mostly wait for threads: two per core. Nothing else runs then, because they and the tests
# of the other sequences have time limits.
run_sanitizers() {
  local preset
  for preset in asan tsan; do
    part $preset "${fixed_layout[@]}" "${ctest[@]}" $((2 * jobs)) --preset $preset
  done
}

run_python() { part python "${pytest[@]}" tests/python; }

run_others() {
  if has dropin; then
    part dropin env FLEETBLAS_PRELOAD="$root/python/fleetblas/lib/libfleetblas_preload.so" \
      FLEETBLAS_TEST_VENVS="$root/.venv-tests" "${pytest[@]}" tests/dropin
  fi
  if has docs; then part docs "${pytest[@]}" tests/house/test_site.py; fi
}

# By itself, because it has the tests of what planning costs and of forks under load. One more than
# cores, since some wait; tests of times have ctest's RUN_SERIAL.
if has core; then part core "${ctest[@]}" $((jobs + 1)) --preset release; fi

# Three sequences at the same time. The output of the last is shown as it comes.
sequences=()
if has sanitizers; then sequences+=(build_sanitizers); fi
if has python; then sequences+=(run_python); fi
if has dropin docs; then sequences+=(run_others); fi
[ ${#sequences[@]} -gt 0 ] || sequences=(run_others)
shown=${sequences[-1]}
unset "sequences[-1]"
for sequence in "${sequences[@]}"; do beside $sequence $sequence; done
$shown
for sequence in "${sequences[@]}"; do
  printf '\ntest: %s (so far: out/test/%s.out)\n' $sequence $sequence
  joined $sequence || printf '%s\n' $sequence >>out/test/failed
done
if has sanitizers && ! grep -qsx build_sanitizers out/test/failed; then run_sanitizers; fi

printf '\n'
cat out/test/closing
if [ -s out/test/failed ]; then
  printf 'test: failed: %s\n' "$(paste -sd ' ' out/test/failed)"
  exit 1
fi
printf 'test: all parts passed in %d s\n' $SECONDS
