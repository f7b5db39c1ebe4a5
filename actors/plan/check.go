package plan

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/values"
)

// CheckConfigMap says what is wrong with the contents of the ConfigMap and of the Secret with values, or
// with the static values below them: every violation at once. What is broken in the tree itself is
// not checked further. When all is valid, the values of enabled modules without hooks, which are what a chart gets,
// are checked against values.schema.json of their charts and subcharts, as Helm does before it renders (H22).
// Warnings name keys that belong to no module; unchecked is how many modules are left out, because nothing enables
// them (D37).
//
// It is stricter than the start of an operator: no flags of hooks and no answers of scripts are
// known, so each enabled script counts as saying true.
func CheckConfigMap(tree *addons.Tree, data, secret map[string]string, warn *slog.Logger) (unchecked int, err error) {
	sections, staticErr := Sections(tree)
	// A module that does not load, and one whose static values are not valid, gets an empty section
	// without a schema: its keys are known ones, and its values are not checked.
	for _, m := range tree.Broken {
		sections[m.Key] = nil
	}
	for key, section := range sections {
		if section == nil {
			sections[key], _ = values.NewSection(key, nil) // fails for layers only, and there are none
		}
	}
	// Each script may say true.
	schemas := Schemas{Sections: sections, Modules: tree.Modules, Enabling: Enabling{Scripts: map[string]bool{}}}
	doc, err := schemas.Check(data, secret)
	for _, text := range schemas.Unknown(doc) {
		warn.Warn(text)
	}
	errs := []error{staticErr, err}
	for _, m := range tree.Modules {
		if !schemas.Enabling.Concerns(m, doc.Flags) {
			unchecked++
			continue
		}
		if err != nil || staticErr != nil || !Hookless(tree.Global, tree.Modules, m.Key) || !charts.Exists(m.Dir) {
			continue
		}
		chart, _ := (&charts.Cache{}).Load(ChartModule(m))
		if chart == nil { // what does not load is a problem of the module, which CheckTree reports
			continue
		}
		global, own := schemas.Section(values.GlobalKey, doc), schemas.Section(m.Key, doc)
		if err := chart.Validate(map[string]any{values.GlobalKey: global.Merged(), m.Key: own.Merged()}); err != nil {
			errs = append(errs, fmt.Errorf("values of module %s: chart in %s: %w", m.Name, m.Shown(m.Dir), err))
		}
	}
	return unchecked, errors.Join(errs...) // nil if all are
}

// CheckTree says what is wrong in a tree with which an operator starts all the same, without the module,
// the script or the hook that was meant (J12), or with a chart that cannot be installed (H21).
// Hooks are looked at and not run: what is wrong with their
// configuration is not found.
func CheckTree(tree *addons.Tree) error {
	var errs []error // nil ones among them do not count
	for _, problem := range tree.Problems {
		errs = append(errs, errors.New(problem))
	}
	look := func(dir, prefix string, scope hooks.Scope) {
		_, skipped, err := hooks.Find(dir, prefix, scope)
		errs = append(errs, err)
		for _, file := range skipped {
			errs = append(errs, UnusedError{file})
		}
	}
	if tree.Global.HooksDir != "" { // else the global directory could not be loaded, which is another error
		look(tree.Global.HooksDir, "", hooks.Global)
	}
	var cache charts.Cache
	for _, m := range slices.Concat(tree.Modules, tree.Broken) {
		look(m.HooksDir(), m.Base+"/hooks", hooks.Module)
		if charts.Exists(m.Dir) {
			_, err := cache.Load(ChartModule(m))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// UnusedError is about a file that looks like a hook and is none.
type UnusedError struct{ hooks.Unused }

// Error implements error.
func (e UnusedError) Error() string { return e.String() }
