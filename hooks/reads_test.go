package hooks

import (
	"os"
	"path/filepath"
	"testing"
)

// H23: of programs only what is certain is known: what may read a section as a whole, or in a way that is not understood, may
// read all of it.
func TestReadsOf(t *testing.T) {
	const bash = "#!/usr/bin/env bash\nset -euo pipefail\n"
	for name, c := range map[string]struct {
		file, text string
		may        bool // read web.replcas
	}{
		"no values":             {"hooks/a", bash + `kubectl get nodes`, false},
		"a path":                {"hooks/a", bash + `url=$(jq -r .web.url "$VALUES_PATH")`, false},
		"with a default":        {"enabled", bash + `jq -e '.global.enabledModules // [] | index("db")' "${VALUES_PATH}" >/dev/null`, false},
		"from the ConfigMap":    {"hooks/a", "#!/bin/sh\n" + `jq -er ".web.url" < $CONFIG_VALUES_PATH`, false},
		"a patch":               {"hooks/a", bash + `echo '{"op": "add", "path": "/web/password", "value": 1}' >> "$VALUES_JSON_PATCH_PATH"`, false},
		"a comment":             {"hooks/a", bash + "# values are not read", false},
		"a library":             {"hooks/lib/a.sh", "#!/bin/sh\nf() { kubectl get pods; }", false},
		"data":                  {"hooks/a.json", "{}", false},
		"the name":              {"hooks/a", bash + `jq -r .web.replcas "$VALUES_PATH"`, true},
		"the name in a patch":   {"hooks/a", bash + `echo '{"op": "remove", "path": "/web/replcas"}' > "$CONFIG_VALUES_JSON_PATCH_PATH"`, true},
		"the name in data":      {"hooks/a.yaml", "keys: [replcas]", true},
		"the section":           {"hooks/a", bash + `jq -c '.web' "$VALUES_PATH"`, true},
		"a key of a variable":   {"hooks/a", bash + `jq -r ".web.$key" "$VALUES_PATH"`, true},
		"all of the section":    {"hooks/a", bash + `jq -r '.web.url, (.web | tostring)' "$VALUES_PATH"`, true},
		"the default of a path": {"hooks/a", bash + `jq -r '.web.url // .web' "$VALUES_PATH"`, true},
		"arguments":             {"hooks/a", bash + `jq --arg a b '.web.url' "$VALUES_PATH"`, true},
		"all values":            {"hooks/a", bash + `cp "$VALUES_PATH" /tmp`, true},
		"another program":       {"hooks/a", bash + `exec /usr/bin/web-hook`, true},
		"another file":          {"hooks/a", bash + `. /lib.sh`, true},
		"the environment":       {"hooks/a", bash + `eval "$(env | tail -1)"`, true},
		"another language":      {"hooks/a", "#!/usr/bin/env python3\nimport hook\n", true},
		"a program":             {"hooks/a", "\x7fELF", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{c.file: c.text, "templates/a.yaml": "replcas"} {
				path := filepath.Join(dir, filepath.FromSlash(file))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := ReadsOf(dir, func(name string) bool { return name == "templates" })
			if got := r.May([]string{"web", "replcas"}); got != c.may {
				t.Errorf("may read: %t", got)
			}
		})
	}
	if !ReadsOf(t.TempDir()+"/none", func(string) bool { return false }).May([]string{"a", "b"}) {
		t.Error("a directory that cannot be read")
	}
}

// A value that no program can have set is known only where that is certain.
func TestMaySet(t *testing.T) {
	const bash = "#!/usr/bin/env bash\nset -euo pipefail\n"
	for name, c := range map[string]struct {
		text string
		may  bool // set web.image.replicas
	}{
		"no patch":                {bash + `kubectl get nodes`, false},
		"another key":             {bash + `echo '{"op": "add", "path": "/web/nodes", "value": 1}' >"$VALUES_JSON_PATCH_PATH"`, false},
		"another key, dotted":     {bash + `echo '{"op": "add", "path": "web.nodes", "value": 1}' >"$VALUES_JSON_PATCH_PATH"`, false},
		"the key":                 {bash + `echo '{"op": "add", "path": "/web/nodes/replicas", "value": 1}' >"$VALUES_JSON_PATCH_PATH"`, true},
		"the map above it":        {bash + `jq '{op: "add", path: "/web/image", value: .}' x >"$VALUES_JSON_PATCH_PATH"`, true},
		"the section":             {bash + `jq '{op: "add", path: "/web", value: .}' x >"$VALUES_JSON_PATCH_PATH"`, true},
		"a computed key":          {bash + `echo "{op: add, path: /web/$key, value: 1}" >"$VALUES_JSON_PATCH_PATH"`, true},
		"a computed path":         {bash + `make-patch >"$VALUES_JSON_PATCH_PATH"`, true},
		"what stands elsewhere":   {bash + `. ./lib.sh`, true},
		"another language":        {"#!/usr/bin/env python3\n", true},
		"an option, not its file": {bash + "set -o nounset\n" + `echo '{"path": "/web/nodes"}' >"$VALUES_JSON_PATCH_PATH"`, true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "hook"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ReadsOf(dir, func(string) bool { return false }).MaySet([]string{"web", "image", "replicas"}); got != c.may {
			t.Errorf("%s: may set: %t", name, got)
		}
	}
}
