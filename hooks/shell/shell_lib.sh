#!/usr/bin/env bash
# What hooks in bash source: strict mode, a traceback, and the functions of frameworks/shell next to this file.
#
#   source /shell_lib.sh
#   __config__() { echo '{"configVersion": "v1", "onStartup": 1}'; }
#   __on_startup() { echo "the operator starts"; }
#   hook::run "$@"

set -Eeuo pipefail
shopt -s inherit_errexit

# hook::traceback is called when a command fails. It prints where that was, the innermost call last.
hook::traceback() {
  local code=$? command=$BASH_COMMAND frame
  for ((frame = ${#FUNCNAME[@]} - 2; frame >= 0; frame--)); do
    echo "  ${BASH_SOURCE[frame + 1]}:${BASH_LINENO[frame]}: in ${FUNCNAME[frame + 1]}" >&2
  done
  echo "exit code $code: $command" >&2 # as it is written: no variable is expanded, so no secret is printed
}
trap hook::traceback ERR

__shell_frameworks=${BASH_SOURCE[0]%shell_lib.sh}frameworks/shell
builtin source "$__shell_frameworks/context.sh"
builtin source "$__shell_frameworks/hook.sh"
# An image may add files of its own, and replace functions by them.
for __shell_file in "$__shell_frameworks"/*.sh "$__shell_frameworks"/*/*.sh; do
  case ${__shell_file#"$__shell_frameworks/"} in
    context.sh | hook.sh) ;;
    *) [[ ! -f $__shell_file ]] || builtin source "$__shell_file" ;;
  esac
done
