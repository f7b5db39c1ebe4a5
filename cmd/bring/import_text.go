package bring

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"addon-operator/messages/view"
	"addon-operator/values"
)

// report says what was written, what the first run does, and what follows from it. It is printed in
// one write after the module is in its place, so that a closed pipe cannot interrupt the import.
// why says why there is no plan.
func (i *importing) report(files []string, first *view.ModulePlan, why string) string {
	var out strings.Builder
	line := func(format string, args ...any) {
		out.WriteString(view.Printable(fmt.Sprintf(format, args...)) + "\n")
	}
	r := i.record
	line("Release %s in namespace %s: chart %s %s, revision %d.", r.Release, r.Namespace, r.Chart, r.Version, r.Revision)
	written := "Written to"
	if i.dryRun {
		written = "Would be written to"
	}
	line("%s %s:", written, filepath.Join(i.root, i.base))
	inChart := func(file string) bool { return strings.HasPrefix(file, "chart/") }
	definitions := slices.ContainsFunc(files, func(file string) bool { return inChart(file) && strings.Contains(file, "/crds/") })
	count := len(files)
	files = slices.DeleteFunc(files, inChart)
	source := "as the record of the release has it"
	if i.from != "" {
		source = "from " + i.from
	}
	line("  chart/ (%s): the chart, %s", view.Count(count-len(files), "file"), source)
	for _, file := range files {
		line("  %s", file)
	}
	// Masking finds what looks secret by its name, as on all pages; only the paths are printed.
	if secrets := hiddenPaths(nil, i.given, values.Mask(i.given, false)); len(secrets) > 0 {
		line("\nSecrets: values.yaml now has in plain text what looks like secrets, and was only in the record of the release:\n  %s", strings.Join(secrets, "\n  "))
		line("Move what is secret to the Secret with values before others can read the file.")
	}
	line("")
	i.firstRun(line, first, why)
	if definitions {
		line("Definitions in crds/ get the labels of the operator, and what the chart says where they say something else.")
	}
	i.next(line)
	return out.String()
}

// hiddenPaths lists the paths at which a tree was masked. A list counts as a whole. masked has the
// shape of tree except where something is hidden.
func hiddenPaths(path []string, tree, masked any) (found []string) {
	switch v := tree.(type) {
	case map[string]any:
		if m, ok := masked.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				found = append(found, hiddenPaths(append(slices.Clone(path), key), v[key], m[key])...)
			}
			return found
		}
	// A masked element has no name, so the list is what a person looks for.
	case []any:
		if m, ok := masked.([]any); ok && len(m) == len(v) {
			if !reflect.DeepEqual(v, m) {
				return []string{values.Dotted(path)}
			}
			return nil
		}
	}
	if reflect.DeepEqual(tree, masked) {
		return nil
	}
	return []string{values.Dotted(path)}
}

// firstRun says what the first run of the module does: nothing as a rule. An upgrade is what people
// must not overlook, so it is in capitals.
func (i *importing) firstRun(line func(string, ...any), first *view.ModulePlan, why string) {
	switch {
	case first == nil:
		line("The first run cannot be shown now: %s. 'addon-operator plan' shows it.", strings.TrimSuffix(why, "."))
	// The chart does not render, or values are missing: the details say which.
	case first.Error != "" || first.Unknown != "":
		line("The first run would not take the release over as it is:")
		i.details(line, first)
	// The record gets labels and no new revision.
	case first.Release == view.Adopted && len(first.Objects) == 0:
		line("The first run changes nothing: %s.", first.Reason)
		line("There is no new revision, no object is written, no Helm hook runs; the record of revision %d gets labels of the operator.", i.record.Revision)
	default:
		line("The first run UPGRADES the release, because the module does not render what is deployed:")
		i.details(line, first)
	}
}

// details prints the plan of the module as 'addon-operator plan' does, indented.
func (i *importing) details(line func(string, ...any), first *view.ModulePlan) {
	for one := range strings.Lines(i.planText(*first)) {
		line("  %s", strings.TrimSuffix(one, "\n"))
	}
}

// next says what the operator does with the module from now on, also what is dangerous about it.
func (i *importing) next(line func(string, ...any)) {
	flag := values.FlagKey(i.key)
	line("\nWhat happens next:")
	line("  1. The operator reads the directory when it lies below its MODULES_DIR. What it must be allowed")
	line("     to do is printed by 'addon-operator rbac generate'.")
	line("  2. From its first run on the release is the operator's. Change values.yaml, or the section %s", i.key)
	line("     of the ConfigMap, and do not use 'helm upgrade' for it any more: the next run undoes it.")
	line("  3. %s: false, or a removed directory, then DELETES the release with its objects.", flag)
}
