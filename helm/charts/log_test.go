package charts

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"testing"
)

// J9: what Helm's library logs has no value.
func TestRedirectLog(t *testing.T) {
	before, flags := log.Writer(), log.Flags()
	t.Cleanup(func() {
		log.SetOutput(before)
		log.SetFlags(flags)
	})
	var out bytes.Buffer
	RedirectLog(slog.New(slog.NewTextHandler(&out, nil)))
	m := moduleOf(t, "web", "-- chart/Chart.yaml --\n{apiVersion: v2, name: nginx, version: 1.0.0}\n-- chart/values.yaml --\nport: {http: {number: 80}}\n-- chart/values.schema.json --\n{}\n")
	loaded, err := new(Cache).Load(m)
	must(t, err)
	must(t, loaded.Validate(map[string]any{"web": map[string]any{"port": map[string]any{"http": "hunter2"}}}))
	if got := out.String(); !strings.Contains(got, "err=\"cannot overwrite table with non table for nginx.port.http\"") || strings.Contains(got, "hunter2") || strings.Contains(got, "[number:80]") {
		t.Errorf("logged: %s", got)
	}
	out.Reset()
	log.Print("info: skipping unknown hook: \"x\"")
	if !strings.HasSuffix(out.String(), "err=\"skipping unknown hook: \\\"x\\\"\"\n") {
		t.Errorf("logged: %s", out.String())
	}
}
