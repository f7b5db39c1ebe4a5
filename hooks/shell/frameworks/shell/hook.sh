#!/usr/bin/env bash
# The dispatcher: a hook defines functions for its bindings.

# hook::run prints the configuration when it is asked for it. Else it calls a handler for each context of the run, in
# their order: the first function of hook::_handlers that exists. Each runs in a subshell; the first that fails ends the
# run with its exit code.
hook::run() {
  if [[ ${1-} == --config ]]; then
    __config__
    exit 0
  fi
  local list contexts handlers handler index binding kind event group from to
  # One jq for all contexts, with a separator that read does not take for white space.
  list=$(jq -r '.[] | [.binding, .type, .watchEvent, .groupName, ((.fromVersion, .toVersion) // "" | gsub("/"; "."))]
    | map(. // "" | tostring | gsub("[\u001f\n]"; " ")) | join("\u001f")' "$BINDING_CONTEXT_PATH")
  mapfile -t contexts <<<"$list"
  trap - ERR # a handler that fails prints its own traceback
  for index in "${!contexts[@]}"; do
    IFS=$'\x1f' read -r binding kind event group from to <<<"${contexts[index]}"
    export BINDING_CONTEXT_CURRENT_INDEX=$index BINDING_CONTEXT_CURRENT_BINDING=$binding
    hook::_handlers
    for handler in "${handlers[@]}" ""; do
      if [[ -z $handler ]]; then
        echo "hook::run: no function handles the binding $binding; define one of ${handlers[*]}" >&2
        exit 1
      elif declare -F "$handler" >/dev/null; then
        break
      fi
    done
    (
      trap hook::traceback ERR
      "$handler"
    )
  done
}

# hook::_handlers sets the names that a handler of the context may have, the most specific first.
hook::_handlers() {
  case $kind in
    Synchronization) handlers=("__on_kubernetes::$binding::synchronization" "__on_kubernetes::$binding") ;;
    Event)
      handlers=("__on_kubernetes::$binding::${event,,}" "__on_kubernetes::$binding::added_or_modified" "__on_kubernetes::$binding")
      [[ $event != Deleted ]] || unset 'handlers[1]'
      ;;
    Group) handlers=("__on_group::$group") ;;
    Schedule) handlers=("__on_schedule::$binding") ;;
    Validating) handlers=("__on_validating::$binding") ;;
    Mutating) handlers=("__on_mutating::$binding") ;;
    Conversion) handlers=("__on_conversion::$binding::$from::$to" "__on_conversion::$binding") ;;
    *)
      handlers=()
      [[ $binding != onStartup ]] || handlers=(__on_startup)
      ;;
  esac
  handlers+=(__main__)
}
