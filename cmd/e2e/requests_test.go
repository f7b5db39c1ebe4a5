package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// H6: a reload in which no manifest changes lists the release records once, however many modules there are.
func TestRequestsOfReload(t *testing.T) {
	const modules = 12
	var files, flags strings.Builder
	for i := range modules {
		fmt.Fprintf(&files, "-- modules/%03d-m%d/Chart.yaml --\nname: m%d\nversion: 0.1.0\n"+
			"-- modules/%03d-m%d/templates/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: m%d}}\n", i, i, i, i, i, i)
		fmt.Fprintf(&flags, "m%dEnabled: true\n", i)
	}
	h := newFixture(t, "-- modules/values.yaml --\n"+flags.String()+files.String())
	o := h.start().ready()
	lists := func() (n int) {
		_, body := get(o.public + "/metrics")
		for line := range strings.SplitSeq(body, "\n") {
			if strings.HasPrefix(line, "addon_operator_kubernetes_client_request_result_total{") && strings.Contains(line, `verb="GET"`) {
				count, err := strconv.Atoi(line[strings.LastIndex(line, " ")+1:])
				must(t, err)
				n += count
			}
		}
		return n
	}
	before := lists()
	h.setConfig(map[string]string{"global": "x: 1\n"})
	o.expect("INFO converged", "cause=ConfigMap: global.x in ConfigMap")
	if n := lists() - before; n > 4 { // the list, and what watches ask meanwhile
		t.Errorf("%d requests that read, for %d modules", n, modules)
	}
}
