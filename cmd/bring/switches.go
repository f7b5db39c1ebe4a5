package bring

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"addon-operator/values"
)

// maxSwitches is how many values a new values.yaml proposes: more would hide what matters.
const maxSwitches = 20

// switches are the values of charts that people change first, the most wanted ones first: the ends
// of their paths, since components of a chart have the same below their own keys.
func switches() []string {
	return []string{
		"replicaCount", "replicas", "image.registry", "image.repository", "image.tag", "resources", "ingress.enabled", "ingress.className",
		"ingress.ingressClassName", "ingress.hosts", "service.type", "service.port", "crds.enabled", "crds.install", "installCRDs",
		"persistence.enabled", "persistence.size", "persistence.storageClass", "metrics.enabled", "serviceMonitor.enabled",
		"autoscaling.enabled", "existingSecret", "nodeSelector", "tolerations", "affinity", "logLevel", "enabled",
	}
}

// found is a default of a chart that is proposed; rank is its place in switches.
type found struct {
	path  []string
	value any
	rank  int
}

// proposals are the defaults that people change first, as a tree. Those of the chart as a whole
// come before those of its components.
func proposals(defaults map[string]any) map[string]any {
	var all []found
	collect(nil, defaults, &all)
	slices.SortStableFunc(all, func(a, b found) int {
		// The path decides last: maps have no order, and a file must not differ from run to run.
		return cmp.Or(cmp.Compare(len(a.path), len(b.path)), cmp.Compare(a.rank, b.rank), cmp.Compare(strings.Join(a.path, "."), strings.Join(b.path, ".")))
	})
	tree := map[string]any{}
	for _, f := range all[:min(len(all), maxSwitches)] {
		at := tree
		for _, name := range f.path[:len(f.path)-1] {
			below, _ := at[name].(map[string]any)
			if below == nil {
				below = map[string]any{}
				at[name] = below
			}
			at = below
		}
		at[f.path[len(f.path)-1]] = f.value
	}
	return tree
}

// collect finds values down to the third level, where components of a chart have theirs. A value
// that is proposed is not searched for others.
func collect(path []string, at map[string]any, all *[]found) {
	const deepest = 3
	for name, value := range at {
		here := append(slices.Clone(path), name)
		rank := slices.IndexFunc(switches(), func(end string) bool {
			dotted := strings.Join(here, ".")
			return dotted == end || strings.HasSuffix(dotted, "."+end)
		})
		if rank >= 0 && small(value) {
			*all = append(*all, found{here, value, rank})
			continue
		}
		if below, ok := value.(map[string]any); ok && len(here) < deepest {
			collect(here, below, all)
		}
	}
}

// small reports whether a value is short enough to be proposed: at most eight lines of YAML.
func small(value any) bool {
	const lines = 8
	text, err := values.YAML(value)
	return err == nil && strings.Count(string(text), "\n") <= lines
}

// valuesFile is the values.yaml of a new module: what the user gave, below the key of the module,
// and proposals in comments, so that they change nothing.
func valuesFile(chart, key string, defaults map[string]any, given string) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "# Values of the chart %s that are not those of chart/values.yaml.\n# %s: true   # enables the module\n%s:\n", chart, values.FlagKey(key), key)
	taken, err := values.ParseYAML([]byte(given))
	if err != nil {
		return "", err
	}
	own, isMap := taken.(map[string]any)
	if !isMap && taken != nil {
		return "", errors.New("they must be a map")
	}
	if len(own) > 0 {
		block, err := nested(given, own)
		if err != nil {
			return "", err
		}
		out.WriteString(block)
	}
	tree := without(proposals(defaults), own)
	if len(tree) == 0 {
		return out.String(), nil
	}
	text, err := values.YAML(tree)
	if err != nil {
		return "", err
	}
	out.WriteString("  # Values that are often changed, with their defaults. Uncomment a line together with its parents.\n")
	for line := range strings.Lines(string(text)) {
		out.WriteString("  # " + line)
	}
	return out.String(), nil
}

// without removes the keys of the first level that the user has set from tree, and returns it: the
// same key twice, in a comment, would mislead.
func without(tree, set map[string]any) map[string]any {
	for name := range set {
		delete(tree, name)
	}
	return tree
}

// nested moves the text of values below a key. Indenting it line by line keeps comments; that is
// right only if it parses to the same values, which multi-line texts and flow style may break, so
// it is verified, and the values are written again otherwise.
func nested(given string, own map[string]any) (string, error) {
	var moved strings.Builder
	for line := range strings.Lines(strings.TrimSpace(given) + "\n") {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "---") {
			moved.WriteString("  ")
		}
		if !strings.HasPrefix(line, "---") {
			moved.WriteString(line)
		}
	}
	want, err := values.YAML(own)
	if err != nil {
		return "", err
	}
	// Both are written in one form before they are compared: the order of keys does not matter.
	if tree, err := values.ParseYAML([]byte("a:\n" + moved.String())); err == nil {
		below, _ := tree.(map[string]any)
		if got, err := values.YAML(below["a"]); err == nil && bytes.Equal(got, want) {
			return moved.String(), nil
		}
	}
	return indented(string(want)), nil
}
