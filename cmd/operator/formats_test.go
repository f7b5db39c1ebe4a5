package operator

import (
	"slices"
	"strings"
	"testing"
)

// spelled adds what a command line needs beyond its words, in the fixture of the tests.
func spelled(command string) string {
	switch command {
	case "why", "logs", "module values", "module config", "module patches", "module render", "module snapshots", "values explain", "module drift":
		return command + " ingress"
	case "hook snapshots":
		return command + " 010-ingress/hooks/h.sh"
	case "config set":
		return command + " log.level debug"
	}
	return command
}

// Issue 8: what looks into the running operator is printed as a table, as JSON and as YAML,
// and never with a secret that was not asked for (J4, J5).
func TestEveryCommandInEveryFormat(t *testing.T) {
	r := startRunning(t)
	lines := []string{"--dump-actors"}
	notAsked := []string{"raw", "values set", "values unset"} // a page as it is, and what writes
	for _, cmd := range leaves(program(nil)) {
		if name := strings.TrimPrefix(cmd.CommandPath(), "addon-operator "); !slices.Contains(notAsked, name) {
			lines = append(lines, spelled(name))
		}
	}
	for _, command := range []string{"queue list", "module list", "global values", "hook list", "status", "why ingress", "values explain ingress"} {
		if !slices.Contains(lines, command) {
			t.Errorf("%s is not among %q", command, lines)
		}
	}
	for _, line := range lines {
		for _, format := range []string{"text", "table", "json", "yaml"} {
			out, err := r.run(append(strings.Fields(line), "-o", format)...)
			if err != nil || out == "" {
				t.Errorf("%s -o %s: %q, %v", line, format, out, err)
				continue
			}
			if err := parses(format, out); err != nil {
				t.Errorf("%s -o %s: %v\n%s", line, format, err, out)
			}
			if strings.Contains(out, "s3cret") {
				t.Errorf("%s -o %s shows a secret:\n%s", line, format, out)
			}
		}
	}
}
