#!/usr/bin/env bash
# What handlers read from the contexts of the run. A PATH has keys that are separated by dots; a key with dots is quoted,
# and a number is the index of a list: object.metadata.labels."app.kubernetes.io/name", objects.0.filterResult.
# With a bracket, a parenthesis, a | or a // it is a filter of jq without its first dot: snapshots.pods[0].filterResult.

# context::global::jq runs jq on the list of all contexts.
context::global::jq() { jq "$@" "$BINDING_CONTEXT_PATH"; }

# context::jq runs jq on the context of the handler.
context::jq() { context::global::jq -c ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]" | jq "$@"; }

# context::get [--required] PATH prints a value, a text without quotes, and null for one that does not exist.
# With --required it fails then.
context::get() {
  if [[ ${1-} == --required ]]; then
    shift
    if ! context::has "${1-}"; then
      echo "context::get: the context has no value at ${1-}, which the hook requires" >&2
      return 1
    fi
  fi
  context::_query "${1-}" at -r
}

# context::has PATH reports whether there is a value, which may be null; for a filter, whether it is another one.
context::has() { context::_query "${1-}" there -e >/dev/null; }
context::is_true() { context::_query "${1-}" 'at == true' -e >/dev/null; }
context::is_false() { context::_query "${1-}" 'at == false' -e >/dev/null; }
context::is_null() { context::_query "${1-}" 'at == null' -e >/dev/null; }

# context::_query PATH FILTER OPTION runs jq once, on the context of the handler. In FILTER, at is the value, and there
# whether it exists.
context::_query() {
  local path=$1 definitions
  if [[ $path == *[][\(\|]* || $path == *//* ]]; then
    while [[ $path =~ ^([^\"\']*)\.([0-9]+)([].[ ].*)?$ ]]; do # .0 as .[0]
      path="${BASH_REMATCH[1]}[${BASH_REMATCH[2]}]${BASH_REMATCH[3]}"
    done
    definitions="def at: .${path//\'/\"}; def there: at != null;"
  else
    definitions='
      def index: if test("^[0-9]+$") then tonumber else null end;
      def at($keys): reduce $keys[] as $key (.;
        if type == "object" then .[$key] elif type == "array" and ($key | index) != null then .[$key | index] else null end);
      def keys_of_path: [$path | scan("\"[^\"]*\"|'\''[^'\'']*'\''|[^.]+") | if test("^[\"'\'']") then .[1:-1] else . end];
      def at: at(keys_of_path);
      def there: keys_of_path as $keys | at($keys[:-1]) as $in | $keys[-1] as $key | $keys == []
        or ($in | type == "object" and has($key) or type == "array" and ($key | index) != null and ($key | index) < length);'
  fi
  jq "$3" --arg path "$path" --argjson number "${BINDING_CONTEXT_CURRENT_INDEX:-0}" "$definitions .[\$number] | $2" \
    "$BINDING_CONTEXT_PATH"
}
