package remote

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
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
	if err := (&asking{output: "table"}).print(&pipe, body, moduleTable); err != nil || strings.Contains(pipe.String(), "…") {
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
