package helm

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/charts"
)

// emptied refuses a chart whose files have lost their content since a revision was made, or one of whose directories is
// gone: a disk that is full, or a copy that is not finished, leaves such files, and an upgrade would delete objects or
// reset values (P8). After a restart the records alone show what was there: templates that have printed something, and
// that there were values.
func (t *target) emptied() error {
	has := t.chart.Content()
	for _, r := range t.store.state.effective() {
		rel, err := t.store.body(r)
		if err != nil {
			return err
		}
		lost := charts.Lost(contentIn(rel), has, func(string) bool { return false })
		if lost == "" {
			continue
		}
		why := "is empty, but revision %d was made with its content; restore it, or remove the file"
		if strings.HasSuffix(lost, "/") {
			why = "has no files, but revision %d was made with some; restore them, or write a file with a comment there"
		}
		return problem(Render, t.op.release, "%s of the chart in %s "+why, lost, t.module.chart().Where(), r.Version)
	}
	return nil
}

// fromTemplate is the line by which a manifest names the template of an object; the name of the chart is first.
var fromTemplate = regexp.MustCompile(`(?m)^# Source: [^/\n]+/(.+)$`)

// contentIn are the files of a chart that had content when a record was made, as far as the record shows. A record of
// Helm itself has the files, and an older one of an operator their names.
func contentIn(rel *release.Release) map[string]bool {
	had := map[string]bool{}
	for _, f := range slices.Concat(rel.Chart.Templates, rel.Chart.Files) {
		if f != nil && (f.Data == nil || charts.HasContent(f.Data)) {
			had[f.Name] = true
		}
	}
	for _, found := range fromTemplate.FindAllStringSubmatch(rel.Manifest, -1) {
		had[found[1]] = true
	}
	for _, h := range rel.Hooks {
		_, name, _ := strings.Cut(h.Path, "/")
		had[name] = true
	}
	if hadValues(rel.Chart) {
		had["values.yaml"] = true
	}
	return had
}

// hadValues reports whether the values of a chart in a record are of its own file: global may be from the file next to
// chart/, and Helm adds those of subcharts.
func hadValues(ch *chart.Chart) bool {
	others := map[string]bool{"global": true}
	if ch.Metadata != nil {
		for _, d := range ch.Metadata.Dependencies {
			if len(d.ImportValues) > 0 {
				return false
			}
			others[cmp.Or(d.Alias, d.Name)] = true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(ch.Values)), func(key string) bool { return !others[key] })
}
