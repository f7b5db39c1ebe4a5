package helm

import (
	"fmt"
	"slices"
	"testing"
)

// operationsOf applies a module and returns what Began was told, failures marked.
func (f *fixture) operationsOf(m Module) []string {
	f.Helper()
	f.caughtUp()
	var ended []string
	m.Began = func(o Operation) func(error) {
		return func(err error) { ended = append(ended, fmt.Sprint(o, map[bool]string{true: " failed"}[err != nil])) }
	}
	_, err := f.client.Apply(f.Context(), m)
	if failed := slices.ContainsFunc(ended, func(o string) bool { return o[len(o)-1] == 'd' }); failed != (err != nil) {
		f.Errorf("operations %q, but Apply says %v", ended, err)
	}
	return ended
}

// I2: the operations that helm_operation_seconds measures.
func TestOperationsAreTold(t *testing.T) {
	f := start(t)
	m := module(t, "simple").with("text", "one")
	wants := func(what string, m Module, want ...string) {
		t.Helper()
		if got := f.operationsOf(m); !slices.Equal(got, want) {
			t.Errorf("%s: told %q, want %q", what, got, want)
		}
	}
	wants("install", m, "template", "check-upgrade", "upgrade")
	wants("nothing to do", m, "template", "check-upgrade")
	m = m.with("text", "two")
	wants("upgrade", m, "template", "check-upgrade", "upgrade")
	f.setStatus("simple", 2, "pending-upgrade")
	f.restart()
	wants("an interrupted revision", m, "template", "check-upgrade", "fallback", "upgrade")
	if got := f.apply(m, Skipped, 3); got.ChartVersion == "" {
		t.Error("the version of the chart is not told")
	}
	write(t, m, "templates/broken.yaml", "a: {{ .Values.none.deeper }}\n")
	wants("a chart that does not render", m, "template failed")
}
