package hooks

import (
	"fmt"
	"path"
	"strings"
)

// DefaultInherit is what hooks inherit unless an option says otherwise: everything except the
// headers with which the operator authenticates to a collector of traces.
const DefaultInherit = "*,!OTEL_EXPORTER_OTLP_*HEADERS"

// Inherit selects by name which variables of the operator's environment hooks get. nil selects all;
// an empty one selects none.
type Inherit []string

// ParseInherit reads patterns that are separated by commas: NAME, or with asterisks as KUBE*. One
// that begins with ! removes variables that others select, whatever their order.
func ParseInherit(text string) (Inherit, error) {
	inherit := Inherit{}
	for pattern := range strings.SplitSeq(text, ",") {
		if pattern = strings.TrimSpace(pattern); pattern == "" {
			continue
		}
		if strings.ContainsAny(pattern, "=?[]\\") || strings.HasSuffix(pattern, "!") {
			return nil, fmt.Errorf("%q is not the name of a variable; it may contain asterisks and begin with an exclamation mark", pattern)
		}
		inherit = append(inherit, pattern)
	}
	return inherit, nil
}

// of returns the selected variables. It is never nil, which exec.Cmd takes for all variables of the
// operator.
func (i Inherit) of(environment []string) []string {
	picked := []string{}
	for _, variable := range environment {
		if name, _, _ := strings.Cut(variable, "="); i == nil || i.lets(name) {
			picked = append(picked, variable)
		}
	}
	return picked
}

func (i Inherit) lets(name string) (yes bool) {
	// An asterisk of path.Match matches no slash, which a name may have; it never has a NUL.
	plain := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	for _, pattern := range i {
		without, not := strings.CutPrefix(pattern, "!")
		if matches, err := path.Match(plain(without), plain(name)); err != nil || !matches {
			continue
		}
		if not {
			return false
		}
		yes = true
	}
	return yes
}
