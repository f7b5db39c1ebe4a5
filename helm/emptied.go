package helm

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/charts"
)

// maxNames bounds the names of files in a record, in bytes. Of more files none is recorded.
const maxNames = 64 << 10

// emptied refuses a chart whose files have lost their content since a revision was made, or one of whose directories is
// gone: a disk that is full, or a copy that is not finished, leaves such files, and an upgrade would delete objects or
// reset values (P8). After a restart the records alone show what was there. A file that never had content is not in
// them.
func (t *target) emptied() error {
	has := t.chart.Content()
	earlier := t.store.state.sinceDeployed()
	if last, ok := t.store.state.Last(); ok && last.Status == release.StatusDeployed {
		earlier = []Revision{last}
	}
	for _, r := range earlier {
		rel, err := t.store.body(r)
		if err != nil {
			return err
		}
		lost := charts.Lost(contentIn(rel), has, func(dir string) bool {
			return t.chart.Any(func(data []byte) bool { return charts.Reads(data, dir) })
		})
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

// contentIn are the files of a chart that had content when a record was made, as far as the record shows: by their
// names, and templates by their objects and hooks. A record of Helm itself has the files.
func contentIn(rel *release.Release) map[string]bool {
	had := map[string]bool{}
	for _, f := range namesOnly(slices.Concat(rel.Chart.Templates, rel.Chart.Files)) {
		had[f.Name] = true
	}
	for _, found := range fromTemplate.FindAllStringSubmatch(rel.Manifest, -1) {
		had[found[1]] = true
	}
	for _, h := range rel.Hooks {
		_, name, _ := strings.Cut(h.Path, "/")
		had[name] = true
	}
	return had
}

// namesOnly are the files of a record that have content, without it.
func namesOnly(files []*chart.File) (names []*chart.File) {
	for _, f := range files {
		if f != nil && (f.Data == nil || charts.HasContent(f.Data)) {
			names = append(names, &chart.File{Name: f.Name})
		}
	}
	return names
}

// unnamed are files that are not named in a record: templates, which show in the manifest, and what is for people.
var unnamed = regexp.MustCompile(`(^|/)templates/|^(tests|docs)/|\.md$`)

// names are the files of the chart that have content, for its record.
func (t *target) names() (names []*chart.File) {
	content, size := t.chart.Content(), 0
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if content[name] && !unnamed.MatchString(name) {
			names, size = append(names, &chart.File{Name: name}), size+len(name)
		}
	}
	if size > maxNames {
		return nil
	}
	return names
}
