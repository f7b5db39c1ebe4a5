package e2e

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"addon-operator/testkit/devclustertest"
)

// BenchmarkOlder plays 40 modules, with three ConfigMaps and three hooks each, with OLDER_PROGRAM and with the
// program of this tree, in turn on one cluster, which has the kind Module. It shows medians, of times in ms and of
// the processor time of the operator alone in cpu-ms, and their ratio. Only ratios of one run on a quiet machine can
// be compared.
func BenchmarkOlder(b *testing.B) {
	older := os.Getenv("OLDER_PROGRAM")
	if older == "" {
		b.Skip("needs OLDER_PROGRAM, the path of an older addon-operator: make bench SINCE=COMMIT builds it")
	}
	cluster := devclustertest.StartOwn(b)
	kinds := fixtureOn(b, cluster, "-- modules/values.yaml --\n")
	definition := kinds.definition()
	kinds.kubectl("apply", "-f", definition)
	kinds.kubectl("wait", "--for=condition=Established", "-f", definition)
	const rounds = 5
	var both [2]*comparison
	for i := range both {
		both[i] = &comparison{b: b, cluster: cluster, rows: map[string][]float64{}}
	}
	both[0].within = []string{"sh", "-c", "exec '" + older + "' start"} // the program that follows is $0
	for round := range rounds {
		both[round%2].play()
		both[1-round%2].play()
	}
	for _, row := range both[0].names {
		b.Run(row, func(b *testing.B) {
			for range b.N { // all is measured
			}
			then, now := both[0].median(row), both[1].median(row)
			b.ReportMetric(then, "older")
			b.ReportMetric(now, "now")
			b.ReportMetric(now/then, "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// comparison is one of two programs.
type comparison struct {
	b       *testing.B
	cluster *devclustertest.Cluster
	within  []string
	names   []string // of rows, in the order of a play
	rows    map[string][]float64
}

func (c *comparison) add(row string, value float64) {
	if c.rows[row] == nil {
		c.names = append(c.names, row)
	}
	c.rows[row] = append(c.rows[row], value)
}

func (c *comparison) median(row string) float64 {
	values := slices.Sorted(slices.Values(c.rows[row]))
	return values[len(values)/2]
}

// play measures all rows once, in a namespace of its own.
func (c *comparison) play() {
	h := fixtureOn(c.b, c.cluster, "-- modules/values.yaml --\nglobal: {size: 1}\n")
	h.within = c.within
	hook := func(name, config, then string) {
		h.write(name, "#!/usr/bin/env bash\nif [[ ${1:-} == --config ]]; then echo '"+config+"'; exit; fi\n"+then+"\n")
	}
	hook("global-hooks/first.sh", `{"configVersion": "v1", "onStartup": 1}`, `date +%s%N > "$OUT/first"`)
	for i := range 40 {
		dir := fmt.Sprintf("modules/%03d-unit-n%d/", i+1, i)
		h.write(dir+"values.yaml", fmt.Sprintf("unitN%dEnabled: true\n", i))
		for _, name := range []string{"one", "two", "three"} {
			h.write(dir+"templates/"+name+".yaml", fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%d}, data: {size: {{ .Values.global.size | quote }}}}\n", name, i))
		}
		hook(dir+"hooks/before.sh", `{"configVersion": "v1", "beforeHelm": 1}`, "")
		hook(dir+"hooks/after.sh", `{"configVersion": "v1", "afterHelm": 1}`, "")
		hook(dir+"hooks/kube.sh", fmt.Sprintf(`{"configVersion": "v1", "kubernetes": [{"kind": "ConfigMap", "labelSelector": {"matchLabels": {"for": "unit-n%d"}}}]}`, i), "")
	}
	converged := make(chan time.Time, 10)
	var o *operator
	start := func() {
		h.sieve = func(line []byte) bool {
			if bytes.Contains(line, []byte(`"msg":"converged"`)) {
				converged <- time.Now()
			}
			return true
		}
		o = h.start("LOG_TYPE=json")
	}
	// measure adds what the operator needs until it has converged.
	measure := func(row string, act func()) {
		for len(converged) > 0 { // of more reloads than one
			<-converged
		}
		before, same, began := usage{}, o, time.Now()
		if same != nil && same.running() {
			before = usageOf(c.b, same.cmd.Process.Pid)
		}
		act()
		select {
		case end := <-converged:
			c.add(row+"/ms", float64(end.Sub(began).Microseconds())/1000)
		case <-o.exited:
			c.b.Fatalf("%s: the operator has ended", row)
		case <-time.After(patience):
			c.b.Fatalf("%s: it does not converge", row)
		}
		c.add(row+"/cpu-ms", float64((usageOf(c.b, o.cmd.Process.Pid).cpu - before.cpu).Milliseconds()))
		<-time.After(time.Second) // what follows a converge: objects of kind Module
	}
	began := time.Now()
	measure("cold", start)
	first, err := strconv.ParseInt(strings.TrimSpace(h.read("out/first")), 10, 64)
	must(c.b, err)
	c.add("first-hook/ms", float64(time.Unix(0, first).Sub(began).Microseconds())/1000)
	o.terminate()
	measure("restart", start)
	measure("reload", func() { h.setConfig(map[string]string{"global": "other: 1"}) })
	measure("edit-of-all", func() { h.setConfig(map[string]string{"global": "size: 2"}) })
	o.terminate()
}
