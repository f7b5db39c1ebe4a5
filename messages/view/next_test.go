package view_test

import (
	"testing"

	"addon-operator/messages/view"
)

// What to do next follows the worst that is wrong.
func TestNext(t *testing.T) {
	t.Parallel()
	status := func(s view.ModuleStatus) view.Module { return view.Module{Name: "web", ModuleStatus: s} }
	failing := func(hook, why string) view.Module {
		return status(view.ModuleStatus{Failing: []view.FailingTask{{Hook: hook, Error: why}}, Contested: []string{"an object"}})
	}
	for what, c := range map[string]struct{ got, want string }{
		"all is well":               {view.Module{}.Next(), ""},
		"a hook in a queue":         {failing("h.sh", "exit code 1").Next(), "addon-operator logs web h.sh"},
		"a hook in a run":           {failing("", "hook h.sh: exit code 1").Next(), "addon-operator logs web"},
		"before the first run":      {failing("", "no").Next(), "addon-operator why web"},
		"another module":            {status(view.ModuleStatus{Waiting: &view.Wait{Module: "base"}}).Next(), "addon-operator why base"},
		"a Job without a Pod":       {status(view.ModuleStatus{Waiting: &view.Wait{Object: "Job shop/a"}}).Next(), "kubectl -n shop describe job a"},
		"a Pod of a Job":            {status(view.ModuleStatus{Waiting: &view.Wait{Object: "Job shop/a", Pod: "a-1"}}).Next(), "kubectl -n shop describe pod a-1"},
		"an object of the cluster":  {status(view.ModuleStatus{Health: &view.Health{Unhealthy: []view.ObjectHealth{{Object: "PersistentVolume a"}}}}).Next(), "kubectl describe persistentvolume a"},
		"global hooks":              {view.GlobalStatus{Failing: []view.FailingTask{{Hook: "g.sh"}}}.Next(), "addon-operator logs global g.sh"},
		"a ConfigMap in force":      {view.ConfigStatus{}.Next(), ""},
		"a Secret that was deleted": {view.ConfigStatus{OnlySecret: true, Refused: "the Secret is deleted; create it again"}.Next(), ""},
		"a Secret that is refused":  {view.ConfigStatus{OnlySecret: true, Refused: "no"}.Next(), "fix the Secret; it is read again at once, and an Event with the reason Accepted follows"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
}
