package e2e

import (
	"strings"
	"testing"
)

// A start-up that cannot go well is refused with one clear error: exit code 1, or 2 for a
// mistake in options. The error names what to touch and how to fix it. What each room refuses
// is tested there. Issue 2, "Bad input"; A19.
func TestStartUpIsRefused(t *testing.T) {
	t.Parallel()
	for situation, c := range map[string]struct {
		file, content string   // written over a fixture that is in order
		env           []string // DIR stands for the directory of the fixture
		code          int
		last          bool // the last line says it: after a wrong option one that refers to the help follows
		says          []string
	}{
		"no modules directory": {
			env: []string{"MODULES_DIR=DIR/nowhere"}, code: 1, last: true,
			says: []string{"modules directory DIR/nowhere does not exist", "create it or set MODULES_DIR"},
		},
		"a section of the wrong type": {
			file: "modules/010-web/values.yaml", content: "web: 5\nwebEnabled: perhaps\n", code: 1,
			says: []string{"values file 010-web/values.yaml", "key web:", "must be a map or a list", "key webEnabled:", "must be true or false"},
		},
		"a global hook that fails": {
			file: "global-hooks/hooks/g.sh", content: "#!/usr/bin/env bash\necho 'no such cluster' >&2; exit 3\n", code: 1,
			says: []string{"hook g.sh", "--config", "exit code 3", "no such cluster"},
		},
		"an option that is no number": {
			env: []string{"HELM_HISTORY_MAX=many"}, code: 2,
			says: []string{"HELM_HISTORY_MAX", "many", "--help"},
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
