#!/usr/bin/env bash
# Plays the examples: a Kubernetes control plane on this machine, the operator in it, and
# the modules of this directory. `make run` builds the programs and starts this script.
#
# All it writes lies in .run and is found again by the next run. Environment variables:
# RUN_ONCE=1 ends it by itself after the first converge; MODULES_DIR and GLOBAL_HOOKS_DIR
# put other directories in the place of the examples.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly run=.run
readonly namespace=addon-operator
readonly parent=$PPID

umask 077 # the kubeconfig, the logs and the hooks' files are as secret as the cluster
mkdir -p "$run/tmp"
export PATH="$PWD/bin:$PATH"
export KUBECONFIG="$PWD/$run/cluster/kubeconfig"
export KUBECACHEDIR="$PWD/$run/kube-cache"

operator='' cluster='' guard='' follower=''

say() { printf '\n== %s\n' "$*"; }

die() {
  printf '\nmake run: %s\n' "$*" >&2
  exit 1
}

# Starts a program in a process group of its own, so that Ctrl-C reaches this script only
# and the order of stopping is ours. The id of the process is in $! afterwards.
launch() {
  set -m
  "$@" </dev/null &
  set +m
}

alive() { [[ -n "$1" ]] && kill -0 "$1" 2>/dev/null; }

# Ends a process group and waits for it.
stop() {
  alive "$1" || return 0
  kill -TERM -- "-$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# Stops the operator before its cluster; an impatient second Ctrl-C kills both.
cleanup() {
  local code=$?
  trap - EXIT
  trap 'kill -KILL -- "-$operator" "-$cluster" 2>/dev/null' INT TERM HUP
  stop "$guard"
  alive "$operator" && say "stopping the operator, then the cluster"
  stop "$operator"
  stop "$cluster"
  stop "$follower"
  exit "$code"
}

# Ends what this script started if the script is killed in a way that no trap sees. The
# cluster watches its parent by itself.
guard() {
  while kill -0 "$$" 2>/dev/null; do sleep 1; done
  kill -TERM -- "$@" 2>/dev/null
}

# The first free loopback port from $1 on.
free_port() {
  local port
  for ((port = $1; port < $1 + 100; port++)); do
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
  die "ports $1 to $port are all taken"
}

# Is the first converge over? A fresh machine has no curl, so bash asks by itself.
ready() {
  (
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
    IFS= read -r line <&3
    [[ "$line" == *' 200 '* ]]
  ) 2>/dev/null
}

start_cluster() {
  say "starting a cluster: kube-apiserver, etcd and controllers in one process"
  : >"$run/cluster.out"
  launch bin/devcluster --dir "$run/cluster" --parent-pid "$$" >"$run/cluster.out" 2>"$run/cluster.err"
  cluster=$!
  while [[ ! -s "$run/cluster.out" ]]; do
    if ! alive "$cluster"; then
      cat "$run/cluster.err" >&2
      die "the cluster did not start; its log is $run/cluster/devcluster.log"
    fi
    sleep 0.2
  done
  cat "$run/cluster.out"
}

# What an installation has before the operator comes. A ConfigMap of an earlier run stays.
prepare_cluster() {
  local object
  for object in "namespace $namespace" "configmap addon-operator"; do
    # shellcheck disable=SC2086 # two words: kind and name
    [[ -n "$(kubectl -n "$namespace" get $object --ignore-not-found -o name)" ]] ||
      kubectl -n "$namespace" create $object
  done
}

start_operator() {
  port=$(free_port 9650)
  debug_port=$(free_port 9115)
  say "starting the operator: http://127.0.0.1:$port for probes and metrics, http://127.0.0.1:$debug_port for debugging"
  [[ "$port $debug_port" == "9650 9115" ]] || echo "(its usual ports 9650 and 9115 are not both free, hence these)"
  export MODULES_DIR="${MODULES_DIR:-$PWD/examples/modules}"
  export GLOBAL_HOOKS_DIR="${GLOBAL_HOOKS_DIR:-$PWD/examples/global-hooks}"
  export ADDON_OPERATOR_NAMESPACE="$namespace"
  export ADDON_OPERATOR_TMP_DIR="$PWD/$run/tmp" DEBUG_UNIX_SOCKET="$run/debug.socket"
  export ADDON_OPERATOR_LISTEN_ADDRESS=127.0.0.1 ADDON_OPERATOR_LISTEN_PORT="$port"
  export ADDON_OPERATOR_DEBUG_ADDRESS="127.0.0.1:$debug_port"
  LOG_TYPE=$([[ -t 1 ]] && echo color || echo text)
  export LOG_TYPE
  launch bin/addon-operator >"$run/operator.log" 2>&1
  operator=$!
}

# Shows the operator's log from line $1 on, until unfollow.
follow() {
  launch show_log "$1"
  follower=$!
}

show_log() {
  tail -n "+$1" -f "$run/operator.log" &
  guard "$!"
}

unfollow() {
  stop "$follower"
  follower=''
}

# Ends the script when one of the two programs has ended by itself.
check_programs() {
  local code=0
  if ! alive "$operator"; then
    wait "$operator" || code=$?
    unfollow
    printf '\nmake run: the operator has ended with exit code %s. The end of its log, %s:\n' "$code" "$run/operator.log" >&2
    tail -n 20 "$run/operator.log" >&2
    exit "$code"
  fi
  alive "$cluster" || die "the cluster has ended by itself; its log is $run/cluster/devcluster.log"
}

wait_until_ready() {
  local started=$SECONDS
  until ready; do
    check_programs
    alive "$parent" || exit 0
    sleep 0.3
  done
  say "the first converge is over, after $((SECONDS - started)) s"
}

show() {
  say "the releases, one for each module with a chart that is enabled"
  kubectl -n "$namespace" get secrets -l owner=helm,status=deployed \
    -o custom-columns=RELEASE:.metadata.labels.name,REVISION:.metadata.labels.version,STATUS:.metadata.labels.status
  say "their objects (Pods stay pending: this cluster has no nodes)"
  kubectl -n "$namespace" get deployments,cronjobs,services,configmaps,secrets,serviceaccounts -l heritage=addon-operator -o name
  say "the ConfigMap addon-operator: what people set, and the password that a hook stored"
  kubectl -n "$namespace" get configmap addon-operator -o json |
    jq -r 'if .data then .data | to_entries[] | "\(.key): |", (.value | rtrimstr("\n") | split("\n")[] | "  " + .)
      else "(nothing yet)" end'
}

next_steps() {
  local address=''
  [[ "$debug_port" == 9115 ]] || address=" ADDON_OPERATOR_DEBUG_ADDRESS=127.0.0.1:$debug_port"
  cat <<EOF

== what to try next, in a second terminal
export KUBECONFIG=$(printf %q "$KUBECONFIG") PATH=$(printf %q "$PWD/bin"):\$PATH$address
EOF
  [[ "$MODULES_DIR" == "$PWD/examples/modules" ]] || return 0
  cat <<EOF

1. Change a value. The module prometheus runs again, and its release is upgraded:
   kubectl -n $namespace patch configmap addon-operator --type merge -p '{"data":{"prometheus":"retention: 30d"}}'
   sleep 1; kubectl -n $namespace get deployment prometheus -o yaml | grep retention

2. A hook of the module backup fails and backs off, and nobody else is held up. Look, help it, look again:
   addon-operator module list
   kubectl -n $namespace create secret generic backup-s3-credentials --from-literal=AWS_ACCESS_KEY_ID=me
   kubectl -n $namespace wait --for=create configmap/backup-status --timeout=60s
   addon-operator module list

3. Have a Secret copied into every namespace, also into new ones:
   kubectl create secret generic ca-bundle --from-literal=ca.crt=hello
   kubectl label secret ca-bundle examples/copy-to-all-namespaces=true
   kubectl create namespace team-a
   kubectl -n team-a wait --for=create secret/ca-bundle --timeout=60s

4. Disable prometheus, and grafana, which needs it, goes too. With null in place of "false" both come back:
   kubectl -n $namespace patch configmap addon-operator --type merge -p '{"data":{"prometheusEnabled":"false"}}'
   kubectl -n $namespace wait --for=delete deployment/grafana deployment/prometheus --timeout=60s
EOF
}

trap cleanup EXIT
trap 'exit 0' INT TERM HUP

start_cluster
prepare_cluster
start_operator
launch guard "-$operator"
guard=$!
follow 1
wait_until_ready
unfollow
show
next_steps
[[ "${RUN_ONCE:-}" != 1 ]] || exit 0

say "Ctrl-C ends the operator and the cluster; their data stay in $run. The operator's log goes on:"
follow "$(($(wc -l <"$run/operator.log") + 1))"
while alive "$parent"; do
  check_programs
  sleep 1
done
