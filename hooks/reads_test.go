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

// The directory of a module may be a link, as 'dev' makes one: the programs are those in the directory that it leads to.
func TestReadsBehindALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	err := os.WriteFile(filepath.Join(dir, "hook"), []byte("#!/bin/sh\njq .web.replicas \"$VALUES_PATH\"\n"), 0o600)
	if err == nil {
		err = os.Symlink(dir, link)
	}
	if err != nil {
		t.Fatal(err)
	}
	none := func(string) bool { return false }
	if !ReadsOf(link, none).May([]string{"web", "replicas"}) || ReadsOf(link, none).May([]string{"web", "other"}) {
		t.Error("what a hook behind the link reads is not known")
	}
}
