package remote

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"addon-operator/cmd/cli"
)

// Errors are cut on a terminal only: never in a pipe, nor with -o wide.
func TestTablesAreWholeInPipes(t *testing.T) {
	long := strings.Repeat("a long reason, ", 100) + "and its end"
	body, err := json.Marshal(map[string]any{"Modules": []any{
		map[string]any{"Name": "web", "Phase": "starting", "Failing": []any{map[string]any{"Task": "RunModule", "Attempts": 3, "Error": long}}},
		map[string]any{"Name": "db", "Phase": "disabled", "Off": long},
		map[string]any{"Name": "dns", "Phase": "ready", "Problems": []any{long, "another"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		whole bool
		times int
	}{"a pipe, or -o wide": {true, 3}, "a terminal": {false, 0}} {
		var out bytes.Buffer
		if err := moduleTable(printable{Writer: &out, whole: c.whole}, body); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "and its end"); got != c.times {
			t.Errorf("%s: the end is shown %d times, want %d:\n%s", name, got, c.times, out.String())
		}
	}
	var pipe bytes.Buffer
	if err := (&asking{config: &cli.Config{Plugin: true}, output: "table"}).print(&pipe, body, moduleTable); err != nil || strings.Contains(pipe.String(), "…") || !strings.Contains(pipe.String(), "(and 1 more: kubectl addon why dns)") {
		t.Errorf("%v\n%s", err, pipe.String())
	}
	wide := &asking{output: "wide", formats: []string{"table", "json"}}
	if err := wide.checked(); err != nil || wide.output != "table" || !wide.wide {
		t.Errorf("%v, %+v", err, wide)
	}
	if err := (&asking{output: "wide", formats: []string{"json"}}).checked(); err == nil {
		t.Error("-o wide is taken where there is no table")
	}
}

// With --no-headers a table has rows only: no head, no notes, and nothing in place of rows.
func TestTablesWithoutHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		table      tableWriter
		body, want string
	}{
		"values explain":            {explainTable, `[{"path": "dns.a", "note": "changed on disk", "sources": [{"value": 1, "layer": "file", "file": "values.yaml"}]}]`, "dns.a  1  file  values.yaml  -  -\n"},
		"values diff":               {diffTable, `[{"changes": [{"path": "dns.a", "before": 1, "after": 2}]}]`, "dns.a  1  2  -  -  -  -\n"},
		"values diff without any":   {diffTable, `[]`, ""},
		"module drift":              {driftTable, `{"mode": "off"}`, ""},
		"module drift without any":  {driftTable, `{"mode": "report", "checked": "2026-01-02T03:04:05Z"}`, ""},
		"history":                   {historyTable, `{"module": "dns"}`, ""},
		"module resource-monitor":   {monitorTable, `{"dns": "No monitor"}`, "dns  No monitor\n"},
		"config list without any":   {parameterTable, `{}`, ""},
		"global patches, hook list": {hookTable, `{}`, ""},
	} {
		var out bytes.Buffer
		if err := c.table(printable{Writer: &out, bare: true}, []byte(c.body)); err != nil || out.String() != c.want {
			t.Errorf("%s: %v, %q, want %q", name, err, out.String(), c.want)
		}
	}
}
