package e2e

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	corev1 "k8s.io/api/core/v1"

	"addon-operator/testkit/devclustertest"
)

// BenchmarkSave measures how long a file that is saved takes until it is in force, with the watch of the disk (P8):
// until the object of the release is changed, or a new hook has run for its Synchronization. p50-ms is the median; it
// is meant to be at most 500 for a template and 1000 for a hook.
func BenchmarkSave(b *testing.B) {
	h := fixtureOn(b, devclustertest.StartOwn(b), "web")
	h.start("ADDON_OPERATOR_WATCH_MODULES=yes").ready()
	changes, err := h.client.CoreV1().ConfigMaps(h.namespace).Watch(h.ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "web").String()})
	must(b, err)
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
			reportTimes(b, all)
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

func reportTimes(b *testing.B, all []time.Duration) {
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(all[len(all)-1].Milliseconds()), "max-ms")
}

// BenchmarkDev measures how long 'dev' takes from its start to the end of the first converge, meant to be less than a
// second, and from a save to what it shows, meant to be at most 300 ms: the difference of the rendered objects, and a
// finding, in a module of its own and in one of a hundred. Modules have a hook, a schema and a test.
func BenchmarkDev(b *testing.B) {
	for _, size := range []int{1, 100} {
		d := newDevTree(b)
		var flags strings.Builder
		for i := 1; i < size; i++ {
			name := fmt.Sprintf("modules/%d-more%d/", 100+i, i)
			d.write(name+"templates/a.yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more%d}\n", i))
			d.write(name+"openapi/values.yaml", "type: object\nproperties: {name: {type: string}}\n")
			d.write(name+"hooks/a.sh", "#!/bin/sh\necho '{configVersion: v1}'\n")
			fmt.Fprintf(&flags, "more%dEnabled: true\n", i)
		}
		d.write("modules/values.yaml", "global: {clusterName: world}\nhelloEnabled: true\n"+flags.String())
		run := func() (await func(texts ...string) (first time.Time), end func()) {
			cmd := d.command()
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			must(b, err)
			lines := bufio.NewScanner(out)
			return func(texts ...string) (first time.Time) { // in any order
					wanted := texts[0]
					for len(texts) > 0 && lines.Scan() {
						texts = slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(lines.Text(), text) })
						if first.IsZero() && !slices.Contains(texts, wanted) {
							first = time.Now()
						}
					}
					if len(texts) > 0 {
						b.Fatalf("it ends before %q: %v", texts, cmd.Wait())
					}
					return first
				}, func() {
					_ = cmd.Process.Signal(syscall.SIGTERM)
					for lines.Scan() { // else it waits for its reader
					}
					_ = cmd.Wait()
				}
		}
		b.Run(fmt.Sprintf("start/%d", size), func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				began := time.Now()
				await, end := run()
				all = append(all, await("converged").Sub(began))
				end()
			}
			reportTimes(b, all)
		})
		await, end := run()
		await("and the global hooks.")
		n := 0
		for what, row := range map[string]struct{ text, shown string }{
			"difference": {strings.Replace(greeting, "hello {{", "hi%d {{", 1), "+  text: hi%d"},
			"finding":    {greeting + "dta%d: 1\n", "unknown field \"dta%d\""},
		} {
			b.Run(fmt.Sprintf("%s/%d", what, size), func(b *testing.B) {
				var all []time.Duration
				for b.Loop() {
					n++
					began := time.Now()
					d.write("modules/010-hello/templates/configmap.yaml", fmt.Sprintf(row.text, n))
					all = append(all, await(fmt.Sprintf(row.shown, n), "test  hello: 1 ").Sub(began))
					<-time.After(300 * time.Millisecond) // what depends on it is looked at, and would see the next save before it was noticed
				}
				reportTimes(b, all)
			})
		}
		end()
	}
}
