# SPDX-License-Identifier: BSD-3-Clause
# ranks.sh: what test scripts that start ranks of MPI have in common; to be sourced by bash. It goes
# to a folder of its own, which ends with the script.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# More ranks than cores, and root in a container, are no error here. The names are Open MPI's.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Processes that wait for the same few cores need no threads of the BLAS.
export OPENBLAS_NUM_THREADS=1
failed=0
