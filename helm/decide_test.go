package helm

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
)

// history makes a state from "status" or "status=checksum" words, oldest first.
func history(words ...string) State {
	s := State{Release: "m"}
	for i, w := range words {
		status, checksum, _ := strings.Cut(w, "=")
		s.Revisions = append(s.Revisions, Revision{Version: i + 1, Status: release.Status(status), Checksum: checksum})
	}
	return s
}

// H5, H8, H9: the table is the specification of Decide.
func TestDecide(t *testing.T) {
	gone := []Object{{Name: "a"}, {Name: "b"}}
	gone[0].GVK.Kind, gone[1].GVK.Kind = "ConfigMap", "Secret"
	tests := []struct {
		name   string
		state  State
		absent []Object
		step   Step
		reason string
	}{
		{"no release (H5.1)", history(), nil, StepInstall, "no release"},
		{"no release, objects absent", history(), gone, StepInstall, "no release"},
		{"same checksum, all there (H5.5)", history("deployed=new"), nil, StepSkip, "unchanged"},
		{"same checksum after other revisions", history("superseded=old", "failed=new", "deployed=new"), nil, StepSkip, "unchanged"},
		{"other checksum (H5.3)", history("deployed=old"), nil, StepUpgrade, "changed"},
		{"other checksum and absent", history("deployed=old"), gone, StepUpgrade, "changed"},
		{"no checksum: made by hand", history("deployed=new", "deployed"), nil, StepUpgrade, "no checksum"},
		{"one object absent (H5.4)", history("deployed=new"), gone[:1], StepUpgrade, "ConfigMap a is absent"},
		{"two objects absent (H5.4)", history("deployed=new"), gone, StepUpgrade, "1 more"},
		{"failed with the same checksum (H5.2)", history("deployed=new", "failed=new"), nil, StepUpgrade, "revision 2 failed"},
		{"all failed", history("failed=new", "failed=new"), nil, StepUpgrade, "failed"},
		{"only revision failed (H9)", history("failed=new"), nil, StepReinstall, "only revision (1) failed"},
		{"superseded without successor", history("superseded=new"), nil, StepUpgrade, "successor is gone"},
		{"kept history of an uninstalled release", history("superseded=new", "uninstalled=new"), nil, StepInstall, "uninstalled"},
		{"killed in first install (H8)", history("pending-install=new"), nil, StepUnlock, "pending-install"},
		{"killed in upgrade (H8)", history("deployed=new", "pending-upgrade=new"), nil, StepUnlock, "pending-upgrade"},
		{"killed in rollback (H8)", history("superseded=old", "deployed=new", "pending-rollback=old"), nil, StepUnlock, "pending-rollback"},
		{"killed in uninstall", history("uninstalling=new"), nil, StepUnlock, "uninstalling"},
		{"unknown status", history("unknown=new"), nil, StepUnlock, "unknown"},
		{"no status at all", history("=new"), nil, StepUnlock, `""`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			step, reason := Decide(tt.state, "new", tt.absent)
			if step != tt.step {
				t.Errorf("step = %s (%s), want %s", step, reason, tt.step)
			}
			if !strings.Contains(reason, tt.reason) {
				t.Errorf("reason = %q, want it to contain %q", reason, tt.reason)
			}
		})
	}
}
