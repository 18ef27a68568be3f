#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# mpi.sh: fleetblas-linpack as processes of MPI: results, and ends where a rank is lost, stops
# answering, or has nothing to run.
#
# usage: tests/lu/mpi.sh PROGRAM MPIEXEC FAKE_NCCL
set -uo pipefail
program=$1 mpiexec=$2 fake_nccl=$3
. "$(dirname "$(realpath "$0")")/ranks.sh"

# dat N P Q PMAP: writes HPL.dat.
dat() {
  printf '%s\n' "" "" "HPL.out" 6 1 "$1" 1 32 "$4" 1 "$2" "$3" 16.0 1 2 1 4 1 2 1 1 1 1 2 "0 1" \
    >HPL.dat
}

fail() {
  printf 'mpi.sh: %s\n' "$1"
  cat out err 2>/dev/null
  failed=1
}

# launch RANKS ARGUMENT...: for at most a minute; output in out and err.
launch() {
  local ranks=$1
  shift
  timeout -k 5 60 "$mpiexec" -n "$ranks" "$program" "$@" >out 2>err
}

dat 300 2 2 0
for overlap in none lookahead dedicated full; do
  launch 4 --cores=1 --overlap=$overlap || fail "overlap $overlap ends with $?"
  [ "$(grep -c 'PASSED$' out)" = 2 ] || fail "overlap $overlap has not passed"
done
dat 200 1 3 1
launch 4 --cores=2 --patience=5 || fail "a grid of 1 x 3 on 4 ranks ends with $?"
dat 200 1 1 0
launch 1 || fail "one rank ends with $?"
launch 1 --ranks=3 || fail "three threads end with $?"

# In the memory of virtual devices, of which two ranks share one.
dat 200 1 3 0
for ranks in "3" "1 --ranks=3"; do
  FLEETBLAS_BACKEND=host FLEETBLAS_DEVICES=2 launch $ranks --cores=1 || fail "devices: $ranks ends with $?"
  [ "$(grep -c 'PASSED$' out)" = 2 ] || fail "devices: $ranks has not passed"
  [ "$(grep -c 'in the memory of 1 device a rank' out)" = 2 ] || fail "devices: $ranks did not use them"
done
for grid in "2 1" "2 2"; do
  dat 200 $grid 0
  for overlap in none lookahead dedicated full; do
    what="devices, $grid, $overlap"
    FLEETBLAS_BACKEND=host launch 4 --cores=1 --matrix=devices --overlap=$overlap || fail "$what: it ends with $?"
    [ "$(grep -c 'PASSED$' out)" = 2 ] || fail "$what: it has not passed"
    [ "$(grep -c 'in the memory of 1 device a rank' out)" = 2 ] || fail "$what: it did not use them"
  done
done
FLEETBLAS_BACKEND=host launch 4 --cores=1 --matrix=devices --device-comm=nccl && fail "NCCL, P = 2: it ends with 0"
grep -q 'skipped: --device-comm=nccl is for grids of one row' out || fail "NCCL, P = 2: no line"
dat 300 2 2 0
export FLEETBLAS_BACKEND=host
launch 4 --cores=1 --devices=1 --transfer-overlap=off || fail "ranks with virtual devices end with $?"
[ "$(grep -c 'PASSED$' out)" = 2 ] || fail "ranks with virtual devices have not passed"
grep -q "the CPU's share R of products" out || fail "no share of the CPU is said"
unset FLEETBLAS_BACKEND

# ended_with_a_line WHAT TEXT: after a launch that had to fail.
ended_with_a_line() {
  local status=$1 what=$2 text=$3
  case $status in
    0) fail "$what: it ends with 0" ;;
    124 | 137) fail "$what: it does not end" ;;
  esac
  [ "$(grep -c "^fleetblas-linpack: .*$text" err)" = 1 ] || fail "$what: not one line with '$text'"
}

# Panels by a stand-in of NCCL, whose messages are files.
export FLEETBLAS_BACKEND=host FLEETBLAS_NCCL=$fake_nccl FAKE_NCCL_FOLDER=$folder
nccl="--cores=1 --matrix=devices --device-comm=nccl"
dat 200 1 3 0
launch 3 $nccl || fail "NCCL: it ends with $?"
[ "$(grep -c 'PASSED$' out)" = 2 ] || fail "NCCL: it has not passed"
[ "$(grep -c 'panels go by NCCL 2.27.3$' out)" = 2 ] || fail "NCCL: panels go another way"
launch 3 --cores=1 --matrix=devices || fail "NCCL that is there: it ends with $?"
[ "$(grep -c 'panels go by NCCL 2.27.3$' out)" = 2 ] || fail "NCCL that is there is not used"
launch 3 --cores=1 --matrix=devices --device-comm=host || fail "no NCCL is wanted: it ends with $?"
[ "$(grep -c 'panels go over host memory$' out)" = 2 ] || fail "NCCL that nobody wants is used"
# over_the_host FAULT PATIENCE WHY: without NCCL, all ranks go on.
over_the_host() {
  FAKE_NCCL=$1 launch 3 --cores=1 --matrix=devices --patience=$2 || fail "NCCL, $1: it ends with $?"
  [ "$(grep -c "panels go over host memory: $3" out)" = 2 ] || fail "NCCL, $1: no line with '$3'"
}
over_the_host start 60 "NCCL"  # the rank itself knows more
over_the_host slow 2 "a rank has not answered for 1"
over_the_host elsewhere 60 "a rank finds no NCCL, or has no GPU"
FAKE_NCCL=shared launch 3 $nccl && fail "NCCL with one GPU for all: it ends with 0"
grep -q 'skipped: --device-comm=nccl: two ranks share a GPU' out || fail "NCCL with one GPU for all: no line"
rm -f "$folder"/[0-9]*-*
FLEETBLAS_NCCL=$folder/none launch 3 --cores=1 --device-comm=nccl && fail "no NCCL, and any matrix: it ends with 0"
FLEETBLAS_NCCL=$folder/none launch 3 $nccl && fail "no NCCL: it ends with 0"
grep -q 'skipped: --device-comm=nccl: a rank finds no NCCL' out || fail "no NCCL: no line"
# failed_with WHAT TEXT: after a launch that had to fail, on whichever ranks say so first.
failed_with() {
  case $1 in
    0) fail "$2: it ends with 0" ;;
    124 | 137) fail "$2: it does not end" ;;
  esac
  grep -q "^fleetblas-linpack: rank . *.*$3" err || fail "$2: no line with '$3'"
}
FAKE_NCCL=start launch 3 $nccl && fail "NCCL that does not start: it ends with 0"
grep -q 'skipped: --device-comm=nccl: NCCL' out || fail "NCCL that does not start: no line"
FAKE_NCCL=later launch 3 $nccl
failed_with $? "NCCL that fails later" "NCCL: failed on purpose"
FAKE_NCCL=never launch 3 $nccl --patience=1
failed_with $? "NCCL that never ends" "has not answered for 1"
unset FLEETBLAS_BACKEND FLEETBLAS_NCCL

launch 3 --devices=many
ended_with_a_line $? "devices that mean nothing" "FleetBLAS: devices=many"
rm HPL.dat
launch 3
ended_with_a_line $? "no HPL.dat" "HPL.dat: No such file"
launch 1 --ranks=3
ended_with_a_line $? "no HPL.dat for threads" "HPL.dat: No such file"
printf '\n\nHPL.out\nsix\n' >HPL.dat
launch 3
ended_with_a_line $? "a wrong HPL.dat" "HPL.dat: line 4 needs"

# Another MPI's launcher gives each process such names, and none of its own MPI's.
launcher=PMI
ldd "$program" | grep -q 'libmpi.so.12' && launcher=OMPI_COMM_WORLD
for rank in 0 1; do
  env ${launcher}_SIZE=2 ${launcher}_RANK=$rank "$program" >out 2>>err.all &
done
wait
mv err.all err
ended_with_a_line 2 "another MPI's launcher" "each is alone"

# signal NAME: to a rank of a run that takes long, once both have their parts of the matrix (256 MB).
# Until then they wait for each other without patience, in MPI_Init and where the grid is made.
signal() {
  (
    for _ in $(seq 300); do
      sleep 0.1
      ranks=($(ps -eo pid=,rss=,args= |
        awk -v program="$program" -v input="--input=$folder/HPL.dat" \
          '$3 == program && $4 == input && $2 > 100000 { print $1 }'))
      [ ${#ranks[@]} = 2 ] && exec kill "-$1" "${ranks[1]}"
    done
  ) &
}

dat 8000 1 2 0
signal KILL
launch 2 --input=$folder/HPL.dat --patience=20 --cores=1
case $? in
  0 | 124) fail "a lost rank: the others end with $?" ;;
esac
wait
signal STOP
launch 2 --input=$folder/HPL.dat --patience=3 --cores=1
# mpirun lets it go on before it ends it, so it may say the same.
failed_with $? "a rank that stops" "has not answered for 3"
wait
pkill -KILL -f "^$program --input=$folder"

[ $failed = 0 ] && printf 'mpi.sh: passed\n'
exit $failed
