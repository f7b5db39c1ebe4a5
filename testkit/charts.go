package testkit

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/actors/scenario"
)

// A module with a Chart.yaml whose archive has no templates gets this one. It prints the values, so that the release
// changes with them. The two objects are of two kinds, because Helm writes those of one kind in any order.
const usualChart = `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-a, namespace: default}
data: {values: {{ toJson .Values | quote }}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ .Release.Name }}-b, namespace: default}
`

// assessed makes the second object one that has a status, by which it may be unhealthy.
func assessed(chart string) string {
	before, _, _ := strings.Cut(chart, "---\n")
	return before + `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-b, namespace: default}
spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: x}]}}}
`
}

// parts are what the steps of a script need in the charts: "health NAME" and "hook-waits NAME".
type parts map[string]bool

func partsFor(script []scenario.Line) parts {
	all := parts{}
	for _, l := range script {
		name, _, _ := strings.Cut(l.Rest, " ")
		switch l.Verb {
		case "hook-waits":
			all[l.Verb+" "+name] = true
		case "health":
			all[l.Verb+" "+strings.TrimSuffix(name, "-b")] = true
		}
	}
	return all
}

// completeChart adds to a Chart.yaml what Helm requires.
func completeChart(data []byte) []byte {
	if !strings.Contains(string(data), "version:") {
		data = append(slices.Clip(data), "apiVersion: v2\nversion: 0.1.0\n"...)
	}
	return data
}

// hookJob is the template of a Helm hook. Its Job is suspended until the script lets it go on (jobs.go), and then
// succeeds.
func hookJob(name, events string) string {
	return fmt.Sprintf(`---
apiVersion: batch/v1
kind: Job
metadata: {name: %s-job, namespace: default, annotations: {helm.sh/hook: "%s"}}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}
`, name, events)
}

// groupOfKinds is the API group of the kinds that charts bring.
const groupOfKinds = "example.io"

// brought is the template for what a word names: Rule is the definition of a kind, namespace:team a namespace.
func brought(word string) string {
	if _, name, is := strings.Cut(word, "namespace:"); is {
		return "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
	}
	plural := strings.ToLower(word) + "s"
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.%s}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %s, plural: %[1]s, singular: %[4]s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, plural, groupOfKinds, word, strings.ToLower(word))
}

// using is the template of an object that cannot exist without what a word names.
func using(release, word string) string {
	if _, name, is := strings.Cut(word, "namespace:"); is {
		return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-in, namespace: %s}\n", release, name)
	}
	return fmt.Sprintf("---\napiVersion: %s/v1\nkind: %s\nmetadata: {name: %s-of, namespace: default}\n", groupOfKinds, word, release)
}

// templates is what the chart of a release has, in a script that gives it no templates.
func (d *disk) templates(release string) string {
	text := usualChart
	if d.parts["health "+release] {
		text = assessed(text)
	}
	if d.parts["hook-waits "+release] {
		text += hookJob(release, "pre-install,pre-upgrade")
	}
	if d.parts["hook-waits "+release+"-delete"] {
		text += hookJob(release+"-delete", "pre-delete")
	}
	return text + strings.Join(d.more[release], "")
}

// chart writes the templates of a chart that has none in the archive.
func (d *disk) chart(file string) error {
	dir := strings.TrimSuffix(file, "Chart.yaml")
	for name := range d.original {
		if strings.HasPrefix(name, dir+"templates/") {
			return nil
		}
	}
	_, release, _ := strings.Cut(filepath.Base(dir), "-")
	return d.put(dir+"templates/usual.yaml", []byte(d.templates(release)), 0o644)
}

// stepTemplate adds to the chart of a module: RELEASE WORD. The module is written again.
func stepTemplate(template func(release, word string) string) step {
	return func(p *player, rest string) error {
		release, word, ok := strings.Cut(rest, " ")
		if !ok {
			return fmt.Errorf("%q is not RELEASE WORD", rest)
		}
		p.disk.more[release] = append(p.disk.more[release], template(release, word))
		for name := range p.disk.original {
			if strings.HasSuffix(filepath.Dir(name), "-"+release) && filepath.Base(name) == "Chart.yaml" {
				return p.disk.chart(name)
			}
		}
		return nil
	}
}
