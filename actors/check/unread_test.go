package check_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"addon-operator/actors/check"
	"addon-operator/addons"
)

// H23: values of global that no chart and no program reads are named, and of many values the first twenty and the number of the others.
func TestUnreadGlobalValues(t *testing.T) {
	const tree = `-- modules/values.yaml --
global: {zone: a, storagClass: fast, byHook: 1, byScript: 2}
-- modules/010-web/chart/Chart.yaml --
{apiVersion: v2, name: web, version: 1.0.0}
-- modules/010-web/chart/templates/a.yaml --
{{ .Values.global.zone }}{{ .Values.global.storageClass }}{{ .Values.a }}
-- modules/020-own/templates/a.yaml --
{{ .Values.own.a }}
-- modules/020-own/enabled --
#!/bin/sh
jq .global.byScript "$VALUES_PATH" > "$MODULE_ENABLED_RESULT"
-- global-hooks/hook.sh --
#!/bin/sh
[ "$1" = --config ] && echo '{"configVersion": "v1", "onStartup": 1}' && exit
jq .global.byHook "$VALUES_PATH" > /dev/null
`
	for name, c := range map[string]struct {
		more, config string
		want         []string
	}{
		"a typo":            {"", "", []string{"the value global.storagClass has no effect: no chart of a module reads it; did you mean storageClass?"}},
		"of the ConfigMap":  {"", "regon: b", []string{"global.regon has no effect: no chart of a module reads it", "global.storagClass"}},
		"an opaque program": {"-- modules/030-py/hooks/a.py --\n#!/usr/bin/env python3\n", "", nil},
		"a broken chart":    {"-- modules/030-b/chart/Chart.yaml --\n{", "", nil},
	} {
		t.Run(name, func(t *testing.T) { wantWarnings(t, tree+c.more, map[string]string{"global": c.config}, c.want...) })
	}
	many := ""
	for i := range 23 {
		many += fmt.Sprintf("n%02d: 1\n", i)
	}
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("web.n%02d", i))
	}
	wantWarnings(t, strings.ReplaceAll(tree, "storagClass", "storageClass"), map[string]string{"web": many}, append(want, "and 3 more values have no effect")...)
}

// wantWarnings checks a ConfigMap over a tree, and wants warnings with these texts, in this order, and no others.
func wantWarnings(t *testing.T, files string, config map[string]string, want ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(files)).Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := addons.Load(addons.Dirs{Modules: []string{filepath.Join(dir, "modules")}, Global: filepath.Join(dir, "global-hooks"), UnnumberedOrder: 1})
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range config {
		if text == "" {
			delete(config, key)
		}
	}
	var log bytes.Buffer
	_ = check.ConfigMap(tree, config, nil, slog.New(slog.NewTextHandler(&log, nil)), nil) // a broken chart is another test's
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	if log.Len() == 0 {
		lines = nil
	}
	if len(lines) != len(want) {
		t.Fatalf("%d warnings, want %d:\n%s", len(lines), len(want), &log)
	}
	for i, text := range want {
		if !strings.Contains(lines[i], text) {
			t.Errorf("%s, want %s", lines[i], text)
		}
	}
}
