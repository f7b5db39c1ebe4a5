package charts

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"testing"
)

// J9: what Helm's library logs names the module, as far as it is known, and no value.
func TestRedirectLog(t *testing.T) {
	before, flags := log.Writer(), log.Flags()
	t.Cleanup(func() {
		log.SetOutput(before)
		log.SetFlags(flags)
	})
	During("nobody")() // nothing is redirected yet
	var out bytes.Buffer
	RedirectLog(slog.New(slog.NewTextHandler(&out, nil)))
	m := moduleOf(t, "web", "-- chart/Chart.yaml --\n{apiVersion: v2, name: nginx, version: 1.0.0}\n-- chart/values.yaml --\nport: {http: {number: 80}}\n-- chart/values.schema.json --\n{}\n")
	loaded, err := new(Cache).Load(m)
	must(t, err)
	must(t, loaded.Validate(map[string]any{"web": map[string]any{"port": map[string]any{"http": "hunter2"}}}))
	if got := out.String(); !strings.Contains(got, "module=web err=\"cannot overwrite table with non table for nginx.port.http\"") || strings.Contains(got, "hunter2") || strings.Contains(got, "[number:80]") {
		t.Errorf("logged: %s", got)
	}
	out.Reset()
	ended := During("web")
	endedToo := During("mail")
	log.Print("info: skipping unknown hook: \"x\"")
	ended()
	log.Print("Warning: something\nin two lines")
	endedToo()
	log.Print("nothing is known")
	want := "module=\"mail, web\" err=\"skipping unknown hook: \\\"x\\\"\"\nmodule=mail err=\"something\\nin two lines\"\nerr=\"nothing is known\"\n"
	var got strings.Builder
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(line, "warning\" ")
		got.WriteString(rest)
	}
	if got.String() != want {
		t.Errorf("logged\n%s, want\n%s", got.String(), want)
	}
}
