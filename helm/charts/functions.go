package charts

import (
	"maps"
	"slices"

	"github.com/Masterminds/sprig/v3"
)

// Functions are the names of all functions that templates can call, sorted. Helm exports no list of
// those that it adds to sprig's, nor does text/template of its own, so they are listed here.
func Functions() []string {
	names := slices.Collect(maps.Keys(sprig.TxtFuncMap()))
	names = slices.DeleteFunc(names, func(name string) bool { return name == "env" || name == "expandenv" }) // Helm takes them out
	names = append(names, "include", "tpl", "required", "lookup", "toToml", "fromToml", "toYaml", "mustToYaml", "toYamlPretty", "fromYaml", "fromYamlArray",
		"toJson", "mustToJson", "fromJson", "fromJsonArray",
		"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "index", "slice", "len", "print", "printf", "println", "call", "html", "js", "urlquery")
	slices.Sort(names)
	return slices.Compact(names)
}
