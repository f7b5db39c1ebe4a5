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

# A Secret cannot change its type, so one of another type counts as another place.
plan=$(jq '
  def place: [.namespace, .name, .type];
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
  | ($wanted | map(place)) as $places
  | ($seen.copies | map(place)) as $taken
  | {
      delete: ($seen.copies | map(select(place | IN($places[]) | not)) | manifests),
      create: ($wanted | map(select(place | IN($taken[]) | not)) | manifests),
      replace: ($wanted - $seen.copies | map(select(place | IN($taken[]))) | manifests)
    }' "$BINDING_CONTEXT_PATH")

# Create, not apply: a Secret of the same name that is no copy belongs to somebody else.
# Then the hook fails and says so, after it has served all other namespaces.
failed=0
for command in "delete --ignore-not-found" create replace; do
  verb=${command%% *}
  jq -r --arg verb "$verb" '.[$verb][].metadata | "\($verb) \(.namespace)/\(.name)"' <<<"$plan"
  if jq -e --arg verb "$verb" '.[$verb] != []' <<<"$plan" >/dev/null; then
    # shellcheck disable=SC2086
    jq --arg verb "$verb" '{apiVersion: "v1", kind: "List", items: .[$verb]}' <<<"$plan" |
      kubectl $command -f - >/dev/null || failed=1 # unquoted: verb and flag
  fi
done
exit "$failed"
