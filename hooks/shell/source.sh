# Bash reads this file, by BASH_ENV, before a hook that names /shell_lib.sh, where that file does not exist: on the
# machine of a developer, or in an image of one's own. From then on source looks into the directory of this file, too.
# An alias does that, not a function: what a function sources has its declarations and its arguments.
__shell_library=${BASH_ENV%/*}
__shell_arguments=("$@")
unset BASH_ENV # programs that the hook starts do not read it
shopt -s expand_aliases
alias source='builtin source "$__shell_library/find.sh"' .='builtin source "$__shell_library/find.sh"'
