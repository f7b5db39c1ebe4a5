package e2e

import (
	"net"
	"strings"
	"testing"
)

// A start-up that cannot go well is refused with one clear error: exit code 1, or 2 for a
// mistake in options. The error names what to touch and how to fix it. Issue 2, "Bad
// input"; B7, B8, A6, A19, C6–C8, D30, D36, H15.
func TestStartUpIsRefused(t *testing.T) {
	t.Parallel()
	const script = "#!/usr/bin/env bash\n"
	for situation, c := range map[string]struct {
		file, content string   // written over a fixture that is in order
		env           []string // DIR stands for the directory of the fixture
		code          int
		last          bool // the last line says it: after a wrong option one that refers to the help follows
		says          []string
	}{
		"no namespace": {
			env: []string{"ADDON_OPERATOR_NAMESPACE="}, code: 1, last: true,
			says: []string{"no namespace is given", "ADDON_OPERATOR_NAMESPACE", "--namespace"},
		},
		"no modules directory": {
			env: []string{"MODULES_DIR=DIR/nowhere"}, code: 1, last: true,
			says: []string{"modules directory DIR/nowhere does not exist", "create it or set MODULES_DIR"},
		},
		"one of two modules directories is a file": {
			file: "modules.txt", env: []string{"MODULES_DIR=DIR/modules:DIR/modules.txt"}, code: 1,
			says: []string{"DIR/modules.txt is not a directory", "MODULES_DIR"},
		},
		"no global hooks directory": {
			env: []string{"GLOBAL_HOOKS_DIR=DIR/nowhere"}, code: 1, last: true,
			says: []string{"global hooks directory DIR/nowhere does not exist", "create it or set GLOBAL_HOOKS_DIR"},
		},
		"broken values.yaml": {
			file: "modules/values.yaml", content: "global:\n  a: 1\n a: [", code: 1,
			says: []string{"values file values.yaml: line "},
		},
		"a section of the wrong type": {
			file: "modules/010-web/values.yaml", content: "web: 5\nwebEnabled: perhaps\n", code: 1,
			says: []string{"values file 010-web/values.yaml", "key web:", "must be a map or a list", "key webEnabled:", "must be true or false"},
		},
		"an unknown maintenance mode": {
			file: "modules/010-web/values.yaml", content: "webMaintenance: Manual\n", code: 1,
			says: []string{"values file 010-web/values.yaml: key webMaintenance: there is no maintenance mode", "NoResourceReconciliation"},
		},
		"a module that is not kebab-case": {
			file: "modules/020-myModule/README.md", code: 1,
			says: []string{"module directory 020-myModule", "my-module"},
		},
		"a broken schema": {
			file: "modules/010-web/openapi/values.yaml", content: "type: objekt\n", code: 1,
			says: []string{"schema 010-web/openapi/values.yaml", "type"},
		},
		"a global hook that prints garbage": {
			file: "global-hooks/hooks/g.sh", content: script + "echo \"usage: g.sh [file]\"\n", code: 1,
			says: []string{"hook g.sh", "hook configuration", "it printed: usage: g.sh [file]"},
		},
		"a global hook that fails": {
			file: "global-hooks/hooks/g.sh", content: script + "echo 'no such cluster' >&2; exit 3\n", code: 1,
			says: []string{"hook g.sh", "--config", "exit code 3", "no such cluster"},
		},
		"a global hook with an unknown binding": {
			file: "global-hooks/hooks/g.sh", content: script + `echo '{"configVersion": "v1", "onStartap": 1, "schedule": [{"crontab": "every day"}]}'` + "\n", code: 1,
			says: []string{"hook g.sh", "onStartap", "did you mean onStartup?"},
		},
		"a global hook with a binding of modules": {
			file: "global-hooks/hooks/g.sh", content: script + `echo '{"configVersion": "v1", "beforeHelm": 1}'` + "\n", code: 1,
			says: []string{"hook g.sh", "beforeHelm", "module"},
		},
		"no such kubeconfig": {
			env: []string{"KUBECONFIG=DIR/nowhere"}, code: 1,
			says: []string{"DIR/nowhere", "kubeconfig"},
		},
		"a variable of Helm 2": {
			env: []string{"TILLER_NAMESPACE=x"}, code: 1,
			says: []string{"TILLER_NAMESPACE", "remove it"},
		},
		"an option that is no number": {
			env: []string{"HELM_HISTORY_MAX=many"}, code: 2,
			says: []string{"HELM_HISTORY_MAX", "many", "--help"},
		},
		"an unknown level of the log": {
			env: []string{"LOG_LEVEL=loud"}, code: 2,
			says: []string{"log-level", "loud", "debug, info, warn, error"},
		},
	} {
		t.Run(situation, func(t *testing.T) {
			h := newFixture(t, "web")
			if c.file != "" {
				h.write(c.file, c.content)
			}
			inside := strings.NewReplacer("DIR", h.dir, "GLOBAL_HOOKS_DIR", "GLOBAL_HOOKS_DIR", "MODULES_DIR", "MODULES_DIR")
			var env []string
			for _, variable := range c.env {
				env = append(env, inside.Replace(variable))
			}
			o := h.start(env...)
			if code := o.exit(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			lines := o.output.lines()
			if c.last {
				lines = lines[len(lines)-1:]
			}
			text := strings.Join(lines, "\n")
			for _, want := range c.says {
				expectAll(t, text, inside.Replace(want))
			}
			if got := h.revisions("web") + h.journal(); got != "" {
				t.Errorf("something was done all the same: %s", got)
			}
		})
	}
}

// The port is somebody else's.
func TestPortIsTaken(t *testing.T) {
	h := newFixture(t, "web")
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at the end of the test
	must(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	o := h.start("ADDON_OPERATOR_LISTEN_PORT=" + port)
	if code := o.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	expectAll(t, strings.Join(o.output.lines(), "\n"), "listen on 127.0.0.1:"+port, "set another address or port")
}

// All that is wrong on disk is said at once, not one thing at each start.
func TestAllMistakesAreToldAtOnce(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/values.yaml", "global: [\n")
	h.write("modules/010-web/values.yaml", "web: 5\n")
	h.write("modules/020-dns/openapi/values.yaml", "type: [\n")
	o := h.start("GLOBAL_HOOKS_DIR=" + h.path("nowhere"))
	if code := o.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	expectAll(t, strings.Join(o.output.lines(), "\n"),
		"values file values.yaml", "values file 010-web/values.yaml", "schema 020-dns/openapi/values.yaml", h.path("nowhere"))
}

// A module's values.yaml is the values file of its chart, too: keys that are not the
// module's section are the chart's business. D5 (2).
func TestOtherKeysInTheValuesOfAModule(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/values.yaml", "web: {size: small}\nreplicaCount: 1\nimage: {tag: v1}\nother-key: x\n")
	h.write("modules/010-web/templates/other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\ndata: {tag: {{ .Values.image.tag }}}\n")
	h.start().ready()
	h.awaitConfigMap("other", "tag", "v1")
}
