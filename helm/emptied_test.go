package helm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// P8: content that was lost deletes and changes nothing, also after a restart. What was removed on purpose goes.
func TestApplyLostContent(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "emptied", `
-- Chart.yaml --
{apiVersion: v2, name: emptied, version: 1.0.0, dependencies: [{name: sub, version: 1.0.0}]}
-- values.yaml --
emptied: {size: 1}
plain: 2
-- templates/_none.tpl --
-- templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: emptied-a}, data: {plain: "{{ .Values.plain }}"}}
-- templates/b.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: emptied-b}}
-- ci/values.yaml --
a: b
-- charts/sub/Chart.yaml --
{apiVersion: v2, name: sub, version: 1.0.0}
-- charts/sub/templates/c.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: emptied-c}}
`)
	f.apply(m, Installed, 1)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(m.Dir, name))
		must(t, err)
		return string(text)
	}
	refused := func(what, want string) {
		t.Helper()
		f.restart()
		if err := f.refuse(m, Render); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	for _, name := range []string{"templates/b.yaml", "charts/sub/templates/c.yaml", "values.yaml"} {
		text := read(name)
		for what, content := range map[string]string{"empty": "", "white space": " \n\r\n"} {
			write(t, m, name, content)
			refused(name+" is "+what, name+" of the chart in "+m.Dir+" is empty, but revision 1 was made with its content; restore it, or remove the file")
		}
		write(t, m, name, text)
		f.apply(m, Skipped, 1)
	}
	for _, dir := range []string{"templates", "charts/sub/templates"} {
		away := filepath.Join(t.TempDir(), "away")
		must(t, os.Rename(filepath.Join(m.Dir, dir), away))
		refused(dir+" is gone", dir+"/ of the chart in "+m.Dir+" has no files, but revision 1 was made with some")
		write(t, m, dir+"/.hidden", "")
		refused(dir+" is empty", dir+"/ of the chart in "+m.Dir+" has no files, but revision 1 was made with some")
		must(t, os.RemoveAll(filepath.Join(m.Dir, dir)))
		must(t, os.Rename(away, filepath.Join(m.Dir, dir)))
		f.apply(m, Skipped, 1)
	}
	f.kept("", "emptied-a", "emptied-b", "emptied-c")
	for _, name := range []string{"templates/b.yaml", "ci"} {
		must(t, os.RemoveAll(filepath.Join(m.Dir, name)))
	}
	f.restart()
	f.apply(m, Upgraded, 2)
	f.gone("the object of a template that was removed is still there", "emptied-b")
	must(t, os.RemoveAll(filepath.Join(m.Dir, "charts")))
	write(t, m, "Chart.yaml", "apiVersion: v2\nname: emptied\nversion: 1.0.0\n")
	f.apply(m, Upgraded, 3)
	f.gone("the object of a subchart that was removed is still there", "emptied-c")
}

// P8: a link to nothing in a chart is no file that was removed.
func TestApplyLinkToNothing(t *testing.T) {
	f := start(t)
	for _, metadata := range []string{"", "-- Chart.yaml --\n{apiVersion: v2, name: linked, version: 1.0.0}\n"} {
		m := moduleOf(t, "linked", metadata+"-- templates/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: linked-a}}\n")
		shared := filepath.Join(t.TempDir(), "b.yaml")
		must(t, os.WriteFile(shared, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: linked-b}}"), 0o600))
		must(t, os.Symlink(shared, filepath.Join(m.Dir, "templates", "b.yaml")))
		f.apply(m, Installed, 1)
		must(t, os.Remove(shared))
		f.restart()
		if err := f.refuse(m, Render); !strings.Contains(err.Error(), "templates/b.yaml") {
			t.Errorf("with %q: %v", metadata, err)
		}
		f.kept("the object of a template behind a link is gone", "linked-b")
		f.uninstall("linked", true)
	}
}
