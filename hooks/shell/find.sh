# What the alias source sources: $1 is the file that the hook has asked for, with its arguments behind it.
__shell_file=$1
shift
if [[ $__shell_file == /shell_lib.sh || $__shell_file == /frameworks/shell/* ]] && [[ ! -e $__shell_file ]]; then
  __shell_file=$__shell_library$__shell_file
fi
if [[ $# -eq 0 ]]; then # a file that is sourced without arguments has those of the hook
  set -- ${__shell_arguments[@]+"${__shell_arguments[@]}"}
fi
builtin source "$__shell_file" "$@"
