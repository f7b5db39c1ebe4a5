package charts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// checkDependencies refuses, as helm install does, a chart that declares a subchart which is not in
// charts/ (H21): without it the release would be another one than the author meant, and perhaps
// empty. Like Helm it checks only the chart itself, not its subcharts, and does so whether the
// dependency is enabled or not. dir is for the advice in the error.
func checkDependencies(c *chart.Chart, dir string) error {
	var missing []string
	for _, d := range c.Metadata.Dependencies {
		if d == nil || slices.ContainsFunc(c.Dependencies(), func(sub *chart.Chart) bool { return sub.Name() == d.Name }) {
			continue
		}
		missing = append(missing, d.Name)
	}
	if len(missing) == 0 {
		return nil
	}
	file := "Chart.yaml"
	if c.Metadata.APIVersion == chart.APIVersionV1 {
		file = "requirements.yaml"
	}
	slices.Sort(missing)
	return fmt.Errorf("%s declares the dependency %s, which is not in charts/; run 'helm dependency build %s', "+
		"or remove what is not needed from %s", file, strings.Join(slices.Compact(missing), ", "), dir, file)
}

// Sections are the keys under which a chart has the values of a subchart: one for each alias in
// Chart.yaml, and the name of the subchart when Chart.yaml does not declare it.
func Sections(ch, sub *chart.Chart) []string {
	var names []string
	for _, d := range ch.Metadata.Dependencies {
		if d != nil && d.Name == sub.Name() {
			names = append(names, cmp.Or(d.Alias, d.Name))
		}
	}
	if len(names) == 0 {
		names = []string{sub.Name()}
	}
	return names
}
