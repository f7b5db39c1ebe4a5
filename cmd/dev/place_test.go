package dev

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"addon-operator/cmd/cli"
)

// tree is a directory of files.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree { return tree{t, t.TempDir()} }

func (f tree) path(name string) string { return filepath.Join(f.dir, name) }

func (f tree) write(name, text string) {
	f.t.Helper()
	err := os.MkdirAll(filepath.Dir(f.path(name)), 0o755)
	if err == nil {
		err = os.WriteFile(f.path(name), []byte(text), 0o644)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func configured(t *testing.T, env map[string]string) *cli.Config {
	t.Helper()
	_, c := cli.Root("v1", func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	must(t, c.Read())
	return c
}

// What the directory is decides which modules there are; nothing is written into it.
func TestDirectories(t *testing.T) {
	f := newTree(t)
	f.write("modules/010-dns/Chart.yaml", "")
	f.write("modules/values.yaml", "")
	f.write("global-hooks/a.sh", "")
	f.write("bare/010-web/Chart.yaml", "")
	for _, c := range []struct {
		dir, modules, global, only string
	}{
		{dir: ".", modules: "modules", global: "global-hooks"},
		{dir: "modules", modules: "modules", global: "global-hooks"},
		{dir: "bare", modules: "bare", global: "global-hooks"},
		{dir: "modules/010-dns", modules: "TMP/modules", global: "global-hooks", only: "dns"},
	} {
		config := configured(t, nil)
		p, err := prepare(config, []string{f.path(c.dir)})
		must(t, err)
		want := func(name string) string {
			if below, ok := strings.CutPrefix(name, "TMP/"); ok {
				return filepath.Join(p.tmp, below)
			}
			return f.path(name)
		}
		if config.ModulesDir != want(c.modules) || config.GlobalHooksDir != want(c.global) || p.only != c.only {
			t.Errorf("%q: %s, %s, %q", c.dir, config.ModulesDir, config.GlobalHooksDir, p.only)
		}
		if c.only != "" {
			entries, _ := filepath.Glob(filepath.Join(config.ModulesDir, "*"))
			if !slices.Equal(entries, []string{filepath.Join(config.ModulesDir, "010-dns"), filepath.Join(config.ModulesDir, "values.yaml")}) {
				t.Errorf("one module: %q", entries)
			}
			if text := p.real("in " + config.ModulesDir + "/values.yaml"); text != "in "+f.path("modules/values.yaml") {
				t.Errorf("people see %s", text)
			}
		}
		must(t, p.close())
		if _, err := os.Stat(p.tmp); err == nil {
			t.Error("it leaves something behind")
		}
	}
	if _, err := prepare(configured(t, nil), []string{f.path("nowhere")}); err == nil {
		t.Error("a directory that is not there is taken")
	}
}

// What is given stays.
func TestOptions(t *testing.T) {
	p, err := prepare(configured(t, nil), []string{t.TempDir()})
	must(t, err)
	defer p.close()
	own := configured(t, map[string]string{"ADDON_OPERATOR_TMP_DIR": "/own", "DEBUG_HTTP_SERVER_ADDR": "127.0.0.1:7", "ADDON_OPERATOR_MODULE_FAILURE_POLICY": "block", "LOG_TYPE": "color"})
	p.options(own)
	if now := withPorts(own); now.TmpDir != "/own" || now.DebugAddress != "127.0.0.1:7" || now.FailurePolicy != "block" || now.LogType != "json" || now.ListenAddress != "127.0.0.1" {
		t.Errorf("%+v", now)
	}
}

// A port that is taken is no reason not to start, unless it was asked for.
func TestFreePorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	n, err := strconv.Atoi(port)
	must(t, err)
	if got := freePort(n); got == n || got == 0 {
		t.Errorf("port %d, taken is %d", got, n)
	}
	if c := withPorts(configured(t, map[string]string{"ADDON_OPERATOR_LISTEN_PORT": port})); c.ListenPort != n {
		t.Errorf("port %d was asked for, it is %d", n, c.ListenPort)
	}
}
