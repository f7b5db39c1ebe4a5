package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	corev1 "k8s.io/api/core/v1"

	"addon-operator/testkit/devclustertest"
)

// BenchmarkSave measures how long a file that is saved takes until it is in force, with the watch of the disk (P8): until the object of
// the release is changed, or a new hook has run for its Synchronization. p50-ms is the median; it is meant to be at most 500 for a
// template and 1000 for a hook.
func BenchmarkSave(b *testing.B) {
	h := houseOn(b, devclustertest.StartOwn(b), "web")
	h.start("ADDON_OPERATOR_WATCH_MODULES=yes").ready()
	changes, err := h.client.CoreV1().ConfigMaps(h.namespace).Watch(h.ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "web").String()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(changes.Stop)
	template := h.read("modules/010-web/templates/cm.yaml")
	n := 0
	for _, row := range []struct {
		name  string
		save  func(text string)
		await func(text string)
	}{
		{"template", func(text string) {
			h.write("modules/010-web/templates/cm.yaml", strings.Replace(template, "\ndata:", "\ndata:\n  more: "+text, 1))
		}, func(text string) { awaitData(b, changes, "more", text) }},
		{"values", func(text string) {
			h.write("modules/010-web/values.yaml", fmt.Sprintf("web: {size: %s, unused: 1}\n", text))
		}, func(text string) { awaitData(b, changes, "size", text) }},
		{"hook", func(text string) {
			h.write("modules/010-web/hooks/"+text+".sh", strings.ReplaceAll(newHook, "new-", text+"-"))
		}, func(text string) { h.awaitLine("out/journal", text+"-mapsSynchronization") }},
	} {
		b.Run(row.name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				n++
				text := fmt.Sprint("v", n)
				began := time.Now()
				row.save(text)
				row.await(text)
				all = append(all, time.Since(began))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Milliseconds()), "p50-ms")
			b.ReportMetric(float64(all[len(all)-1].Milliseconds()), "max-ms")
		})
	}
}

func awaitData(b *testing.B, changes watch.Interface, key, want string) {
	b.Helper()
	for {
		select {
		case change := <-changes.ResultChan():
			if cm, ok := change.Object.(*corev1.ConfigMap); ok && cm.Data[key] == want {
				return
			}
		case <-time.After(patience):
			b.Fatalf("%s is not %s", key, want)
		}
	}
}
