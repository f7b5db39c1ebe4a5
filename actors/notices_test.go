package actors_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"addon-operator/actors"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/values"
)

// Events and objects of kind Module name what failed and why, and hold neither values nor the output of hooks. J9, J14
func TestForEverybody(t *testing.T) {
	for want, err := range map[string]error{
		"hook 010-a/hooks/h.sh failed with exit code 3; the log":           &hooks.ExitError{Hook: "010-a/hooks/h.sh", Code: 3, Stderr: "hunter2"},
		"hook h was ended by signal 9 (killed); the log":                   &hooks.ExitError{Hook: "h", Code: -1, Signal: syscall.SIGKILL, Stderr: "hunter2"},
		"hook h took longer than 1s (settings.timeout); the log":           &hooks.TimeoutError{Hook: "h", Limit: time.Second, Source: "settings.timeout", Stderr: "hunter2"},
		"values of m do not fit s.yaml: m.conn: must be at most 3; ":       &values.ValidationError{Section: "m", Schema: "s.yaml", Violations: []values.Violation{{Path: "m.conn", Message: `must be at most 3, is "hunter2"`, Public: "must be at most 3"}}},
		"release m: ConfigMap a belongs to release n":                      &helm.Error{Kind: helm.Foreign, Release: "m", Err: errors.New("ConfigMap a belongs to release n")},
		"the log and 'addon-operator queue list' have the details":         errors.New("hunter2"),
		"hook h of a task failed with exit code 1; the log and 'addon-ope": fmt.Errorf("hunter2: %w", &hooks.ExitError{Hook: "h of a task", Code: 1}),
	} {
		if got := actors.ForEverybody(err); !strings.HasPrefix(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
