package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"addon-operator/cmd/lint"
)

// remembered is a tree in which modules depend on each other. Each hook notes that it was asked.
const remembered = `
-- global-hooks/hooks/find.sh --
#!/bin/sh
echo find >>"$ASKED"
echo 'onStartup: 1'
-- modules/values.yaml --
global: {name: a}
-- modules/010-web/hooks/watch.sh --
#!/bin/sh
echo watch >>"$ASKED"
echo '{configVersion: v1, kubernetes: [{name: gadgets, apiVersion: example.com/v1, kind: Gadget}]}'
-- modules/010-web/templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Values.global.name }}}
-- modules/020-kinds/templates/crd.yaml --
{{- /* nothing yet */ -}}
-- modules/030-other/hooks/other.sh --
#!/bin/sh
echo other >>"$ASKED"
echo 'onStartup: 1'
`

const gadgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// With the memory of the last check the findings are those without, after each edit, and hooks are
// asked again only where what they depend on has changed.
func TestMemory(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	t.Setenv("ASKED", asked)
	dir := tree(t, txtar.Parse([]byte(remembered)))
	var memory lint.Memory
	const all = "find other watch"
	for _, step := range []struct{ file, text, asks, says string }{
		{"", "", all, "010-web/hooks/watch.sh:3:90: warning: binding gadgets: neither Kubernetes"},
		{"", "", "", "binding gadgets"},
		{"modules/010-web/README.txt", "words", "watch", "binding gadgets"},
		{"modules/010-web/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {nam: a}\n", "watch", "010-web/templates/a.yaml:3:12: error"},
		{"modules/010-web/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Values.global.name.of }}}\n", "watch", "can't evaluate field of"},
		{"modules/values.yaml", "global: {name: {of: b}}\n", all, "!can't evaluate"},
		{"modules/020-kinds/templates/crd.yaml", gadgets, all, "!binding gadgets"},
		{"modules/020-kinds/templates/crd.yaml", strings.ReplaceAll(gadgets, "adget", "idget"), all, "binding gadgets"},
		{"modules/020-kinds/crds/gadgets.yaml", gadgets, all, "!binding gadgets"},
		{"modules/020-kinds/crds/gadgets.yaml", "", all, "binding gadgets"},
		{"global-hooks/openapi/config-values.yaml", "type: object\nproperties: {name: {type: string}}\n", all, "values.yaml:1:10: error"},
		{"modules/values.yaml", "global: {name: a\n", all, "values.yaml"},
	} {
		if step.file != "" {
			path := filepath.Join(dir, step.file)
			err := os.MkdirAll(filepath.Dir(path), 0o755)
			if err == nil {
				err = os.WriteFile(path, []byte(step.text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		plain := checked(t, dir, func(*lint.Options) {})
		_ = os.Remove(asked)
		found := checked(t, dir, func(o *lint.Options) { o.Memory = &memory })
		what := fmt.Sprintf("%s is %q", step.file, step.text)
		if fmt.Sprint(found) != fmt.Sprint(plain) {
			t.Errorf("%s: with a memory\n%v\nwithout\n%v", what, found, plain)
		}
		unwanted, not := strings.CutPrefix(step.says, "!")
		if strings.Contains(fmt.Sprint(found), unwanted) == not {
			t.Errorf("%s: want %s in %v", what, step.says, found)
		}
		journal, _ := os.ReadFile(asked) // none was asked
		who := strings.Fields(string(journal))
		slices.Sort(who)
		if got := strings.Join(who, " "); got != step.asks {
			t.Errorf("%s: asked are %q, want %q", what, got, step.asks)
		}
	}
}

// What was saved while it was looked at is looked at again, and so is what did not answer, in which
// other things than files may have a part.
func TestMemoryOfWhatPasses(t *testing.T) {
	const (
		good    = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n"
		edits   = "#!/bin/sh\nif [ -e \"$ONCE\" ]; then rm \"$ONCE\"; echo '" + good + "' >\"$FILE\"; fi\necho 'onStartup: 1'\n"
		fails   = "#!/bin/sh\n[ ! -e \"$ONCE\" ] || exit 1\necho 'onStartup: 1'\n"
		hangs   = "#!/bin/sh\n[ ! -e \"$ONCE\" ] || exec sleep 600\necho 'onStartup: 1'\n"
		answers = "#!/bin/sh\n[ ! -e \"$ONCE\" ] || exec sleep 600\necho true >\"$MODULE_ENABLED_RESULT\"\n"
		missing = "#!/usr/bin/env of-this-test\n"
	)
	for _, c := range []struct{ name, file, text, says string }{
		{"edited after it was rendered", "global-hooks/hooks/edit.sh", edits, `unknown field "metadata.nam"`},
		{"a hook that failed", "modules/010-web/hooks/a.sh", fails, "exit"},
		{"a slow hook", "modules/010-web/hooks/a.sh", hangs, "did not answer --config"},
		{"a slow enabled script", "modules/010-web/enabled", answers, "did not answer within"},
		{"an interpreter that is not there yet", "modules/010-web/hooks/a.sh", missing, "is not in PATH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := good
			if strings.Contains(c.text, "$FILE") {
				text = strings.Replace(good, "name:", "nam:", 1)
			}
			dir := tree(t, &txtar.Archive{Files: []txtar.File{{Name: "modules/010-web/templates/a.yaml", Data: []byte(text)}, {Name: c.file, Data: []byte(c.text)}}})
			once, programs := filepath.Join(t.TempDir(), "once"), t.TempDir()
			t.Setenv("ONCE", once)
			t.Setenv("FILE", filepath.Join(dir, "modules/010-web/templates/a.yaml"))
			t.Setenv("PATH", os.Getenv("PATH")+":"+programs)
			if err := os.WriteFile(once, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var memory lint.Memory
			remember := func(o *lint.Options) { o.Memory = &memory }
			first := remember
			if strings.Contains(c.text, "sleep 600") {
				first = func(o *lint.Options) { o.Memory, o.HookLimit = &memory, time.Second }
			}
			if found := checked(t, dir, first); !strings.Contains(fmt.Sprint(found), c.says) {
				t.Errorf("at first it finds %v, not %q", found, c.says)
			}
			_ = os.Remove(once) // it may have done so
			if err := os.WriteFile(filepath.Join(programs, "of-this-test"), []byte("#!/bin/sh\necho 'onStartup: 1'\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			plain := checked(t, dir, func(*lint.Options) {})
			if found := checked(t, dir, remember); fmt.Sprint(found) != fmt.Sprint(plain) {
				t.Errorf("then, with a memory, it finds\n%v\nwithout\n%v", found, plain)
			}
		})
	}
}

// BenchmarkSave measures a check of 100 modules after a template of one was saved, as 'dev' does
// it.
func BenchmarkSave(b *testing.B) {
	var archive txtar.Archive
	for i := range 100 {
		name := fmt.Sprintf("modules/%d-web%d/", 100+i, i)
		archive.Files = append(archive.Files,
			txtar.File{Name: name + "templates/a.yaml", Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
			txtar.File{Name: name + "openapi/values.yaml", Data: []byte("type: object\nproperties: {name: {type: string}}\n")},
			txtar.File{Name: name + "hooks/a.sh", Data: []byte("#!/bin/sh\necho 'onStartup: 1'\n")})
	}
	dir := tree(b, &archive)
	o := options(b, dir)
	o.Tests, o.Memory = false, &lint.Memory{}
	if _, _, err := lint.Check(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\n", n)
		if err := os.WriteFile(filepath.Join(dir, archive.Files[150].Name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		if _, _, err := lint.Check(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}
