# Bash reads this file, by BASH_ENV, before a hook that names /shell_lib.sh, where that file does not exist: on the machine
# of a developer, or in an image of one's own. It makes source find the library next to this file.
BINDING_LIBRARY=${BASH_ENV%/*}
unset BASH_ENV # programs that the hook starts do not read it
source() {
  if [[ (${1-} == /shell_lib.sh || ${1-} == /frameworks/shell/*) && ! -e $1 ]]; then
    set -- "$BINDING_LIBRARY$1"
  fi
  builtin source "$@"
}
.() { source "$@"; }
