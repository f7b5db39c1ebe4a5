#!/usr/bin/env bash
# `make run`: a cluster on this machine, the operator outside of it, and the modules of this
# directory. It builds what it needs, and keeps what it writes in .run for the next run.
# Environment variables:
#
#   CLUSTER=memory     an API server in memory (the default): built in the time of the operator,
#                      without admission, defaults and controllers
#   CLUSTER=real       kube-apiserver, etcd and controllers in one process: some minutes more to
#                      build the first time
#   CLUSTER=mine       the cluster of your current kubeconfig, in a namespace of its own; asks first
#   NAMESPACE          of the operator and its releases (default addon-operator, with CLUSTER=mine
#                      addon-operator-run)
#   MODULES_DIR        other modules than the examples; they come without the examples' global hooks
#   GLOBAL_HOOKS_DIR   other global hooks
#   YES=1              CLUSTER=mine without the question
#   VIEW=1             the lines of `addon-operator dev` in the place of the operator's log; with
#                      CLUSTER=memory it has a cluster of its own, which ends with it
#   RUN_ONCE=1         end after the first converge, for which it waits five minutes at most
#   BUILT=1            run the programs that are in bin/, without a look at their sources
#   RUN_DIR            other directory than .run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly kind=${CLUSTER:-memory}
readonly parent=$PPID
[[ $kind == mine ]] && default_namespace=addon-operator-run || default_namespace=addon-operator
readonly namespace=${NAMESPACE:-$default_namespace}
run=${RUN_DIR:-.run}
[[ $run == /* ]] || run=$PWD/$run

[[ ${VIEW:-}${RUN_ONCE:-} != 11 ]] || {
  echo "make run: VIEW=1 lasts until somebody ends it, so it excludes RUN_ONCE=1" >&2
  exit 1
}

readonly umask_before=$(umask)
umask 077 # the kubeconfig, the logs and the hooks' files are as secret as the cluster
mkdir -p "$run/tmp"
export PATH="$PWD/bin:$PATH"
export KUBECACHEDIR="$run/kube-cache"

owned='' builder='' operator='' cluster='' guard='' follower='' viewer='' interrupted='' examples=''

say() {
  printf '\n== %s\n' "$*"
}

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

# Ends a process group, also one that is paused, and waits for it.
stop() {
  alive "$1" || return 0
  kill -TERM -- "-$1" 2>/dev/null || true
  kill -CONT -- "-$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# Waits until a process, or a group with its number after a minus, has ended, $2 tenths of a second at most.
await() {
  local i
  for ((i = 0; i < $2; i++)); do
    kill -0 -- "$1" 2>/dev/null || return 0
    sleep 0.1
  done
}

# Two runs with one directory would write each other's kubeconfig and data.
own_directory() {
  local other='' command=''
  [[ ! -s "$run/pid" ]] || other=$(<"$run/pid")
  if alive "$other"; then # it may be the number of another program by now
    command=$(tr '\0' ' ' 2>/dev/null <"/proc/$other/cmdline" || ps -o args= -p "$other" 2>/dev/null) || true
    [[ $command != *run.sh* ]] ||
      die "another make run, process $other, uses $run: end it with Ctrl-C, or give this one a directory of its own: RUN_DIR=.run2 make run"
  fi
  echo "$$" >"$run/pid"
  owned=1
}

# Stops the operator before its cluster; an impatient second Ctrl-C kills both. Nobody may read what it prints by now, as when
# Ctrl-C has ended tee, too: that must not end it. guard is stopped last, as the one who is there if this is killed.
cleanup() {
  local code=$?
  trap - EXIT
  trap '' PIPE
  set +e
  trap 'kill -KILL -- "-$operator" "-$cluster" "-$builder" 2>/dev/null' INT TERM HUP
  if alive "$builder"; then
    say "stopping the build; the next make run continues where this one stopped"
    stop "$builder"
    await "-$builder" 50 # go and its compilers; where nothing reaps orphans, they stay
  fi
  if alive "$viewer"; then
    # Ctrl-C reaches it, too, as a rule, and a second signal would end it before it has removed its files.
    [[ -z $interrupted ]] || await "$viewer" 300
    kill -TERM "$viewer" 2>/dev/null || true
    wait "$viewer" 2>/dev/null || true
  fi
  if alive "$operator" && [[ $kind == mine ]]; then
    say "stopping the operator"
  elif alive "$operator"; then
    say "stopping the operator, then the cluster"
  fi
  stop "$operator"
  stop "$cluster"
  stop "$follower"
  stop "$guard"
  [[ -z $owned ]] || rm -rf "$run/pid" "$run/build"
  exit "$code"
}

# Ends what this script started if the script is killed in a way that no trap sees. The
# cluster watches its parent by itself.
guard() {
  while kill -0 "$$" 2>/dev/null; do sleep 1; done
  kill -TERM -- "$@" 2>/dev/null
}

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Sets the variable $1 to a free loopback port from $2 on, for $3, and names what is taken.
choose_port() {
  local candidate
  for ((candidate = $2; candidate < $2 + 100; candidate++)); do
    if ! taken "$candidate"; then
      [[ $candidate == "$2" ]] || echo "port $2 is taken by another program: $3 at port $candidate"
      printf -v "$1" %s "$candidate"
      return
    fi
  done
  die "no free port for $3: $2 to $((candidate - 1)) are all taken"
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

# Builds in a process group of its own: Ctrl-C ends this script, and that ends the build. Go does not
# remove its temporary files, up to 1 GB, when it is ended, so they are in a directory that cleanup removes.
build() {
  local code=0
  rm -rf "$run/build"
  mkdir "$run/build"
  umask "$umask_before" # bin is no secret
  GOTMPDIR="$run/build" BUILD_THEN="the cluster starts" launch bash .ci/build "$@"
  builder=$!
  umask 077
  wait "$builder" || code=$?
  builder=''
  ((code == 0)) || die "the build failed"
}

build_programs() {
  local programs
  case $kind in
    memory | mine) programs=(operator tools) ;;
    real) programs=(cluster tools operator) ;;
  esac
  [[ ${BUILT:-} == 1 ]] || build "${programs[@]}"
}

start_cluster() {
  local program
  case $kind in
    memory)
      say "starting an API server in memory: no admission, defaults or controllers (CLUSTER=real has them)"
      program=(bin/addon-operator apiserver)
      ;;
    real)
      say "starting a cluster: kube-apiserver, etcd and controllers in one process, and a node that runs no containers"
      program=(bin/devcluster --node)
      ;;
    mine)
      use_own_cluster
      return
      ;;
  esac
  : >"$run/cluster.out"
  launch "${program[@]}" --dir "$data" --parent-pid "$$" >"$run/cluster.out" 2>"$run/cluster.err"
  cluster=$!
  while [[ ! -s "$run/cluster.out" ]]; do
    if ! alive "$cluster"; then
      cat "$run/cluster.err" >&2
      die "the cluster did not start: $run/cluster.err has its messages"
    fi
    sleep 0.1
  done
  cat "$run/cluster.out"
}

# CLUSTER=mine: nothing is written before the person agrees.
use_own_cluster() {
  local context server answer
  context=$(kubectl config current-context 2>/dev/null) || die "CLUSTER=mine: there is no current context in your kubeconfig"
  server=$(kubectl config view --minify -o 'jsonpath={.clusters[0].cluster.server}')
  kubectl version --request-timeout=10s >/dev/null 2>"$run/cluster.err" || {
    cat "$run/cluster.err" >&2
    die "CLUSTER=mine: the API server of context $context does not answer"
  }
  cat <<EOF

== your cluster: context $context, $server
The operator runs on this machine, with your permissions. It writes its ConfigMap and releases into
the namespace $namespace, and whatever the modules of $MODULES_DIR write elsewhere.
EOF
  if [[ ${YES:-} != 1 ]]; then
    [[ -t 0 ]] || die "CLUSTER=mine asks for confirmation, and there is no terminal: set YES=1 to confirm"
    read -r -p "Continue? [y/N] " answer
    [[ $answer == [yY]* ]] || die "nothing was written"
  fi
}

# What an installation has before the operator comes. A ConfigMap of an earlier run stays.
prepare_cluster() {
  local object
  for object in "namespace $namespace" "configmap addon-operator"; do
    # shellcheck disable=SC2086 # two words: kind and name
    [[ -n "$(kubectl -n "$namespace" get $object --ignore-not-found -o name)" ]] ||
      kubectl -n "$namespace" create $object
  done
  [[ $kind == mine ]] || kubectl apply -f deploy/chart/module-crd.yaml
}

start_operator() {
  say "starting the operator: http://127.0.0.1:$port for probes and metrics, http://127.0.0.1:$debug_port for debugging"
  export ADDON_OPERATOR_NAMESPACE="$namespace"
  # As the chart of the Deployment has it.
  export ADDON_OPERATOR_MODULE_FAILURE_POLICY="${ADDON_OPERATOR_MODULE_FAILURE_POLICY:-isolate}"
  export ADDON_OPERATOR_TMP_DIR="$run/tmp" DEBUG_UNIX_SOCKET="$run/debug.socket"
  export ADDON_OPERATOR_LISTEN_ADDRESS=127.0.0.1 ADDON_OPERATOR_LISTEN_PORT="$port"
  export DEBUG_HTTP_SERVER_ADDR="127.0.0.1:$debug_port"
  # An API server on this machine can ask hooks; that of a cluster elsewhere cannot come here.
  [[ $kind == mine ]] || export ADDON_OPERATOR_WEBHOOK_ADDRESS="${ADDON_OPERATOR_WEBHOOK_ADDRESS:-127.0.0.1:0}"
  LOG_TYPE=$([[ -t 1 ]] && echo color || echo text)
  export LOG_TYPE
  launch bin/addon-operator >"$run/operator.log" 2>&1
  operator=$!
}

# Shows the operator's log until unfollow. Between pause and
# resume nothing is shown, and nothing is lost.
follow() {
  launch show_log
  follower=$!
}

show_log() {
  tail -n +1 -f "$run/operator.log" &
  guard "$!"
}

pause() { kill -STOP -- "-$follower" 2>/dev/null || true; }

resume() { kill -CONT -- "-$follower" 2>/dev/null || true; }

unfollow() {
  stop "$follower"
  follower=''
}

# VIEW=1: the command dev is the operator. It stays in the group of this script, so Ctrl-C reaches it.
view() {
  local code=0 options=()
  export ADDON_OPERATOR_TMP_DIR="$run/tmp"
  [[ $kind == memory ]] || options=(--cluster --namespace "$namespace" --yes)
  say "Ctrl-C ends the operator; in a second terminal: export PATH=$(printf %q "$PWD/bin"):\$PATH, then the line that follows"
  bin/addon-operator dev ${options[@]+"${options[@]}"} &
  viewer=$!
  while alive "$viewer"; do
    alive "$parent" || exit 0
    sleep 0.2
  done
  wait "$viewer" || code=$?
  exit "$code"
}

# Ends the script when one of the two programs has ended by itself.
check_programs() {
  local code=0
  if ! alive "$operator"; then
    wait "$operator" || code=$?
    unfollow
    printf '\nmake run: the operator exited with code %s. The end of its log, %s:\n' "$code" "$run/operator.log" >&2
    tail -n 20 "$run/operator.log" >&2
    exit "$code"
  fi
  [[ $kind == mine ]] || alive "$cluster" || die "the cluster has ended unexpectedly: $run/cluster.err has its messages"
}

# Says after half a minute how to find out what the first converge waits for.
wait_until_ready() {
  local started=$SECONDS told=''
  until ready; do
    check_programs
    alive "$parent" || exit 0
    [[ ${RUN_ONCE:-} != 1 ]] || ((SECONDS - started < 300)) || die "RUN_ONCE=1: not converged after 300 s; the log is $run/operator.log"
    if [[ -z $told ]] && ((SECONDS - started > 30)); then
      told=1
      say "not converged after 30 s: \`addon-operator module list\` in a second terminal shows what it waits for"
    fi
    sleep 0.2
  done
  say "the first converge is over, after $((SECONDS - started)) s"
}

# Ready is more than converged: Deployments are available, too.
await_modules() {
  if DEBUG_HTTP_SERVER_ADDR=127.0.0.1:$debug_port addon-operator wait --timeout 30s >"$run/wait.out" 2>&1; then
    say "all modules are ready, with all objects of their releases"
    if [[ $examples == 1 ]] && ! kubectl -n "$namespace" get secret backup-s3-credentials >/dev/null 2>&1; then
      echo "A hook of the module backup fails, on purpose: the Secret that it needs does not exist."
    fi
  else
    say "not all modules are ready yet: \`addon-operator wait\` in a second terminal shows which, and why"
  fi
}

show() {
  say "the releases, one for each module with a chart that is enabled"
  kubectl -n "$namespace" get secrets -l owner=helm,status=deployed \
    -o custom-columns=RELEASE:.metadata.labels.name,REVISION:.metadata.labels.version,STATUS:.metadata.labels.status
  if [[ $kind == mine ]]; then say "their objects"; else say "their objects (no containers run: workloads count as running)"; fi
  kubectl -n "$namespace" get deployments,cronjobs,services,configmaps,secrets,serviceaccounts -l addon-operator/module -o name
  say "the ConfigMap addon-operator: what people set"
  kubectl -n "$namespace" get configmap addon-operator -o json |
    jq -r 'if .data then .data | to_entries[] | "\(.key): |", (.value | rtrimstr("\n") | split("\n")[] | "  " + .)
      else "(nothing yet)" end'
  say "the Secret addon-operator: the sections in which hooks stored passwords"
  kubectl -n "$namespace" get secret addon-operator --ignore-not-found -o json |
    jq -rs '.[0].data // {} | if . == {} then "(nothing yet)" else keys[] end'
}

# For a second terminal, as soon as the API server answers: a module that is broken is looked
# at with these commands.
second_terminal() {
  local config=''
  [[ $kind == mine ]] || config="KUBECONFIG=$(printf %q "$KUBECONFIG") "
  say "for a second terminal"
  echo "export ${config}ADDON_OPERATOR_NAMESPACE=$namespace DEBUG_HTTP_SERVER_ADDR=127.0.0.1:$debug_port PATH=$(printf %q "$PWD/bin"):\$PATH"
}

next_steps() {
  local list="; kubectl -n $namespace get modules"
  [[ $kind != mine ]] || list='' # nothing was written that concerns the whole cluster, so the kind Module does not exist
  [[ $examples == 1 ]] || return 0
  say "what to try next, in the second terminal"
  cat <<EOF
1. Change a value. The module prometheus runs again, and its release is upgraded:
   addon-operator values set prometheus.retention 30d
   sleep 1; kubectl -n $namespace get deployment prometheus -o yaml | grep retention

2. A hook of the module backup fails and is retried, without delaying other modules. Inspect it, fix it, inspect it again:
   addon-operator module list$list
   kubectl -n $namespace create secret generic backup-s3-credentials --from-literal=AWS_ACCESS_KEY_ID=me
   kubectl -n $namespace wait --for=create configmap/backup-status --timeout=60s
   addon-operator module list

3. Have a Secret copied into every namespace, also into new ones:
   kubectl create secret generic ca-bundle --from-literal=ca.crt=hello
   kubectl label secret ca-bundle examples/copy-to-all-namespaces=true
   kubectl create namespace team-a
   kubectl -n team-a wait --for=create secret/ca-bundle --timeout=60s

4. Disable prometheus: grafana, which needs it, is disabled, too. Without the flag both are installed again:
   addon-operator values set prometheusEnabled false --yes
   kubectl -n $namespace wait --for=delete deployment/grafana deployment/prometheus --timeout=60s
   addon-operator values unset prometheusEnabled
EOF
}

trap cleanup EXIT
trap 'interrupted=1; exit 0' INT
trap 'exit 0' TERM HUP

# Other modules do not want the global hooks of the examples: their values and schemas are not
# made for each other.
if [[ -n ${MODULES_DIR:-} && -z ${GLOBAL_HOOKS_DIR:-} ]]; then
  GLOBAL_HOOKS_DIR=$run/no-global-hooks
  mkdir -p "$GLOBAL_HOOKS_DIR"
fi
export MODULES_DIR="${MODULES_DIR:-$PWD/examples/modules}"
export GLOBAL_HOOKS_DIR="${GLOBAL_HOOKS_DIR:-$PWD/examples/global-hooks}"
[[ $MODULES_DIR != "$PWD/examples/modules" ]] || examples=1

# What can be wrong is found before minutes of building.
check_directories() {
  local dir dirs
  IFS=: read -r -a dirs <<<"$MODULES_DIR"
  for dir in "${dirs[@]}"; do [[ -z $dir || -d $dir ]] || die "MODULES_DIR: there is no directory $dir"; done
  [[ -d $GLOBAL_HOOKS_DIR ]] || die "GLOBAL_HOOKS_DIR: there is no directory $GLOBAL_HOOKS_DIR"
}

check_kubeconfig() {
  local file files
  IFS=: read -r -a files <<<"${KUBECONFIG:-$HOME/.kube/config}"
  for file in "${files[@]}"; do [[ ! -s $file ]] || return 0; done
  die "CLUSTER=mine: there is no kubeconfig ${KUBECONFIG:-$HOME/.kube/config}"
}

check_directories
case $kind in
  memory | real)
    # Each set of modules has a cluster of its own: the releases of other modules would count as removed ones.
    data=$run/$kind
    [[ $examples == 1 ]] || data+=-$(cksum <<<"${MODULES_DIR%/}" | cut -d ' ' -f 1)
    export KUBECONFIG="$data/kubeconfig"
    ;;
  mine) check_kubeconfig ;;
  *) die "CLUSTER is $kind: use memory, real or mine" ;;
esac

own_directory
build_programs
[[ ${VIEW:-} != 1 || $kind != memory ]] || view # with a cluster of its own
choose_port port 9650 "probes and metrics are"
choose_port debug_port 9115 "the debug pages are"
start_cluster
[[ ${VIEW:-} != 1 ]] || view
second_terminal
prepare_cluster
start_operator
launch guard "-$operator"
guard=$!
follow
wait_until_ready
await_modules
pause
show
[[ "${RUN_ONCE:-}" != 1 ]] || exit 0
next_steps
second_terminal

if [[ $kind == mine ]]; then
  say "Ctrl-C ends the operator; what it installed stays"
  echo "kubectl delete namespace $namespace removes it, but not what modules wrote elsewhere. This lists their objects without a namespace:"
  echo "kubectl get clusterroles,clusterrolebindings -l addon-operator/module"
  say "the operator's log continues:"
else
  say "Ctrl-C ends the operator and the cluster; $run keeps logs, and objects with CLUSTER=real. The operator's log continues:"
fi
resume
while alive "$parent"; do
  check_programs
  sleep 1
done
