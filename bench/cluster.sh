#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# cluster.sh: a cluster of nodes on one machine, to measure what crosses a network. Each node is a
# network namespace and a host name of its own; its link to a common switch lets through RATE in each
# direction. Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN), ip and tc (iproute2), and Open MPI.
#
# usage: bench/cluster.sh up [NODES=4] [RATE=1gbit]
#        bench/cluster.sh run PROGRAM [ARGUMENT...]   (one rank a node, by mpirun; MPIRUN_FLAGS adds flags)
#        bench/cluster.sh down
#        bench/cluster.sh can                         (status 0 if `up` has the rights and tools)
set -euo pipefail

switch=fleet-switch
prefix=fleet-node-
network=10.77.0

fail() {
  printf 'cluster.sh: %s\n' "$1" >&2
  exit 1
}

nodes() { ip netns list | awk -v prefix="$prefix" 'index($1, prefix) == 1 {print $1}' | sort; }

can() {
  for tool in ip tc unshare mpirun; do
    command -v "$tool" >/dev/null || fail "there is no $tool"
  done
  ip netns add "${prefix}trial" 2>/dev/null || fail "no rights to make network namespaces"
  ip netns del "${prefix}trial"
}

down() {
  local node
  for node in $(nodes); do ip netns del "$node"; done
  ip link del "$switch" 2>/dev/null || true
}

# limit RATE INTERFACE COMMAND...: a token bucket, whose burst is what a link of this rate sends in a
# millisecond or so.
limit() {
  local rate=$1 interface=$2
  shift 2
  "$@" tc qdisc add dev "$interface" root tbf rate "$rate" burst 128kb latency 20ms
}

up() {
  local count=${1:-4} rate=${2:-1gbit} k node
  can
  down
  ip link add "$switch" type bridge
  ip addr add "$network.1/24" dev "$switch"
  ip link set "$switch" up
  for ((k = 0; k < count; ++k)); do
    node=$prefix$k
    ip netns add "$node"
    ip link add "fleet-v$k" type veth peer name eth0 netns "$node"
    ip link set "fleet-v$k" master "$switch" up
    ip -n "$node" addr add "$network.$((10 + k))/24" dev eth0
    ip -n "$node" link set eth0 up
    ip -n "$node" link set lo up
    limit "$rate" eth0 ip netns exec "$node"
    limit "$rate" "fleet-v$k"
  done
}

# What mpirun starts its daemons with: `agent HOST COMMAND...`, in place of ssh.
agent() {
  local k=$((${1##*.} - 10))
  shift
  # The command is one for a shell, as ssh would pass it on.
  exec ip netns exec "$prefix$k" unshare --uts sh -c "hostname node$k && $*"
}

run() {
  local count hosts
  count=$(nodes | wc -l)
  [ "$count" -gt 0 ] || fail "there are no nodes: cluster.sh up"
  hosts=$(seq -f "$network.%g" -s , 10 $((9 + count)))
  exec mpirun --allow-run-as-root -n "$count" --host "$hosts" \
    --mca plm_rsh_agent "$(realpath "${BASH_SOURCE[0]}") agent" --mca plm_rsh_no_tree_spawn 1 \
    --mca oob_tcp_if_include "$network.0/24" --mca btl tcp,self \
    --mca btl_tcp_if_include "$network.0/24" --mca mpi_yield_when_idle 1 --bind-to none \
    ${MPIRUN_FLAGS:-} "$@"
}

[ $# -gt 0 ] || fail "up, run, down or can?"
case $1 in
  up | run | down | can | agent) "$@" ;;
  *) fail "up, run, down or can?" ;;
esac
