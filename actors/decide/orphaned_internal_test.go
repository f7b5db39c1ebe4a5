package decide

import (
	"testing"

	"addon-operator/addons"
	"addon-operator/values"
)

// Objects may be taken over from a release that has no module any more, if that is certain, and no person keeps it. H7, P1, H15.
func TestOrphaned(t *testing.T) {
	reload := func() Reload {
		return Reload{
			Tree:     &addons.Tree{Modules: []addons.Module{{Name: "web", Key: "web"}}, Broken: []addons.Module{{Name: "broken", Key: "broken"}}},
			Deployed: map[string]bool{"web": true, "broken": true, "gone": true, "ignored": true},
			Ignored:  "ignored",
		}
	}
	for release, want := range map[string]bool{"web": false, "broken": false, "gone": true, "ignored": false, "never": false} {
		if got := reload().Orphaned(release); got != want {
			t.Errorf("%s: %t, want %t", release, got, want)
		}
	}
	empty, maintained := reload(), reload()
	empty.Tree.Empty = []string{"/modules"}
	maintained.Maintenance = map[string]string{values.MaintenanceKey("gone"): values.Suspended}
	if empty.Orphaned("gone") || maintained.Orphaned("gone") {
		t.Error("a release is taken from that may be of a module, or that is under maintenance")
	}
}
