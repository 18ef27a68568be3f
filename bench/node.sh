#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# node.sh: all tables of one node: squares, level 3, skinny products, scaling, first calls, programs,
# energy, queued calls, factorizations, a NumPy script and Linpack, verified, with the bound of the same
# run; squares and factorizations beside cuBLASXt and cuSOLVER. What fails is named at the end, and the rest goes on.
#
# usage: bench/node.sh FOLDER [SECONDS]    results go into FOLDER; SECONDS in all (default 1400)
#        SMALL=1 bench/node.sh FOLDER 60   small sizes, to try it on virtual devices
#        ONLY=squares,factors bench/node.sh FOLDER   these parts, each with its share of SECONDS
#
# In a folder that has results already, the machine file is kept, and data sets are gone on with. Needs
# the package with NumPy; settings count, but for FLEETBLAS_DEVICES in the part of Linpack.
set -uo pipefail

(($# >= 1)) || { sed -n '7,9s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1" || exit 1
folder=$(realpath "$1")
all=${2:-1400}
here=$(dirname "$(realpath "$0")")
python=${PYTHON:-python3}
fleet=("$python" -m fleetblas)
failed=() running= known=,machine,
end() {
  [[ -z $running ]] || kill "$running" 2>/dev/null
  exit "$1"
}
trap 'end 143' TERM
trap 'end 130' INT
trap 'end 129' HUP

if [[ -n ${SMALL:-} ]]; then
  squares=256,512 large=512 first=256
  xt=() solver=()
else
  squares=4K,8K,16K,32K,48K large=16K,32K first=16K linpack=32768:1,49152:1,65536:1
  xt=(--vs cublasxt) solver=(--vs cusolver,cusolvermg)
fi

# Of 1000 parts of the time in all: part NAME SHARE COMMAND...
part() {
  local name=$1 limit=$(($2 * all / 1000 + 1))
  shift 2
  known+=$name,
  [[ -z ${ONLY:-} || ,$ONLY, == *,$name,* ]] || return 0
  printf '\n== %s (%d s)\n' "$name" "$limit"
  # {S}: the seconds, {J}: the file of results.
  local words=("${@//\{S\}/$limit}")
  words=("${words[@]//\{J\}/$folder/$name.json}")
  # What keeps to no limit of its own is ended, and so is what runs when this script is.
  timeout --kill-after=10 $((limit * 2 + 30)) "${words[@]}" >"$folder/$name.txt" 2>&1 &
  running=$!
  wait "$running" || failed+=("$name")
  running=
  cat "$folder/$name.txt"
}

bench() { # NAME SHARE ARGUMENT...
  local name=$1 share=$2
  shift 2
  part "$name" "$share" "${fleet[@]}" bench "$@" --budget '{S}' --json '{J}'
}

if [[ -s $folder/machine.json || (-n ${ONLY:-} && ,$ONLY, != *,machine,*) ]]; then
  :  # known
else
  part machine 80 "${fleet[@]}" probe --budget '{S}' -o "$folder/machine.json"
fi
[[ -s $folder/machine.json ]] && export FLEETBLAS_MACHINE=$folder/machine.json
echo "machine: ${FLEETBLAS_MACHINE:-in the cache folder}"

for place in h p 0; do
  part "start-$place" 10 "${fleet[@]}" doctor --startup --size $first --place $place
done
bench squares 120 gemm --size $squares --place 'h;0;p' --seconds 2 "${xt[@]}"
bench squares-s 80 gemm --type s --size $squares --place 'h;0' --seconds 2 "${xt[@]}"
if [[ -n ${SMALL:-} ]]; then
  bench level3 130 syrk,trsm,trmm,syr2k,symm --size $large --place 'h;0' --seconds 2
else
  bench level3 110 all --dataset level3 --size $large
  bench skinny 60 gemm --dataset skinny
  bench scaling 70 gemm --dataset scaling
  bench irregular 50 gemm --dataset irregular
  bench paralia 50 gemm --dataset paralia
fi
[[ -n ${SMALL:-} ]] || bench calls 30 calls --size 4K,8K --processes 1,4,28 --seconds 1
[[ -n ${SMALL:-} ]] || part threshold 30 "${fleet[@]}" bench gemm --threshold --budget '{S}' --json '{J}'
bench factors 90 potrf,getrf,geqrf --size $first --place 'h;0' --seconds 3 "${solver[@]}"
if [[ -z ${SMALL:-} ]]; then
  # Beside the host and its pageable memory, which are locations too.
  gpus=$("$python" -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["devices"]) - 2)' \
    "${FLEETBLAS_MACHINE:-$folder/machine.json}" 2>/dev/null || echo 1)
  bench deep 8 gemm --m 3000 --n 3000 --k 30000 --place 0,0,0
  ((gpus < 3)) || bench three 8 gemm --m 30000 --n 30000 --k 3000 --place 0,1,2
  part numpy 14 "${fleet[@]}" run -- "$python" "$here/numpy_product.py"
  part compose 50 "$python" "$here/compose.py" --sizes 8K,16K -o '{J}'
  part objectives 60 "$python" "$here/objectives.py" --problems 8 -o '{J}'
  ((gpus > 1)) && linpack=$linpack,${linpack//:1/:$gpus}
  part linpack 60 "$python" "$here/linpack_devices.py" --cases "$linpack" --repeat 1 \
    --seconds '{S}' --json '{J}'
fi

only=${ONLY:-}
for name in ${only//,/ }; do
  [[ $known == *,$name,* ]] || { failed+=("$name: no such part"); }
done
results=()
for name in squares squares-s level3 skinny scaling irregular paralia factors deep three; do
  [[ -s $folder/$name.json ]] && results+=("$folder/$name.json")
done
if ((${#results[@]} > 0)); then
  "${fleet[@]}" report "${results[@]}" -o "$folder/report.html" || failed+=(report)
fi
printf '\n%d seconds\n' "$SECONDS"
((${#failed[@]} == 0)) && exit 0
echo "failed: ${failed[*]}" >&2
exit 1
