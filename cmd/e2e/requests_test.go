package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"addon-operator/testkit/devclustertest"
)

// H6: a reload in which no manifest changes lists the release records once, however many modules there are. Each
// upgrade reads the newest record, which shows whether it was written since, and no list.
func TestRequestsOfReload(t *testing.T) {
	const modules, ofUpgrade = 12, 8
	var files, flags strings.Builder
	edit := map[string]string{}
	for i := range modules {
		fmt.Fprintf(&files, "-- modules/%03d-m%d/Chart.yaml --\nname: m%d\nversion: 0.1.0\n"+
			"-- modules/%03d-m%d/values.yaml --\nm%d: {x: '0'}\n-- modules/%03d-m%d/templates/a.yaml --\n"+
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: m%d}, data: {x: {{ .Values.m%d.x | quote }}}}\n", i, i, i, i, i, i, i, i, i, i)
		fmt.Fprintf(&flags, "m%dEnabled: true\n", i)
		edit[fmt.Sprintf("m%d", i)] = "x: '1'\n"
	}
	// Of its own, because the kinds of other tests are asked for.
	h, _ := ownFixture(t, "-- modules/values.yaml --\n"+flags.String()+files.String(), devclustertest.Borrow)
	o := h.start().ready()
	requests := func() (n int) {
		_, body := get(o.public + "/metrics")
		for line := range strings.SplitSeq(body, "\n") {
			if strings.HasPrefix(line, "addon_operator_kubernetes_client_request_result_total{") {
				count, err := strconv.Atoi(line[strings.LastIndex(line, " ")+1:])
				must(t, err)
				n += count
			}
		}
		return n
	}
	before := requests()
	h.setConfig(map[string]string{"global": "z: 1\n"})
	o.expect("INFO converged", "cause=ConfigMap: global.z in ConfigMap")
	reloaded := requests()
	// The list, and what watches ask meanwhile: a machine under load begins some of them late.
	if n := reloaded - before; n >= modules {
		t.Errorf("a reload made %d requests, for %d modules", n, modules)
	}
	edit["global"] = "z: 1\n"
	h.setConfig(edit)
	for i := range modules {
		o.expect("INFO release action=upgraded", fmt.Sprintf("module=m%d ", i))
	}
	if n := requests() - reloaded; n >= modules*(ofUpgrade+2) { // as above
		t.Errorf("%d upgrades made %d requests", modules, n)
	}
}
