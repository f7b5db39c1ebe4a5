package actors_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"addon-operator/actors"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/testkit/golden"
	"addon-operator/values"
)

func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// module is one that is ready, with what a test changes of it.
func module(change func(*view.Module)) view.Module {
	m := view.Module{Name: "dns", State: "ready", On: "dnsEnabled is true in the ConfigMap"}
	m.Phase, m.Order, m.Hooks, m.Release, m.Enabled, m.Version, m.AppVersion = view.Ready, 10, 2, 3, true, "1.2.0", "v5"
	m.LastRun = &view.ModuleRun{
		Began: noon().Add(-time.Minute), Release: "upgraded to revision 3: values have changed",
		Causes: []messages.Cause{{Activation: messages.ByConfigMap, Detail: "resourceVersion 7"}},
	}
	m.Health = &view.Health{Objects: 4, Current: 4}
	change(&m)
	return m
}

func health(objects ...view.ObjectHealth) *view.Health {
	return &view.Health{Objects: 4, Current: 4 - len(objects), Unhealthy: objects}
}

// at are the facts at a time, without secrets.
func at(now time.Time) actors.Facts {
	return actors.Facts{Now: now, Hide: func(text string) string { return text }}
}

// J14: what people are shown of a module becomes a status, and kstatus computes from it how the module is doing.
func TestStatus(t *testing.T) {
	failing := func(task, hook string, attempts int) view.FailingTask {
		return view.FailingTask{Task: task, Hook: hook, Attempts: attempts, RetryAt: noon(), Error: "it printed: swordfish", Public: "no\nanswer swordfish"}
	}
	since := noon().Add(-2 * time.Minute)
	cases := []struct {
		name   string
		module view.Module
		want   status.Status
	}{
		{"ready", module(func(*view.Module) {}), status.CurrentStatus},
		{"a run fails once", module(func(m *view.Module) {
			m.State, m.Phase, m.Failing = "running", view.Running, []view.FailingTask{failing("RunHook x.sh", "x.sh", 9), failing("RunModule", "", 1)}
		}), status.InProgressStatus},
		{"a run keeps failing", module(func(m *view.Module) {
			m.State, m.Phase, m.Failing = "running", view.Running, []view.FailingTask{failing("RunModule", "", 4)}
		}), status.FailedStatus},
		{"a hook keeps failing", module(func(m *view.Module) { m.Failing = []view.FailingTask{failing("RunHook x.sh", "x.sh", 4)} }), status.FailedStatus},
		{"objects are on their way", module(func(m *view.Module) {
			m.State = view.Progressing
			m.Health = health(view.ObjectHealth{Object: "Deployment ns/dns", State: "InProgress", Message: "Available: 0/1", Since: since})
		}), status.InProgressStatus},
		{"an object has failed", module(func(m *view.Module) {
			m.State = view.Unhealthy
			m.Health = health(view.ObjectHealth{Object: "Job ns/dns", State: "Failed", Message: "no more", Since: since})
		}), status.FailedStatus},
		{"its upgrade is held", module(func(m *view.Module) {
			m.State, m.ModuleStatus.Held, m.Problems = view.Held, "the upgrade is held back", []string{"the upgrade is held back"}
		}), status.FailedStatus},
		{"it is suspended", module(func(m *view.Module) { m.State, m.Phase, m.Maintenance = "suspended", view.Suspended, values.Suspended }), status.InProgressStatus},
		{"it is disabled", view.Module{Name: "dns", State: "disabled", Off: "dnsEnabled is false in the ConfigMap", ModuleStatus: view.ModuleStatus{Phase: view.Disabled}}, status.CurrentStatus},
		{"nothing is known yet", view.Module{Name: "dns", State: "disabled", ModuleStatus: view.ModuleStatus{Phase: view.Disabled}}, status.InProgressStatus},
		{"it is being deleted", module(func(m *view.Module) {
			m.State, m.Phase, m.LastRun, m.Health = "deleting", view.Deleting, nil, nil
		}), status.InProgressStatus},
		{"a hook hangs", module(func(m *view.Module) {
			m.Hanging = []view.RunningHook{{Module: "dns", Hook: "slow.sh", Began: noon()}}
		}), status.InProgressStatus},
		{"ready, and something to look at", module(func(m *view.Module) {
			m.Problems, m.Maintenance = []string{"values.yaml: a default does not fit"}, values.NoResourceReconciliation
			m.Drift = 1
		}), status.CurrentStatus},
	}
	var statuses strings.Builder
	for _, c := range cases {
		facts := actors.Facts{Object: kube.ModuleObject{Generation: 2}, Namespace: "ns", Now: noon(), Hide: func(s string) string { return strings.ReplaceAll(s, "swordfish", "***") }}
		s := actors.Status(c.module, facts)
		text, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&statuses, "-- %s: %s --\n%s", c.name, c.want, text)
		if got := computed(t, s); got != c.want {
			t.Errorf("%s: kstatus says %s, want %s", c.name, got, c.want)
		}
		facts.Object.Status, facts.Now = s, noon().Add(time.Hour)
		if again := actors.Status(c.module, facts); again.String() != s.String() && c.module.State != view.Progressing {
			t.Errorf("%s: what has not changed is written again:\n%s\n%s", c.name, s, again)
		}
	}
	golden.File(t, "testdata/status.golden", statuses.String())
	if strings.Contains(statuses.String(), "swordfish") {
		t.Error("a secret is shown")
	}
}

// computed is what kstatus says of an object with this status.
func computed(t *testing.T, s kube.ModuleStatus) status.Status {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"apiVersion": "addon-operator.io/v1alpha1", "kind": "Module", "metadata": map[string]any{"name": "dns", "generation": 2}, "status": s,
	})
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	result, err := status.Compute(object)
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

// A condition keeps the time of its last transition, and gets a new one with the next.
func TestTransitions(t *testing.T) {
	facts := at(noon())
	facts.Object.Status = actors.Status(module(func(*view.Module) {}), facts)
	facts.Now = noon().Add(time.Hour)
	runs := module(func(m *view.Module) { m.State, m.Phase = "running", view.Running })
	for _, c := range actors.Status(runs, facts).Conditions {
		want := noon()
		if c.Type != actors.Stalled {
			want = facts.Now
		}
		if !c.LastTransitionTime.Time.Equal(want) {
			t.Errorf("%s has changed at %s, want %s", c.Type, c.LastTransitionTime, want)
		}
	}
}

// J15: a run that finds the release as it should be writes no object; one that a person has waited for does.
func TestRunWithoutNews(t *testing.T) {
	installed := actors.Status(module(func(*view.Module) {}), at(noon()))
	again := module(func(m *view.Module) {
		m.LastRun = &view.ModuleRun{Began: noon().Add(time.Hour), Release: "skipped, revision 1: nothing to do", Unchanged: true, Causes: m.LastRun.Causes}
	})
	facts := at(noon().Add(time.Hour))
	facts.Object.Status = installed
	if got := actors.Status(again, facts); got.String() != installed.String() {
		t.Errorf("the status is another one:\n%s\nbefore:\n%s", got, installed)
	}
	drifted := again
	drifted.Drift = 1
	facts.Object.Status = actors.Status(drifted, facts)
	if got := facts.Object.Status; got.LastRun.Result != installed.LastRun.Result || !strings.Contains(got.String(), "1 object changed by others") {
		t.Errorf("drift after a run without news is not shown: %s", got)
	}
	if got := actors.Status(again, facts); got.String() != installed.String() {
		t.Errorf("the drift has ended, and is still shown: %s", got)
	}
	other := again
	other.Release = 4
	if got := actors.Status(other, facts); got.LastRun.Result != again.LastRun.Release {
		t.Errorf("a revision that another client has made is not shown: %s", got)
	}
	facts.Object.Status.LastRun = kube.ModuleLastRun{} // as it is when a request has just been handled
	if got := actors.Status(again, facts); got.LastRun.Result != again.LastRun.Release {
		t.Errorf("the run that was requested is not shown: %s", got)
	}
}

// P5: whatever a module says, its status stays small, and is valid text.
func TestStatusIsBounded(t *testing.T) {
	long := strings.Repeat("ä\x1b[1m ", 10_000)
	huge := module(func(m *view.Module) {
		m.State, m.On, m.Version, m.AppVersion = view.Unhealthy, long, long, long
		m.LastRun.Release, m.LastRun.Causes[0].Detail = long, long
		m.Health = &view.Health{Objects: 5000}
		for range 1000 {
			m.Health.Unhealthy = append(m.Health.Unhealthy, view.ObjectHealth{Object: long, State: "Failed", Message: long})
			m.Failing = append(m.Failing, view.FailingTask{Task: long, Hook: long, Public: long})
			m.Hanging = append(m.Hanging, view.RunningHook{Hook: long})
			m.Problems = append(m.Problems, long)
		}
	})
	text := actors.Status(huge, at(noon())).String()
	const most = 10_000
	if len(text) > most {
		t.Errorf("a status takes %d bytes, want at most %d", len(text), most)
	}
	if strings.Contains(text, "�") || strings.Contains(text, `\u001b`) {
		t.Error("the text is cut within a character, or commands a terminal")
	}
}

// J14: conditions of other writers stay theirs; what the operator would apply does not have them.
func TestConditionsOfOthersAreNotAdopted(t *testing.T) {
	facts := at(noon())
	facts.Object.Status.Conditions = []metav1.Condition{{Type: "Approved", Status: "True", Reason: "Theirs"}, {Type: actors.Ready, Status: "True", Reason: "Old"}}
	var got []string
	for _, c := range actors.Status(module(func(*view.Module) {}), facts).Conditions {
		got = append(got, c.Type)
	}
	if want := "Ready Reconciling Stalled"; strings.Join(got, " ") != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
}

// D41: a secret is masked before a text is cut, wherever it stands.
func TestSecretsAreMaskedBeforeTextsAreCut(t *testing.T) {
	const secret = "swordfish-of-some-length"
	hide := func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	for _, before := range []int{980, 16<<10 - 10} {
		text := strings.Repeat(" ", before-1) + "x" + secret // blanks count when it is cut, and are not shown
		m := module(func(m *view.Module) { m.Problems = []string{text} })
		if shown := actors.Status(m, actors.Facts{Now: noon(), Hide: hide}).String(); strings.Contains(shown, "swordfi") {
			t.Errorf("a secret behind %d bytes is shown in part: %.300s", before, shown)
		}
	}
}
