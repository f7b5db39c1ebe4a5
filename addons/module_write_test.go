package addons

import (
	"os"
	"path/filepath"
	"testing"
)

// What is written is read back; A21.
func TestModuleFileIsWritten(t *testing.T) {
	for want, f := range map[string]ModuleFile{
		"":                 {},
		"namespace: web\n": {Namespace: "web"},
		"chart:\n  name: podinfo\n  version: \"6.1\"\nnamespace: \"123\"\n": {
			Namespace: "123", Chart: ChartSource{Name: "podinfo", Version: "6.1"},
		},
		"chart:\n  digest: sha256:abc\n  name: podinfo\n  repository: oci://example.com/charts\n  version: 6.1.0\n": {
			Chart: ChartSource{Repository: "oci://example.com/charts", Name: "podinfo", Version: "6.1.0", Digest: "sha256:abc"},
		},
	} {
		dir := t.TempDir()
		if err := f.Write(dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "module.yaml"))
		if string(text) != want || (err != nil) != (want == "") {
			t.Errorf("%+v is written as\n%s\n(%v), want\n%s", f, text, err, want)
		}
		if got, err := ReadModuleFile(dir); err != nil || got != f {
			t.Errorf("read back: %+v, %v; want %+v", got, err, f)
		}
	}
}
