package addons_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/addons"
	"addon-operator/values"
)

// layers are the sources of static layers, relative to the root, with their content.
func layers(t *testing.T, root string, static []values.Layer) (list []string) {
	t.Helper()
	for _, l := range static {
		text, err := values.JSON(l.Value)
		must(t, err)
		list = append(list, strings.TrimPrefix(l.Source, root+"/")+" "+string(text))
	}
	return list
}

// A13, D5: the common files in the order of the roots, then the module's own.
func TestStaticValues(t *testing.T) {
	root := disk(t, map[string]string{
		"a/values.yaml":         "global: {x: 1}\ndns: {a: 1}\ndnsEnabled: true\nwebEnabled: \"false\"",
		"b/values.yaml":         "global: {z: 2}\ndns: {b: 2}\ndnsEnabled: false",
		"a/010-dns/values.yaml": "dns: {c: 3}\ndnsEnabled: true\n",
		"b/020-web/":            "",
		"global/":               "",
	})
	tree, err := addons.Load(addons.Dirs{Modules: []string{filepath.Join(root, "a"), filepath.Join(root, "b")}, Global: filepath.Join(root, "global")})
	must(t, err)
	dns := module(t, tree, "dns")
	if got, want := layers(t, root, dns.Static), []string{`a/values.yaml {"a":1}`, `b/values.yaml {"b":2}`, `a/010-dns/values.yaml {"c":3}`}; !slices.Equal(got, want) {
		t.Errorf("layers of dns: %q, want %q", got, want)
	}
	if got, want := layers(t, root, tree.Global.Static), []string{`a/values.yaml {"x":1}`, `b/values.yaml {"z":2}`}; !slices.Equal(got, want) {
		t.Errorf("global layers: %q, want %q", got, want)
	}
	// E3: flags in the same order; texts count (E5).
	var flags []string
	for _, name := range []string{"dns", "web"} {
		for _, f := range module(t, tree, name).Flags {
			flags = append(flags, strings.TrimPrefix(f.Source, root+"/")+" "+map[bool]string{true: name + " on", false: name + " off"}[f.Value])
		}
	}
	if want := []string{"a/values.yaml dns on", "b/values.yaml dns off", "a/010-dns/values.yaml dns on", "a/values.yaml web off"}; !slices.Equal(flags, want) {
		t.Errorf("flags: %q, want %q", flags, want)
	}
}

// H15: the modules directories speak in their order, the module's own file last; an empty
// text takes the mode back.
func TestMaintenanceInValuesFiles(t *testing.T) {
	tree, _ := load(t, map[string]string{
		"modules/values.yaml":         "dnsMaintenance: NoResourceReconciliation\nwebMaintenance: NoResourceReconciliation\n",
		"modules/010-dns/":            "",
		"modules/020-web/values.yaml": "webMaintenance: ''\nnodeMaintenance: of somebody else\n",
		"modules/030-node/":           "",
	})
	for name, want := range map[string]string{"dns": "NoResourceReconciliation", "web": "", "node": ""} {
		if got := module(t, tree, name).Maintenance; got != want {
			t.Errorf("module %s: maintenance %q, want %q", name, got, want)
		}
	}
}

// D5: in the values.yaml of a module only its own section and flag count; the rest is
// the chart's and may look as the chart likes.
func TestOtherKeysInValuesOfAModule(t *testing.T) {
	tree, root := load(t, map[string]string{
		"modules/010-dns/values.yaml": "dns: {a: 1}\nreplicaCount: 3\nimage: nginx\nweb: {b: 1}\nwebEnabled: maybe\nglobal: 5\nNot-A-Key: []\n",
		"modules/020-web/":            "",
	})
	if got := layers(t, root, module(t, tree, "dns").Static); !slices.Equal(got, []string{`010-dns/values.yaml {"a":1}`}) {
		t.Errorf("layers of dns: %q", got)
	}
	if web := module(t, tree, "web"); len(web.Static)+len(web.Flags)+len(tree.Global.Static) != 0 {
		t.Errorf("a module spoke for another: %+v, %v", web, tree.Global.Static)
	}
}

// A19, E5: what is broken is refused; the message names the file, and the key.
func TestBrokenFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, content, want string }{
		"common values are no YAML":          {"modules/values.yaml", "a: [1", "values file values.yaml"},
		"common values are a list":           {"modules/values.yaml", "- a", "must be a map"},
		"common values have a wrong key":     {"modules/values.yaml", "my-module: {}", "my-module"},
		"common values: a section is a text": {"modules/values.yaml", "dns: text", "dns"},
		"values are no YAML":                 {"modules/010-dns/values.yaml", "dns: {", "line 1"},
		"values: a section is a number":      {"modules/010-dns/values.yaml", "dns: 5", "key dns"},
		"values: a flag is a number":         {"modules/010-dns/values.yaml", "dnsEnabled: 5", "key dnsEnabled"},
		"values: a key twice":                {"modules/010-dns/values.yaml", "dns: {a: 1, a: 2}", "already set"},
		"values.yaml is a directory":         {"modules/010-dns/values.yaml/", "", "values file 010-dns/values.yaml: it is neither a regular file"},
		"schema is no YAML":                  {"modules/010-dns/openapi/values.yaml", "{", "schema 010-dns/openapi/values.yaml"},
		"schema is no schema":                {"modules/010-dns/openapi/config-values.yaml", "type: objekt", "schema 010-dns/openapi/config-values.yaml"},
		"schema is a directory":              {"modules/010-dns/openapi/values.yaml/", "", "it is neither a regular file"},
		"global schema is no schema":         {"global/openapi/values.yaml", "type: objekt", "global/openapi/values.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got := loadError(t, map[string]string{"modules/010-dns/": "", c.file: c.content})
			file := strings.TrimPrefix(strings.TrimSuffix(c.file, "/"), "modules/")
			if !strings.Contains(got, c.want) || !strings.Contains(got, file) || strings.Contains(got, "modules/") {
				t.Errorf("got %q, want %q and the file", got, c.want)
			}
		})
	}
}

// Files that are empty, or hold comments only, say nothing.
func TestEmptyFiles(t *testing.T) {
	tree, _ := load(t, map[string]string{
		"modules/values.yaml":                 "",
		"modules/010-dns/values.yaml":         "# nothing yet\n",
		"modules/010-dns/openapi/values.yaml": "",
		"modules/020-web/values.yaml":         "web:\n",
	})
	for _, m := range tree.Modules {
		if len(m.Static) != 0 || len(m.Flags) != 0 {
			t.Errorf("%s: %v, %v", m.Name, m.Static, m.Flags)
		}
	}
}

// A12, D29: schemas of modules and of the global values are compiled.
func TestSchemas(t *testing.T) {
	const strict = "type: object\nproperties: {a: {type: integer}}\n"
	tree, _ := load(t, map[string]string{
		"modules/010-dns/openapi/config-values.yaml": strict,
		"modules/020-web/":                           "",
		"global/openapi/config-values.yaml":          strict,
	})
	for name, c := range map[string]struct {
		schemas *values.Schemas
		refused bool
	}{
		"dns":    {module(t, tree, "dns").Schemas, true},
		"web":    {module(t, tree, "web").Schemas, false},
		"global": {tree.Global.Schemas, true},
	} {
		section, err := values.NewSection("dns", c.schemas)
		if err == nil {
			section, err = section.WithStored(map[string]any{"a": "text"}, nil, values.Origin{}, values.Origin{})
		}
		if err == nil {
			err = section.ValidateConfig()
		}
		if refused := err != nil; refused != c.refused {
			t.Errorf("%s: refused %v, want %v: %v", name, refused, c.refused, err)
		}
	}
}

// A14: hooks/ below the global directory, when it is there.
func TestGlobalHooksDirectory(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"with hooks":      {"global/hooks/a.sh", "global/hooks"},
		"without":         {"global/a.sh", "global"},
		"hooks is a file": {"global/hooks", "global"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, root := load(t, map[string]string{c.file: "#!/bin/sh", "modules/": ""})
			if tree.Global.HooksDir != filepath.Join(root, c.want) || tree.Global.Dir != filepath.Join(root, "global") {
				t.Errorf("hooks in %s, dir %s", tree.Global.HooksDir, tree.Global.Dir)
			}
		})
	}
}

// A18: the enabled script.
func TestEnabledScript(t *testing.T) {
	root := disk(t, map[string]string{
		"elsewhere.sh":              "#!/bin/sh",
		"global/":                   "",
		"modules/070-pipe/":         "",
		"modules/010-none/":         "",
		"modules/020-good/enabled":  "#!/bin/sh",
		"modules/030-plain/enabled": "echo true",
		"modules/040-link/enabled":  "-> ../../elsewhere.sh",
		"modules/050-gone/enabled":  "-> nowhere",
		"modules/060-dir/enabled/":  "",
	})
	must(t, syscall.Mkfifo(filepath.Join(root, "modules/070-pipe/enabled"), 0o700))
	tree, err := addons.Load(dirs(root))
	must(t, err)
	for name, want := range map[string]string{
		"none": "", "good": "modules/020-good/enabled", "plain": "", "link": "modules/040-link/enabled", "gone": "", "dir": "", "pipe": "",
	} {
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got := module(t, tree, name).EnabledScript; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	expectWarnings(t, tree, "030-plain/enabled is not executable", "060-dir/enabled is neither a file nor a link to one", "070-pipe/enabled is neither a file nor a link to one")
}

// G4, P8: a reload finds what came and what went; what is broken now is as it was when it was loaded last.
func TestRefresh(t *testing.T) {
	tree, root := load(t, map[string]string{
		"modules/values.yaml":         "fresh: {common: 1}\n",
		"modules/010-dns/values.yaml": "dns: {a: 1}",
		"modules/020-web/":            "",
	})
	write(t, root, "modules/010-dns/values.yaml", "dns: [broken")
	write(t, root, "modules/values.yaml", "- broken")
	write(t, root, "modules/015-fresh/values.yaml", "fresh: {own: 2}")
	write(t, root, "modules/notes.txt", "")
	must(t, os.RemoveAll(filepath.Join(root, "modules/020-web")))
	next, err := tree.Refresh(dirs(root))
	must(t, err)
	expectNames(t, next, "dns", "fresh")
	expectNames(t, tree, "dns", "web") // the old tree may still be in use
	expectWarnings(t, next, "notes.txt", "values file values.yaml: must be a map", "module dns: changed on disk, but not in force; the last version that loaded stays")
	if got := layers(t, root, module(t, next, "dns").Static); !slices.Equal(got, []string{`010-dns/values.yaml {"a":1}`}) {
		t.Errorf("a module that stayed has changed: %q", got)
	}
	if got := layers(t, root, module(t, next, "fresh").Static); !slices.Equal(got, []string{`values.yaml {"common":1}`, `015-fresh/values.yaml {"own":2}`}) {
		t.Errorf("layers of the new module: %q", got)
	}
	if next.Global.Dir != tree.Global.Dir {
		t.Error("the global part is lost")
	}
}

// P8: what does not load is not in force, and what is stays, also a module whose directory was renamed meanwhile.
func TestRefreshOfWhatIsBroken(t *testing.T) {
	tree, root := load(t, map[string]string{
		"modules/010-dns/values.yaml": "dns: {a: 1}\ndnsEnabled: true", "modules/020-web/hooks/a.sh": "#!/bin/sh", "modules/values.yaml": "global: {g: 1}",
	})
	write(t, root, "modules/015-fresh/values.yaml", "fresh: 5")
	write(t, root, "modules/015-Wrong/", "")
	write(t, root, "modules/010-dns/openapi/values.yaml", "{")
	must(t, os.Rename(filepath.Join(root, "modules/010-dns"), filepath.Join(root, "modules/030-dns")))
	next, err := tree.Refresh(dirs(root))
	must(t, err)
	expectNames(t, next, "web", "dns")
	dns := module(t, next, "dns")
	if !strings.Contains(dns.Stale(), "030-dns/openapi/values.yaml") || len(dns.Static) != 1 || len(dns.Flags) != 1 || dns.Base != "030-dns" {
		t.Errorf("what is in force of dns: %+v", dns)
	}
	if len(next.Broken) != 1 || next.Broken[0].Name != "fresh" {
		t.Errorf("broken are %+v", next.Broken)
	}
	for _, want := range []string{"module fresh is not in force: ", "015-Wrong"} {
		if !slices.ContainsFunc(next.Global.Problems, func(p string) bool { return strings.Contains(p, want) }) {
			t.Errorf("no problem has %q: %q", want, next.Global.Problems)
		}
	}
	write(t, root, "modules/030-dns/openapi/values.yaml", "properties: {a: {type: integer}}")
	write(t, root, "modules/015-fresh/values.yaml", "fresh: {a: 5}")
	write(t, root, "modules/020-web/hooks/a.sh", "#!/bin/bash")
	last := next
	next, err = next.Refresh(dirs(root))
	must(t, err)
	expectNames(t, next, "fresh", "web", "dns")
	if dns := module(t, next, "dns"); dns.Stale() != "" || dns.SameValues(module(t, last, "dns")) {
		t.Errorf("dns, which is valid again: %+v", dns)
	}
	web := module(t, next, "web")
	if web.SameFiles(module(t, last, "web")) {
		t.Error("web, which has another hook, is the same")
	}
	last = next
	if next, err = next.Refresh(dirs(root)); err != nil || !module(t, next, "dns").Same(module(t, last, "dns")) || len(next.Unloaded(dirs(root))) > 0 {
		t.Errorf("without a change: %v %v", err, next.Unloaded(dirs(root)))
	}
	for _, words := range []string{"tests/a.yaml", "README.md", "docs/a.txt"} {
		write(t, root, "modules/020-web/"+words, "words")
	}
	if last, err = next.Refresh(dirs(root)); err != nil || !module(t, next, "web").Same(module(t, last, "web")) || len(next.Unloaded(dirs(root))) > 0 {
		t.Errorf("with words and tests: %v %v", err, next.Unloaded(dirs(root)))
	}
	for _, words := range []string{"tests/a.yaml", "tests/a.golden.yaml", "README.md", "docs/a.txt"} {
		write(t, root, "global/"+words, "words")
	}
	if got := next.Unloaded(dirs(root)); len(got) > 0 {
		t.Errorf("with words and tests of the global hooks: %q", got)
	}
	write(t, root, "modules/020-web/templates/a.yaml", "a: 1")
	write(t, root, "modules/values.yaml", "global: {g: 2}")
	write(t, root, "modules/040-later/templates/a.yaml", "a: 1")
	got := next.Unloaded(dirs(root))
	if len(got) != 2 || got["web"] == "" || !strings.Contains(got[""], " values.yaml") || !strings.Contains(got[""], "the module later in 040-later is new") {
		t.Errorf("changed since: %q", got)
	}
	write(t, root, "modules/values.yaml", "global: [")
	write(t, root, "global/openapi/values.yaml", "{")
	write(t, root, "modules/020-web/openapi/values.yaml", "{")
	if last, err = next.Refresh(dirs(root)); err != nil || len(last.Global.Problems) != 3 || len(last.Unloaded(dirs(root))) > 0 {
		t.Errorf("what was refused: %q, and as if it had not been looked at: %q, %v", last.Global.Problems, last.Unloaded(dirs(root)), err)
	}
	write(t, root, "modules/values.yaml", "global: [1")
	write(t, root, "global/openapi/values.yaml", "{{")
	if got := last.Unloaded(dirs(root)); !strings.Contains(got[""], " values.yaml") || !strings.Contains(got[""], "/global") {
		t.Errorf("what was refused is another one: %q", got)
	}
	must(t, os.RemoveAll(filepath.Join(root, "modules")))
	if got := next.Unloaded(dirs(root)); !strings.Contains(got[""], "does not exist") || got["dns"] == "" {
		t.Errorf("without the modules directory: %q", got)
	}
}

// A root that cannot be read says nothing about its modules.
func TestRefreshWithoutItsRoot(t *testing.T) {
	tree, root := load(t, map[string]string{"modules/010-dns/": ""})
	must(t, os.RemoveAll(filepath.Join(root, "modules")))
	if next, err := tree.Refresh(dirs(root)); next != nil || err == nil || !strings.Contains(err.Error(), "MODULES_DIR") {
		t.Errorf("got %v, want MODULES_DIR", err)
	}
}

// A module whose number was changed is another directory, so it is read again.
func TestRefreshAfterARenumbering(t *testing.T) {
	tree, root := load(t, map[string]string{"modules/010-dns/values.yaml": "dns: {a: 1}", "modules/020-web/": ""})
	must(t, os.Rename(filepath.Join(root, "modules/010-dns"), filepath.Join(root, "modules/030-dns")))
	next, err := tree.Refresh(dirs(root))
	must(t, err)
	expectNames(t, next, "web", "dns")
	if m := module(t, next, "dns"); m.Order != 30 || m.Base != "030-dns" || len(m.Static) != 1 {
		t.Errorf("after the change: %+v", m)
	}
}

// A11, A18, D35: likely mistakes that do not stop the start are shown with their module, also when they come
// later.
func TestProblemsOfModules(t *testing.T) {
	root := disk(t, map[string]string{
		"modules/010-dns/openapi/config-values.yaml": "properties: {b: {x-kubernetes-validations: [r]}}",
		"modules/010-dns/enabled":                    "not executable",
		"modules/020-web/":                           "",
		"global/openapi/values.yaml":                 "{x-deckhouse-validations: []}",
	})
	tree, err := addons.Load(dirs(root))
	must(t, err)
	want := func(what string, got []string, parts ...string) {
		t.Helper()
		if len(got) != len(parts) {
			t.Errorf("%s: %d problems, want %d: %q", what, len(got), len(parts), got)
			return
		}
		for i, part := range parts {
			if !strings.Contains(got[i], part) || !slices.Contains(tree.Problems, got[i]) {
				t.Errorf("%s: problem %q, want %q, and among all: %q", what, got[i], part, tree.Problems)
			}
		}
	}
	want("dns", module(t, tree, "dns").Problems(), "enabled is not executable")
	want("web", module(t, tree, "web").Problems())
	expectWarnings(t, tree, "010-dns/openapi/config-values.yaml has rules that are not evaluated: x-kubernetes-validations", "is not executable",
		"global/openapi/values.yaml has rules that are not evaluated: x-deckhouse-validations")

	write(t, root, "modules/030-dns/", "")
	write(t, root, "modules/040-db/enabled", "not executable")
	tree, err = tree.Refresh(dirs(root))
	must(t, err)
	want("db", module(t, tree, "db").Problems(), "040-db/enabled is not executable")
	if got := module(t, tree, "dns").Problems(); len(got) != 2 || !strings.Contains(got[0], "030-dns is ignored") {
		t.Errorf("dns after a reload: %q", got)
	}
	must(t, os.Remove(filepath.Join(root, "modules/030-dns")))
	tree, err = tree.Refresh(dirs(root))
	must(t, err)
	if got := module(t, tree, "dns").Problems(); len(got) != 1 {
		t.Errorf("dns when the other directory is gone: %q", got)
	}
}

// E16: a flag that is probably meant to be that of the module is named; other keys of its file are the chart's.
func TestMisspeltFlagOfAModule(t *testing.T) {
	tree, _ := load(t, map[string]string{
		"modules/values.yaml":                "dnsSeverEnabled: true\nwebEnabled: true\n",
		"modules/010-dns-server/values.yaml": "dnsServreEnabled: true\nmetricsEnabled: true\nwebEnabled: true\nserverEnabled: {a: 1}\n",
		"modules/020-web/values.yaml":        "",
	})
	expectWarnings(t, tree, "010-dns-server/values.yaml has the flag dnsServreEnabled, which is not that of the module; it is ignored; did you mean dnsServerEnabled?",
		"values.yaml has the flag dnsSeverEnabled, but no such module exists; it is ignored; did you mean dnsServerEnabled?")
}

// A17: charts/ alone is no chart, and somebody surely meant one.
func TestChartsWithoutChart(t *testing.T) {
	tree, _ := load(t, map[string]string{
		"modules/010-sub/charts/dns/Chart.yaml":   "{}",
		"modules/020-made/charts/dns/Chart.yaml":  "{}",
		"modules/020-made/templates/":             "",
		"modules/030-named/charts/dns/Chart.yaml": "{}",
		"modules/030-named/Chart.yaml":            "{}",
		"modules/040-empty/charts/":               "",
	})
	expectWarnings(t, tree, "010-sub has charts/, but neither Chart.yaml nor templates/, so nothing in charts/ is installed")
	if got := module(t, tree, "sub").Problems(); len(got) != 1 || len(tree.Problems) != 1 {
		t.Errorf("problems of the module: %q, of the tree: %q", got, tree.Problems)
	}
}

// P8: a values.yaml without content that was just written is read again, also at a start; one that stays so is empty.
func TestLoadWaitsForAWriter(t *testing.T) {
	for situation, c := range map[string]struct {
		age, writes time.Duration
		flags       int
		takes       time.Duration
	}{
		"it is being written": {0, 510 * time.Millisecond, 1, 550 * time.Millisecond},
		"it stays empty":      {0, time.Hour, 0, time.Second},
		"it is old":           {time.Minute, time.Hour, 0, 0},
	} {
		t.Run(situation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := disk(t, map[string]string{"modules/010-dns/": "", "modules/values.yaml": "", "global/": ""})
				began := time.Now()
				must(t, os.Chtimes(filepath.Join(root, "modules/values.yaml"), began, began.Add(-c.age)))
				writer := time.AfterFunc(c.writes, func() { write(t, root, "modules/values.yaml", "dnsEnabled: true\n") })
				defer writer.Stop()
				tree, err := addons.Load(dirs(root))
				must(t, err)
				if got := len(module(t, tree, "dns").Flags); got != c.flags || time.Since(began) != c.takes {
					t.Errorf("%d flags after %s, want %d after %s", got, time.Since(began), c.flags, c.takes)
				}
			})
		})
	}
}

// P8: a file that had content and is empty, and templates/ without its templates, are not in force; what is removed
// on purpose is.
func TestRefreshOfLostContent(t *testing.T) {
	files := map[string]string{
		"modules/010-dns/Chart.yaml": "name: dns", "modules/010-dns/templates/a.yaml": "a: 1", "modules/010-dns/templates/b.yaml": "b: 1",
		"modules/010-dns/templates/none.tpl": "", "modules/010-dns/crds/c.yaml": "c: 1", "modules/010-dns/module.yaml": "namespace: dns",
		"modules/010-dns/openapi/values.yaml": "type: object", "modules/010-dns/hooks/h": "#!/bin/sh", "modules/010-dns/README.md": "x",
		"modules/010-dns/charts/sub/templates/s.yaml": "s: 1", "modules/010-dns/charts/sub/Chart.yaml": "name: sub",
		"modules/010-dns/templates/read.yaml": `{{ .Files.Get "files/a" }}`, "modules/010-dns/files/a": "a", "modules/010-dns/ci/a": "a",
		"modules/010-dns/values.yaml": "dns: {a: 1}",
	}
	for change, c := range map[string]struct {
		write, remove string // the first line of what is written is the name
		refused       string // what the problem says; "" for a change that is in force
	}{
		"white space":       {"templates/a.yaml\n\r\n \t\n", "", "010-dns/templates/a.yaml is empty"},
		"zeros":             {"templates/a.yaml\n\x00\x00\n\x00", "", "010-dns/templates/a.yaml is empty"},
		"blank values":      {"values.yaml\n \n", "", "010-dns/values.yaml is empty"},
		"zeros as values":   {"values.yaml\n\x00\x00", "", "control characters are not allowed"},
		"blank Chart.yaml":  {"Chart.yaml\n \n", "", "010-dns/Chart.yaml is empty"},
		"a file":            {"files/a\n\x00", "", "010-dns/files/a is empty"},
		"a comment":         {"templates/a.yaml\n# gone", "", ""},
		"what is read":      {"", "files", "010-dns/files/ has no files, but it had some; restore them"},
		"what nobody reads": {"", "ci", ""},
		"template":          {"templates/a.yaml", "", "010-dns/templates/a.yaml is empty, but it had content; restore it, or remove the file"},
		"crd":               {"crds/c.yaml", "", "010-dns/crds/c.yaml is empty"},
		"module.yaml":       {"module.yaml", "", "010-dns/module.yaml is empty"},
		"schema":            {"openapi/values.yaml", "", "010-dns/openapi/values.yaml is empty"},
		"hook":              {"hooks/h", "", "010-dns/hooks/h is empty"},
		"of a subchart":     {"charts/sub/templates/s.yaml", "", "010-dns/charts/sub/templates/s.yaml is empty"},
		"all templates":     {"", "templates", "010-dns/templates/ has no files, but it had some; restore them, or write a file with a comment there"},
		"their content":     {"", "templates/", "010-dns/templates/ has no files"},
		"all of a subchart": {"", "charts/sub/templates", "010-dns/charts/sub/templates/ has no files"},
		"one template":      {"", "templates/a.yaml", ""},
		"a subchart":        {"", "charts", ""},
		"a document":        {"README.md", "", ""},
	} {
		t.Run(change, func(t *testing.T) {
			tree, root := load(t, files)
			last := module(t, tree, "dns")
			old := time.Now().Add(-time.Minute)
			if name, content, _ := strings.Cut(c.write, "\n"); name != "" {
				write(t, root, "modules/010-dns/"+name, content)
				must(t, os.Chtimes(filepath.Join(root, "modules/010-dns", name), old, old))
			}
			if c.remove != "" {
				must(t, os.RemoveAll(filepath.Join(root, "modules/010-dns", c.remove)))
			}
			if strings.HasSuffix(c.remove, "/") {
				write(t, root, "modules/010-dns/"+c.remove, "")
			}
			for range 2 { // what is refused stays so
				var err error
				tree, err = tree.Refresh(dirs(root))
				must(t, err)
			}
			now := module(t, tree, "dns")
			if !strings.Contains(now.Stale(), c.refused) || (now.Stale() == "") != (c.refused == "") {
				t.Errorf("it says %q, want %q", now.Stale(), c.refused)
			}
			if c.refused != "" && !now.Same(last) {
				t.Error("another version is in force")
			}
		})
	}
}

// P8: what is in the way of a file, and a link to nothing, is no order to delete either.
func TestRefreshOfFilesThatAreNone(t *testing.T) {
	for what, change := range map[string]func(t *testing.T, dir string){
		"directory":     func(t *testing.T, dir string) { write(t, dir, "templates/a.yaml/", "") },
		"link":          func(t *testing.T, dir string) { write(t, dir, "templates/a.yaml", "-> nowhere") },
		"link above it": func(t *testing.T, dir string) { write(t, dir, "templates", "-> nowhere") },
		"named pipe": func(t *testing.T, dir string) {
			must(t, syscall.Mkfifo(filepath.Join(dir, "templates/a.yaml"), 0o600))
		},
	} {
		t.Run(what, func(t *testing.T) {
			tree, root := load(t, map[string]string{"modules/010-dns/Chart.yaml": "name: dns", "modules/010-dns/templates/a.yaml": "a: 1", "modules/010-dns/templates/b.yaml": "b: 1"})
			dir, gone := filepath.Join(root, "modules/010-dns"), "templates/a.yaml"
			if what == "link above it" {
				gone = "templates"
			}
			must(t, os.RemoveAll(filepath.Join(dir, gone)))
			change(t, dir)
			next, err := tree.Refresh(dirs(root))
			must(t, err)
			if now := module(t, next, "dns"); !strings.Contains(now.Stale(), "010-dns/templates/a.yaml is not a file any more") || !now.Same(module(t, tree, "dns")) {
				t.Errorf("it says %q", now.Stale())
			}
		})
	}
}

// P8: so it is with the schemas of global values, whose defaults all modules see.
func TestRefreshOfLostGlobalSchema(t *testing.T) {
	tree, root := load(t, map[string]string{"modules/010-dns/": "", "global/openapi/values.yaml": "properties: {a: {default: {}}}"})
	write(t, root, "global/openapi/values.yaml", "")
	old := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(filepath.Join(root, "global/openapi/values.yaml"), old, old))
	next, err := tree.Refresh(dirs(root))
	if err != nil || len(next.Global.Problems) != 1 || !strings.Contains(next.Global.Problems[0], "openapi/values.yaml is empty, but it had content") || !next.Global.Same(tree.Global) {
		t.Errorf("%v, problems %q", err, next.Global.Problems)
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const innerChart = "modules/010-web-app/chart/Chart.yaml"

// A21: module.yaml is read strictly, and all mistakes are named with the fix.
func TestModuleFile(t *testing.T) {
	tree, _ := load(t, map[string]string{
		innerChart:                        "",
		"modules/010-web-app/module.yaml": "namespace: web\nwaitFor: [plain]\nchart: {repository: 'https://charts.example.com', name: web, version: 1.2.3, digest: 'sha256:0'}\n",
		"modules/020-plain/module.yaml":   "# nothing yet\n",
	})
	want := addons.ModuleFile{Namespace: "web", Waits: true, Chart: addons.ChartSource{Repository: "https://charts.example.com", Name: "web", Version: "1.2.3", Digest: "sha256:0"}}
	if got := module(t, tree, "web-app").File; got != want {
		t.Errorf("got %+v", got)
	}
	if got := module(t, tree, "plain").File; got != (addons.ModuleFile{}) {
		t.Errorf("an empty file says %+v", got)
	}
	for content, wants := range map[string][]string{
		"namspace: web":                       {"namspace is not a known key; did you mean namespace?"},
		"releases: 1":                         {"releases is not a known key; known are chart, namespace"},
		"chart: {Version: '1', namo: a}":      {"chart.Version is not a known key; did you mean version?", "chart.namo is not a known key; did you mean name?"},
		"namespace: 5\nchart: {version: 1.0}": {"namespace must be a string, is an integer", "chart.version must be a string, is "},
		"namespace: My_Web":                   {`namespace must match the pattern ^[a-z0-9]`, `is "My_Web"`},
		"namespace: ''":                       {"namespace must match the pattern"},
		"chart: web":                          {"chart must be a map, is a string"},
		"- namespace":                         {"the file must be a map, is a list"},
		"namespace: [":                        {"line 1"},
	} {
		got := loadError(t, map[string]string{innerChart: "", "modules/010-web-app/module.yaml": content})
		for _, part := range append(wants, "010-web-app/module.yaml: ") {
			if !strings.Contains(got, part) {
				t.Errorf("%q: got %q, want %q", content, got, part)
			}
		}
	}
}

// A20: a module has one chart, and a whole one.
func TestTwoCharts(t *testing.T) {
	for _, name := range []string{"Chart.yaml", "templates/a.yaml", "crds/a.yaml", "charts/a.tgz"} {
		got := loadError(t, map[string]string{innerChart: "", "modules/010-web-app/" + name: ""})
		top, _, _ := strings.Cut(name, "/")
		if !strings.Contains(got, "010-web-app/"+top+" is not used, because the chart of the module is in 010-web-app/chart; ") || !strings.Contains(got, "remove it") {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := loadError(t, map[string]string{"modules/010-web-app/chart/": ""}); !strings.Contains(got, "chart is the directory of an unchanged chart, but it has no Chart.yaml") {
		t.Errorf("an empty chart/: %q", got)
	}
	if got := loadError(t, map[string]string{"modules/010-web-app/module.yaml": "chart: {name: web}"}); !strings.Contains(got, "restore the chart") {
		t.Errorf("chart/ is gone: %q", got)
	}
	tree, _ := load(t, map[string]string{"modules/010-web-app/templates/a.yaml": "", "modules/010-web-app/chart/a.png": ""})
	if path, _ := module(t, tree, "web-app").Defaults(); path != "" {
		t.Errorf("a directory of a chart counts as chart/: %s", path)
	}
}

// A20: keys of values.yaml that no one reads are named, with where they belong.
func TestUnreadValues(t *testing.T) {
	tree, _ := load(t, map[string]string{
		innerChart:                        "",
		"modules/010-web-app/values.yaml": "webApp: {a: 1}\nwebAppEnabled: true\nwebAppMaintenance: ''\nglobal: {a: 1}\nreplicaCount: 3\nweb-app: {b: 1}\nwebapp: {}\nwebApEnabled: true\n",
	})
	const lies = " is not read, because the chart of the module is in chart/; "
	expectWarnings(t, tree, "010-web-app/values.yaml: key replicaCount"+lies+"the values of the chart belong under webApp; move it there",
		"key web-app"+lies+"did you mean webApp?", "key webApEnabled"+lies+"did you mean webAppEnabled?", "key webapp"+lies+"did you mean webApp?")
	if got := len(module(t, tree, "web-app").Problems()); got != 4 {
		t.Errorf("%d problems, want 4", got)
	}
}

// A20: the values of the chart are read when somebody asks.
func TestDefaultsOfChart(t *testing.T) {
	tree, root := load(t, map[string]string{innerChart: ""})
	shown, read := module(t, tree, "web-app").Defaults()
	if want := "010-web-app/chart/values.yaml"; shown != want {
		t.Errorf("the file is called %s, want %s", shown, want)
	}
	if got, err := read(); err != nil || got != nil {
		t.Errorf("without a values.yaml: %v, %v", got, err)
	}
	write(t, root, "modules/010-web-app/chart/values.yaml", "a: [")
	if _, err := read(); err == nil || !strings.Contains(err.Error(), shown) {
		t.Errorf("a broken values.yaml: %v", err)
	}
	write(t, root, "modules/010-web-app/chart/values.yaml", "a: 1\n")
	if got, err := read(); err != nil || got.(map[string]any)["a"] != int64(1) {
		t.Errorf("got %v, %v", got, err)
	}
}

// H1, J12: a chart that can never be installed is a problem of its module; without a chart there is nothing to
// install.
func TestChartsThatCannotBeInstalled(t *testing.T) {
	tree, _ := load(t, map[string]string{
		"modules/010-lib/Chart.yaml":         "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n",
		"modules/020-inner/chart/Chart.yaml": "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n",
		"modules/030-app/Chart.yaml":         "apiVersion: v2\nname: app\nversion: 1.0.0\ntype: application\n",
	})
	want := map[string]string{"lib": "010-lib/Chart.yaml has type library", "inner": "020-inner/chart/Chart.yaml has type library"}
	for _, m := range tree.Modules {
		problems := strings.Join(m.Problems(), "; ")
		if !strings.Contains(problems, want[m.Name]) || (problems == "") != (want[m.Name] == "") {
			t.Errorf("module %s: %q, want %q", m.Name, problems, want[m.Name])
		}
	}
}

// P8: what changes below the directories is noticed: files, new directories and what comes in them, and links that
// are pointed at another tree, whether the root lies behind one, as with git-sync, or its files do, as in projected
// volumes.
func TestWatch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		must(t, err)
	}
	for _, name := range []string{"one/modules/010-a/values.yaml", "two/modules/010-a/values.yaml", "volume/..1/values.yaml", "volume/..2/values.yaml", "global/h.sh"} {
		write(name, "a: {}")
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	link := func(target, path string) {
		t.Helper()
		must(t, os.Symlink(target, path+"-new"))
		must(t, os.Rename(path+"-new", path))
	}
	link("one", at("current"))
	link("..1", at("volume", "..data"))
	link("..data/values.yaml", at("volume", "values.yaml"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	noticed := make(chan struct{}, 100)
	dirs := addons.Dirs{Modules: []string{at("current", "modules"), at("volume")}, Global: at("global")}
	addons.Watch(ctx, dirs, addons.Often, func() { noticed <- struct{}{} })
	notices := func(what string) {
		t.Helper()
		select {
		case <-noticed:
		case <-time.After(time.Minute):
			t.Fatalf("%s is not noticed", what)
		}
	}
	write("one/modules/020-b/templates/x.yaml", "a")
	notices("a new directory")
	write("global/h.sh", "#!/bin/sh")
	notices("a global hook")
	link("..2", at("volume", "..data"))
	notices("a link of a projected volume")
	link("two", at("current"))
	notices("a link above the root")
	write("two/modules/010-a/hooks/h.sh", "x")
	notices("a file behind the new link")
}
