#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# beside_hpl.sh: fleetblas-linpack solves the systems of HPL, as Debian's hpcc runs it: the same bits in
# A and b on every rank, and residuals of the same size.
#
# usage: tests/lu/beside_hpl.sh PROGRAM MPIEXEC SAME_MATRIX PRELOAD   (ends with 77 where there is no hpcc)
set -uo pipefail
program=$1 mpiexec=$2 same_matrix=$3 preload=$4
hpcc=$(command -v hpcc) || {
  echo "beside_hpl.sh: skipped, since this machine has no HPL (Debian's package hpcc)"
  exit 77
}
. "$(dirname "$(realpath "$0")")/ranks.sh"

fail() {
  printf 'beside_hpl.sh: %s\n' "$1"
  cat out hpccoutf.txt 2>/dev/null
  failed=1
}

# dat NS NB P Q: the same input for both.
dat() {
  printf '%s\n' "" "" HPL.out 6 "$(wc -w <<<"$1")" "$1" 1 "$2" 0 1 "$3" "$4" 16.0 1 2 1 4 1 2 1 1 1 1 1 0 \
    2 64 0 0 1 8 "" 0 40 0 40 | tee HPL.dat >hpccinf.txt
}

# hpl NS NB P Q [MPIEXEC]: runs it, and compares what its ranks had in the last of its systems.
hpl() {
  local what="N = $1, NB = $2, $3 x $4" ranks=$(($3 * $4))
  rm -f matrix.* hpccoutf.txt
  dat "$1" "$2" "$3" "$4"
  # One process needs no launcher, which would have to be of hpcc's MPI.
  timeout -k 5 120 ${5:+"$5" -n $ranks} env LD_PRELOAD="$preload" HPL_MATRIX="$folder/matrix" "$hpcc" \
    >out 2>&1 || fail "HPL with $what ends with $?"
  "$same_matrix" "${1##* }" "$2" "$3" "$4" "$folder/matrix" || fail "$what: A or b differs from HPL's"
}

# residuals FILE: those that passed, each on a line.
residuals() { sed -n 's/^||Ax-b||.*= *\([^ ]*\) .*PASSED$/\1/p' "$1"; }

hpl 100 32 1 1
launcher=$(command -v mpirun.openmpi || command -v mpirun || true)
if [ -n "$launcher" ] && [[ $("$launcher" --version 2>/dev/null) == *open-mpi.org* ]]; then
  hpl 77 8 2 2 "$launcher"
else
  echo "beside_hpl.sh: left out: grids of several ranks, since the MPI of hpcc has no launcher here"
fi

# A residual is the largest of n roundings: one by itself says less than the sum of a few.
hpl "500 700 1000" 64 1 1
residuals hpccoutf.txt >theirs
timeout -k 5 60 "$mpiexec" -n 1 "$program" --cores=1 >out 2>&1 || fail "ours ends with $?"
residuals out >ours
paste ours theirs | awk '{ print "beside_hpl.sh: residual " $1 ", HPL " $2; a += $1; b += $2 }
  END { exit !(NR == 3 && a > 0 && b > 0 && a < 2 * b && b < 2 * a) }' ||
  fail "residuals of N = 500, 700 and 1000 are not of the size of HPL's"

[ $failed = 0 ] && printf 'beside_hpl.sh: passed\n'
exit $failed
