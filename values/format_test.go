package values_test

import (
	"reflect"
	"strings"
	"testing"

	"addon-operator/values"
)

func TestNearest(t *testing.T) {
	keys := []string{"allowFailure", "crontab", "group", "includeSnapshotsFrom", "kind", "name", "queue"}
	modules := []string{"certManager", "dns", "ingressNginx"}
	flags := []string{"dnsEnabled", "webEnabled"}
	for _, tc := range []struct {
		word, want string
		known      []string
	}{
		{"naem", "name", keys}, {"Crontab", "crontab", keys}, {"crontabs", "crontab", keys}, {"allow_failure", "allowFailure", keys},
		{"includeSnapshotFrom", "includeSnapshotsFrom", keys}, {"que", "queue", keys},
		{"", "", keys}, {"labels", "", keys}, {"schedule", "", keys}, {strings.Repeat("x", 1000), "", keys},
		{"ingress", "ingressNginx", modules}, {"certManger", "certManager", modules}, {"CERTMANAGER", "certManager", modules}, {"dsn", "dns", modules},
		{"web", "", modules}, {"", "", modules},
		{"dsnEnabled", "dnsEnabled", flags}, {"webbEnabled", "webEnabled", flags}, {"oxoEnabled", "", flags}, {"Enabled", "", flags},
		{"serverEnabled", "", []string{"dnsServerEnabled"}},
		{"dnsSeverMaintenance", "dnsServerMaintenance", []string{"dnsServerMaintenance"}},
	} {
		if got := values.Nearest(tc.word, tc.known); got != tc.want {
			t.Errorf("%.20q: got %q, want %q", tc.word, got, tc.want)
		}
	}
}

// What is wrong is said with the path in the document, and unknown keys with the one that was meant.
func TestFormat(t *testing.T) {
	format, err := values.NewFormat("things", []byte(`{
		"additionalProperties": false, "required": ["kind"],
		"properties": {"kind": {}, "list": {"type": "array", "items": {"properties": {"b/c~d e.f": {"$ref": "#/$defs/n"}}}}},
		"$defs": {"n": {"maximum": 3}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range format.Violations(map[string]any{"lst": true, "list": []any{map[string]any{"b/c~d e.f": int64(7), "open": true}}, "other": nil}) {
		got = append(got, v.String())
	}
	want := []string{
		"kind: is required",
		`list[0]["b/c~d e.f"]: must be at most 3, is 7`,
		"lst: is not a known key; did you mean list?",
		"other: is not a known key; known are kind, list",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	if got := format.Violations(map[string]any{"kind": true}); len(got) > 0 {
		t.Errorf("got %v for a document that fits", got)
	}
	if _, err := values.NewFormat("things", []byte(`{"type": 1}`)); err == nil {
		t.Error("a schema that is none compiles")
	}
}
