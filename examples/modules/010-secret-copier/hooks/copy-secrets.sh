#!/usr/bin/env bash
# Copies every Secret labelled examples/copy-to-all-namespaces=true into all namespaces
# and keeps the copies equal, because pull secrets and CA bundles are needed everywhere
# but belong to one owner. Copies go when their source, its label or the module goes.
set -euo pipefail

# One group: whatever changes, the hook gets all three snapshots and brings everything
# in order in one pass. "wanted" and "copies" have the same form, so that they compare.
if [[ "${1:-}" == "--config" ]]; then
  cat <<'EOF'
configVersion: v1
afterDeleteHelm: 10
kubernetes:
- name: sources
  apiVersion: v1
  kind: Secret
  labelSelector: {matchLabels: {examples/copy-to-all-namespaces: "true"}}
  jqFilter: '{namespace: .metadata.namespace, name: .metadata.name, type, data}'
  keepFullObjectsInMemory: false
  queue: secret-copier
  group: copy
- name: namespaces
  apiVersion: v1
  kind: Namespace
  jqFilter: '{name: .metadata.name, active: (.status.phase == "Active")}'
  keepFullObjectsInMemory: false
  queue: secret-copier
  group: copy
- name: copies
  apiVersion: v1
  kind: Secret
  labelSelector: {matchExpressions: [{key: examples/copied-from, operator: Exists}]}
  jqFilter: '{namespace: .metadata.namespace, name: .metadata.name, type, data, from: .metadata.labels["examples/copied-from"]}'
  keepFullObjectsInMemory: false
  executeHookOnEvent: [Modified, Deleted]
  queue: secret-copier
  group: copy
EOF
  exit 0
fi

plan=$(jq '
  def manifests: map({
    apiVersion: "v1", kind: "Secret", type, data,
    metadata: {namespace, name, labels: {"examples/copied-from": .from}}
  });
  .[-1] as $context
  | ($context.snapshots | map_values(map(.filterResult))) as $seen
  | (if $context.binding == "afterDeleteHelm" then [] else [
      ($seen.sources | unique_by(.name))[] as $source
      | $seen.namespaces[] | select(.active and .name != $source.namespace)
      | $source + {namespace: .name, from: $source.namespace}
    ] end) as $wanted
  | ($wanted | map([.namespace, .name])) as $places
  | {
      apply: ($wanted - $seen.copies | manifests),
      delete: ($seen.copies | map(select([.namespace, .name] | IN($places[]) | not)) | manifests)
    }' "$BINDING_CONTEXT_PATH")

# Runs kubectl with the manifests of one part of the plan, if there are any.
each() {
  local part=$1
  shift
  jq -r --arg part "$part" '.[$part][].metadata | "\($part) \(.namespace)/\(.name)"' <<<"$plan"
  if jq -e --arg part "$part" '.[$part] != []' <<<"$plan" >/dev/null; then
    jq --arg part "$part" '{apiVersion: "v1", kind: "List", items: .[$part]}' <<<"$plan" | kubectl "$@" -f - >/dev/null
  fi
}

# Server-side apply refuses to take over a Secret of the same name that is somebody else's.
each apply apply --server-side --field-manager=secret-copier
each delete delete --ignore-not-found
