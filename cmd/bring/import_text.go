package bring

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"addon-operator/messages/view"
	"addon-operator/values"
)

// report lists the written files, the effects of the first run, and the next steps. It is printed in
// one write after the module is in its place, so that a closed pipe cannot interrupt the import.
// why is the reason why there is no plan.
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
	source := "from the record of the release"
	if i.from != "" {
		source = "from " + i.from
	}
	line("  chart/ (%s): the chart, %s", view.Count(count-len(files), "file"), source)
	for _, file := range files {
		line("  %s", file)
	}
	// Masking finds what looks secret by its name, as on all pages.
	if !reflect.DeepEqual(i.given, values.Mask(i.given, false)) {
		line("\nSecrets: values.yaml now contains possible secrets in plain text that were only in the record of the release.")
		line("Move them to the Secret with values before others can read the file.")
	}
	line("")
	i.firstRun(line, first, why)
	if definitions {
		line("CRDs in crds/ get the labels of the operator, and are updated where they differ from the chart.")
	}
	i.next(line)
	return out.String()
}

// firstRun describes the first run of the module: as a rule it changes nothing. People must not overlook
// an upgrade, so it is in capitals.
func (i *importing) firstRun(line func(string, ...any), first *view.ModulePlan, why string) {
	switch {
	case first == nil:
		line("The first run cannot be planned now: %s. 'addon-operator plan' shows it later.", strings.TrimSuffix(why, "."))
	// The chart does not render, or values are missing: the details name them.
	case first.Error != "" || first.Unknown != "":
		line("The first run would not adopt the release unchanged:")
		i.details(line, first)
	// The record gets labels and no new revision.
	case first.Release == view.Adopted && len(first.Objects) == 0:
		line("The first run changes nothing: %s.", first.Reason)
		line("It creates no revision, writes no object and runs no Helm hook; it adds labels of the operator to the record of revision %d.", i.record.Revision)
	default:
		line("The first run UPGRADES the release, because the module renders something different from what is deployed:")
		i.details(line, first)
	}
}

// details prints the plan of the module as 'addon-operator plan' does, indented.
func (i *importing) details(line func(string, ...any), first *view.ModulePlan) {
	for one := range strings.Lines(i.planText(*first)) {
		line("  %s", strings.TrimSuffix(one, "\n"))
	}
}

// next describes what the operator does with the module from now on, also the risks.
func (i *importing) next(line func(string, ...any)) {
	flag := values.FlagKey(i.key)
	line("\nWhat happens next:")
	line("  1. The operator reads the directory if it is below its MODULES_DIR. 'addon-operator rbac generate'")
	line("     prints the permissions that the operator needs.")
	line("  2. From the first run on, the operator manages the release. Change values.yaml, or the section %s", i.key)
	line("     of the ConfigMap, and do not use 'helm upgrade' any more: the next run would revert it.")
	line("  3. Setting %s: false, or removing the directory, then DELETES the release with its objects.", flag)
}
