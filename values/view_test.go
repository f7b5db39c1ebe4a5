package values

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// D38, J7: what looks like a secret is hidden: below its key, in lists, in patches and explanations, and keys in PEM
// anywhere.
func TestSecretsAreHidden(t *testing.T) {
	section := sectionOf(t, "m", nil, `{user: u, password: s3cret, tokens: [s3cret, {x: s3cret}], auth: {enabled: true, none: null, empty: "", pin: 1234}, pem: "-----BEGIN s3cret"}`, "{password: s3cret}")
	section, err := section.Patch(patchOf(t, `[{"op":"add","path":"/m/apiToken","value":"s3cret"},{"op":"add","path":"/m/more","value":{"key":"s3cret"}}]`), Origin{})
	wantError(t, err)
	hidden := section.Secrets().Hide(section.Merged())
	leaves, err := section.Explain("", false)
	wantError(t, err)
	changes := section.Diff(section.WithoutPatches())
	for what, v := range map[string]any{"values": hidden, "config": section.Secrets().Hide(section.Config()), "patches": section.Saved(false), "leaves": leaves, "changes": changes} {
		text, err := json.Marshal(v)
		wantError(t, err)
		if strings.Contains(string(text), "s3cret") || strings.Contains(string(text), "1234") || !strings.Contains(string(text), Hidden) {
			t.Errorf("%s: %s", what, text)
		}
	}
	wantYAML(t, "merged", hidden, `{user: u, password: "***", tokens: ["***", {x: "***"}], auth: {enabled: true, none: null, empty: "", pin: "***"}, pem: "***", apiToken: "***", more: {key: "***"}}`)
	if !reflect.DeepEqual(section.Saved(true), section.saved) {
		t.Error("the patches with secrets are others")
	}
	wantYAML(t, "still there", section.Config(), "{password: s3cret}")
}

// J4: the JSON of saved operations is a patch that can be read again.
func TestSavedOperationsAreAPatch(t *testing.T) {
	section := sectionOf(t, "m", nil, "{a: 1, b: 2}", "")
	section, err := section.Patch(patchOf(t, `[{"op":"add","path":"/m/a","value":null},{"op":"remove","path":"/m/b"}]`), hookOrigin("h.sh", 5))
	wantError(t, err)
	text, err := json.Marshal(section.Saved(false))
	wantError(t, err)
	want := `[{"op":"add","path":"/m/a","value":null,"hook":"h.sh","task":"5","time":"2026-01-02T12:05:00Z"},{"op":"remove","path":"/m/b","hook":"h.sh","task":"5","time":"2026-01-02T12:05:00Z"}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	again, _, err := ParsePatch(text)
	wantError(t, err)
	if len(again) != 2 {
		t.Errorf("read again: %v", again)
	}
	if text, err := json.Marshal(sectionOf(t, "m", nil, "", "").Saved(false)); string(text) != "[]" || err != nil {
		t.Errorf("no patches: %s, %v", text, err)
	}
}

func TestDiff(t *testing.T) {
	before := sectionOf(t, "m", nil, "{a: 1, b: 2, c: {x: 1}, list: [1], password: old}", "{fromConfig: 1}")
	if before.Diff(before) != nil {
		t.Error("a section differs from itself")
	}
	after, err := before.Patch(patchOf(t, `[{"op":"add","path":"/m/a","value":5},{"op":"remove","path":"/m/b"},{"op":"add","path":"/m/c/y","value":2},{"op":"add","path":"/m/list/-","value":2}]`), hookOrigin("h.sh", 1))
	wantError(t, err)
	after, err = after.WithConfig(nil, Origin{Revision: "2"})
	wantError(t, err)
	var got []string
	for _, c := range after.Diff(before) {
		line := c.Path + " " + jsonText(t, c.Before) + "->" + jsonText(t, c.After)
		if c.Added {
			line += " added"
		}
		if c.Gone {
			line += " gone"
		}
		got = append(got, line)
	}
	want := []string{
		"m.a 1->5", "m.b 2->null gone", "m.c.y null->2 added",
		"m.fromConfig 1->null gone", "m.list [1]->[1,2]",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
