package helm

import (
	"fmt"

	"helm.sh/helm/v3/pkg/release"
)

// Step is what Apply does next with a release. After a step that does not end the Apply, the next
// one is decided from the new state, so no step depends on the step that follows it.
type Step string

// Steps, in the order of the rules that choose them.
const (
	StepInstall   Step = "install"   // there is no release (H5.1), or only the records of an uninstalled one
	StepUnlock    Step = "unlock"    // the last operation was interrupted: mark its revision failed (H8)
	StepReinstall Step = "reinstall" // the only revision failed: forget it and install over what it left (H9)
	StepUpgrade   Step = "upgrade"   // the release differs from what the module wants (H5.2–H5.4)
	StepSkip      Step = "skip"      // nothing to do (H5.5)
)

// Decide chooses the next step from the state of the release, the checksum of
// the rendered manifest and the rendered objects that are absent in the
// cluster. The reason is a sentence for people. Decide is pure: its table test
// is the specification.
func Decide(state State, checksum string, absent []Object) (step Step, reason string) {
	last, ok := state.Last()
	if !ok {
		return StepInstall, "there is no release"
	}
	switch last.Status {
	case release.StatusDeployed:
		return decideDeployed(last, checksum, absent)
	case release.StatusFailed:
		if len(state.Revisions) == 1 {
			return StepReinstall, fmt.Sprintf("the only revision (%d) failed", last.Version)
		}
		return StepUpgrade, fmt.Sprintf("revision %d failed", last.Version)
	case release.StatusSuperseded:
		return StepUpgrade, fmt.Sprintf("revision %d is superseded and its successor is gone", last.Version)
	case release.StatusUninstalled:
		return StepInstall, fmt.Sprintf("revision %d was uninstalled", last.Version)
	}
	// pending-install, pending-upgrade, pending-rollback, uninstalling, and
	// whatever else was left there.
	return StepUnlock, fmt.Sprintf("revision %d was interrupted in status %q", last.Version, last.Status)
}

// decideDeployed compares a deployed revision with what is wanted. The first difference is the
// reason (H5.3, H5.4).
func decideDeployed(last Revision, checksum string, absent []Object) (Step, string) {
	switch {
	case last.Checksum == "":
		return StepUpgrade, fmt.Sprintf("revision %d has no checksum of the operator", last.Version)
	case last.Checksum != checksum:
		return StepUpgrade, "the rendered manifest changed"
	case len(absent) == 1:
		return StepUpgrade, absent[0].String() + " is absent"
	case len(absent) > 1:
		return StepUpgrade, fmt.Sprintf("%s and %d more objects are absent", absent[0], len(absent)-1)
	}
	return StepSkip, "the rendered manifest is unchanged and all its objects exist"
}
