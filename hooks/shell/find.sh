# What the alias source sources: $1 is the number of arguments that there are around it, which follow; then come the
# file that the hook has asked for, and its own arguments.
__shell_arguments=("${@:2:$1}")
shift $(($1 + 1))
__shell_file=$1
shift
if [[ ($__shell_file == /shell_lib.sh || $__shell_file == /frameworks/shell/*) && ! -e $__shell_file ]]; then
  __shell_file=$__shell_library$__shell_file
fi
if [[ $# -gt 0 ]]; then
  builtin source "$__shell_file" "$@"
else # a file that is sourced without arguments has those around it, and may set them
  set -- ${__shell_arguments[@]+"${__shell_arguments[@]}"}
  builtin source "$__shell_file"
fi
