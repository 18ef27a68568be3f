#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# mpi_blas.sh: the functions of mpi.h in a C program over MPI, and ScaLAPACK's names of them in front
# of the machine's ScaLAPACK.
#
# usage: tests/lu/mpi_blas.sh MPIEXEC PROGRAM FAKE_NCCL SCALAPACK_PROGRAM PRELOAD
# (no-scalapack: there is none)
set -uo pipefail
mpiexec=$1 program=$2 fake_nccl=$3 scalapack_program=$4 preload=$5
. "$(dirname "$(realpath "$0")")/ranks.sh"

# launch RANKS COMMAND...: for at most a minute; the last line has to say that it passed.
launch() {
  local ranks=$1
  shift
  timeout -k 5 60 "$mpiexec" -n "$ranks" "$@" >"$folder/out" 2>"$folder/err"
  local status=$?
  if [ $status = 0 ] && grep -q 'passed$' "$folder/out"; then return; fi
  printf 'mpi_blas.sh: %s on %s ranks ends with %s\n' "$*" "$ranks" $status
  cat "$folder/out" "$folder/err"
  failed=1
}

for ranks in 1 3 4 6; do launch $ranks "$program"; done
launch 4 "$program" single

# On virtual devices, of which two ranks share one; where one rank has none; where one is lost; and
# where no thread but the first may call MPI.
export FLEETBLAS_BACKEND=host FLEETBLAS_DEVICES=2 FLEETBLAS_MPI="devices=always"
for ranks in 1 4; do launch $ranks "$program"; done
launch 1 env FLEETBLAS_OFFLOAD=never "$program" : -n 1 "$program"
launch 1 env FLEETBLAS_INJECT=launch:2 "$program" device
launch 1 env FLEETBLAS_INJECT=launch:2 "$program" device : -n 1 "$program" device
launch 4 "$program" single
# Each rank's part of the node's devices.
launch 2 env -u FLEETBLAS_DEVICES "$program"
# Panels by a stand-in of NCCL, whose messages are files.
mkdir messages
launch 3 env FLEETBLAS_NCCL="$fake_nccl" FAKE_NCCL_FOLDER="$folder/messages" "$program"
[ -n "$(ls messages)" ] || { echo "mpi_blas.sh: NCCL that is there is not used" && failed=1; }
unset FLEETBLAS_BACKEND FLEETBLAS_DEVICES FLEETBLAS_MPI

if [ "$scalapack_program" = no-scalapack ]; then
  echo "mpi_blas.sh: skipped the names of ScaLAPACK, since this MPI has none (libscalapack-openmpi-dev)"
else
  for grid in "1 1" "2 2" "1 3" "3 2"; do
    # shellcheck disable=SC2086
    launch $((${grid% *} * ${grid#* })) env LD_PRELOAD="$preload" FLEETBLAS_MPI="cores=1" \
      "$scalapack_program" $grid
  done
fi

[ $failed = 0 ] && printf 'mpi_blas.sh: passed\n'
exit $failed
