# Bash reads this file, by BASH_ENV, before a hook that names /shell_lib.sh, where that file does not exist: on the
# machine of a developer, or in an image of one's own. From then on source and find look into the directory of this file,
# too. An alias does that for source, not a function: what a function sources loses its declarations.
__shell_library=${BASH_ENV%/*}
unset BASH_ENV # programs that the hook starts do not read it
shopt -s expand_aliases
alias source='builtin source "$__shell_library/find.sh" "$#" "$@"' .='builtin source "$__shell_library/find.sh" "$#" "$@"'

# find lists the files of the library for hooks that source each of them.
find() {
  if [[ ${1-} == /frameworks/shell* && ! -e $1 ]]; then
    set -- "$__shell_library$1" "${@:2}"
  fi
  command find "$@"
}
