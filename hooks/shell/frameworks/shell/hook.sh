#!/usr/bin/env bash
# The dispatcher: a hook defines functions for its bindings. All names here begin with __hook_ or hook::, because the
# variables of a function are seen by those that it calls: those of the hook must not be hidden.

# hook::run prints the configuration when it is asked for it. Else it calls a handler for each context of the run, in
# their order: the first function of hook::_handlers that exists. Each runs in a subshell; the first that fails ends the
# run with its exit code.
hook::run() {
  if [[ ${1-} == --config ]]; then
    __config__
    exit 0
  fi
  local __hook_list __hook_contexts __hook_handlers __hook_handler __hook_index __hook_trap
  local __hook_binding __hook_type __hook_event __hook_group __hook_from __hook_to
  # One jq for all contexts, with a separator that read does not take for white space.
  __hook_list=$(jq -r '.[] | [.binding // "unknown", .type, .watchEvent, .groupName, ((.fromVersion, .toVersion) // "" | gsub("/"; "."))]
    | map(. // "" | tostring | gsub("[\u001f\n]"; " ")) | join("\u001f")' "$BINDING_CONTEXT_PATH")
  [[ -n $__hook_list ]] || return 0
  mapfile -t __hook_contexts <<<"$__hook_list"
  __hook_trap=$(trap -p ERR)
  trap - ERR # a handler that fails prints its own traceback
  for __hook_index in "${!__hook_contexts[@]}"; do
    IFS=$'\x1f' read -r __hook_binding __hook_type __hook_event __hook_group __hook_from __hook_to \
      <<<"${__hook_contexts[__hook_index]}"
    export BINDING_CONTEXT_CURRENT_INDEX=$__hook_index BINDING_CONTEXT_CURRENT_BINDING=$__hook_binding
    hook::_handlers
    for __hook_handler in "${__hook_handlers[@]}" ""; do
      if [[ -z $__hook_handler ]]; then
        echo "hook::run: no function handles the binding $__hook_binding; define one of ${__hook_handlers[*]}" >&2
        return 1
      elif declare -F "$__hook_handler" >/dev/null; then
        break
      fi
    done
    (
      eval "$__hook_trap"
      "$__hook_handler"
    )
  done
  eval "$__hook_trap"
}

# hook::_handlers sets the names that a handler of the context may have, the most specific first.
hook::_handlers() {
  case $__hook_type in
    Synchronization)
      __hook_handlers=("__on_kubernetes::$__hook_binding::synchronization" "__on_kubernetes::$__hook_binding")
      ;;
    Event)
      __hook_handlers=("__on_kubernetes::$__hook_binding::${__hook_event,,}")
      [[ $__hook_event == Deleted ]] || __hook_handlers+=("__on_kubernetes::$__hook_binding::added_or_modified")
      __hook_handlers+=("__on_kubernetes::$__hook_binding")
      ;;
    Group) __hook_handlers=("__on_group::$__hook_group") ;;
    Schedule) __hook_handlers=("__on_schedule::$__hook_binding") ;;
    Validating) __hook_handlers=("__on_validating::$__hook_binding") ;;
    Mutating) __hook_handlers=("__on_mutating::$__hook_binding") ;;
    Conversion)
      __hook_handlers=("__on_conversion::$__hook_binding::$__hook_from::$__hook_to" "__on_conversion::$__hook_binding")
      ;;
    *)
      __hook_handlers=()
      [[ $__hook_binding != onStartup ]] || __hook_handlers=(__on_startup)
      ;;
  esac
  __hook_handlers+=(__main__)
}
