package view

import (
	"strings"
	"testing"
	"time"

	"addon-operator/messages"
	"addon-operator/values"
)

// The worst that is true of a module is its verdict. Each row has all that is true of the rows below it, so that the
// order is tested, too.
func TestVerdict(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)
	m := Module{Name: "web", State: string(Ready), ModuleStatus: ModuleStatus{Phase: Ready, Enabled: true, LastRun: &ModuleRun{Release: "installed, revision 1: values"}}}
	change := func(change func(m *Module)) func() { return func() { change(&m) } }
	steps := []struct {
		change func()
		class  Class
		reason string
		says   string
		next   string
	}{
		{change(func(*Module) {}), ClassReady, Succeeded, "installed, revision 1: values", ""},
		{change(func(m *Module) { m.Problems = []string{"values.yaml: not YAML"} }), ClassProblem, Succeeded, "values.yaml: not YAML", ""},
		{change(func(m *Module) { m.State, m.Phase = "running", Running }), ClassBusy, InProgress, "", ""},
		{change(func(m *Module) {
			m.State, m.Phase = Progressing, Ready
			m.Health = &Health{Objects: 2, Current: 1, Unhealthy: []ObjectHealth{{Object: "Deployment a/b", State: ObjectInProgress, Message: "exceeded quota", Since: noon}}}
		}), ClassBusy, InProgress, "1 of 2 objects are current: Deployment a/b has been InProgress since 12:00:00: exceeded quota", "kubectl -n a describe deployment b"},
		{change(func(m *Module) {
			m.waits = "its run (ConfigMap: x in ConfigMap) waits in queue main"
		}), ClassPending, ChangePending, "its run (ConfigMap: x in ConfigMap) waits in queue main", ""},
		{change(func(m *Module) { m.State, m.Phase = string(Waiting), Waiting }), ClassPending, ChangePending, "waits in queue main", ""},
		{change(func(m *Module) { m.State, m.Phase = Unhealthy, Ready }), ClassUnhealthy, HealthCheckFailed, "exceeded quota", "kubectl -n a describe"},
		{change(func(m *Module) { m.State, m.Held = Held, "the upgrade is held" }), ClassHeld, UpgradeHeld, "the upgrade is held", ""},
		{change(func(m *Module) { m.State, m.Phase, m.Off = "disabled", Disabled, "no flag" }), ClassProblem, Off, "values.yaml: not YAML", ""},
		{change(func(m *Module) { m.Problems = nil }), ClassOff, Off, "disabled: no flag", ""},
		{change(func(m *Module) { m.Off = Undecided("its file") }), ClassBusy, InProgress, "its flag is on", ""},
		{change(func(m *Module) { m.Off = discoveryFails + "no" }), ClassFailing, ProgressingWithRetry, "the discovery fails: no", ""},
		{change(func(m *Module) { m.Off = "" }), ClassBusy, InProgress, "not yet known", ""},
		{change(func(m *Module) { m.Off, m.PurgeHeld = "its directory is gone", &HeldPurge{Confirm: "kubectl annotate"} }), ClassHeld, PurgeHeld, "its directory is gone, and the purge", "kubectl annotate"},
		{change(func(m *Module) {
			m.Failing = []FailingTask{{Task: "RunHook h.sh", Hook: "h.sh", Attempts: 4, Error: "exit code 1", RetryAt: noon}}
		}), ClassFailing, HookFailed,
			"RunHook h.sh has failed 4 times, next attempt at 12:00:00: exit code 1", "addon-operator logs web h.sh"},
		{change(func(m *Module) {
			m.Failing = append(m.Failing, FailingTask{Task: "RunModule", Attempts: 1, Error: "no"})
		}), ClassFailing, ProgressingWithRetry,
			"RunModule has failed 1 time: no", "addon-operator module render web --diff"},
		{change(func(m *Module) { m.Failing[1].Attempts, m.Failing[1].Error = 4, "hook h.sh: exit code 1" }), ClassFailing, RunFailed, "RunModule has failed 4 times", "addon-operator logs web"},
		{change(func(m *Module) { m.Hanging = []RunningHook{{Module: "web", Hook: "slow.sh", Began: noon}} }), ClassFailing, HookHangs,
			"hook slow.sh hangs: it has been running since 12:00:00", "values set webEnabled false"},
		{change(func(m *Module) { m.Maintenance = values.Suspended }), ClassSuspended, BySuspend, "spec.suspend is true", ""},
	}
	for _, s := range steps {
		s.change()
		v := Judge(m)
		if v.Class != s.class || v.Reason != s.reason || !strings.Contains(v.Message, s.says) || !strings.Contains(v.Next, s.next) || (v.Next == "") != (s.next == "") {
			t.Errorf("got %+v, want %s %s %q, next %q", v, s.class, s.reason, s.says, s.next)
		}
	}
}

// The run of a module that waits in a queue is known from what queues publish; a group that has begun is not.
func TestQueuedRunsArePending(t *testing.T) {
	broken := messages.Task{Owner: "broken", Work: messages.RunModule{}}
	statuses := map[string]any{
		"op/module/broken": ModuleStatus{Phase: Running, Failing: []FailingTask{{Task: "RunModule", Attempts: 3}}},
		"op/module/web":    ModuleStatus{Phase: Ready},
		"op/module/idle":   ModuleStatus{Phase: Ready},
		"op/queue/main":    QueueStatus{Length: 2, InProgress: true, Head: []messages.Task{broken, {Owner: "web", Work: messages.RunModule{}, Cause: messages.Cause{Activation: messages.ByHand}}}},
	}
	got := map[string]string{}
	for _, m := range Modules(statuses, nil, nil, time.Now()) {
		got[m.Name] = m.State + ": " + m.Verdict.Message
	}
	for name, want := range map[string]string{
		"web":    "pending: its run (ByHand) waits in queue main behind RunModule of broken",
		"idle":   "ready: the last run has succeeded",
		"broken": "running: RunModule has failed 3 times: ",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

// Each module counts once, by its verdict; the worst class comes first. Converged means that all are as they should
// be.
func TestHeadlineAndStage(t *testing.T) {
	of := func(classes ...Class) (list []Module) {
		for _, c := range classes {
			list = append(list, Module{Verdict: Verdict{Class: c}})
		}
		return list
	}
	idle := ConvergeStatus{Phase: ConvergeIdle, Ready: true}
	held := idle
	held.HeldPurge = &HeldPurge{}
	failing := GlobalStatus{Failing: []FailingTask{{}}}
	const not = "the last reload of all modules is over, but not all of them are ready"
	for _, c := range []struct {
		list            []Module
		global          GlobalStatus
		converge        ConvergeStatus
		headline, stage string
	}{
		{nil, GlobalStatus{}, ConvergeStatus{Waits: "for the API server"}, "no modules", "starting: for the API server"},
		{of(ClassOff, ClassReady), GlobalStatus{}, idle, "1 ready, 1 off", "converged"},
		{of(ClassProblem, ClassSuspended), GlobalStatus{}, held, "1 with a problem, 1 suspended", "converged, but a purge is held back"},
		{of(ClassReady, ClassFailing, ClassReady), GlobalStatus{}, idle, "1 failing, 2 ready", not},
		{of(ClassPending), GlobalStatus{}, idle, "1 pending", not},
		{of(ClassReady), failing, idle, "global hooks failing, 1 ready", not},
		{of(ClassReady), GlobalStatus{}, ConvergeStatus{Phase: ConvergeReloading}, "1 ready", "reloading all modules, 1 task to do"},
	} {
		if headline, stage := Headline(c.list, c.global), Stage(c.list, c.global, c.converge, 1); headline != c.headline || stage != c.stage {
			t.Errorf("got %q, %q, want %q, %q", headline, stage, c.headline, c.stage)
		}
	}
}

// What a person should do about what belongs to no module.
func TestNextOfTheOthers(t *testing.T) {
	for _, c := range [][2]string{
		{FailingTask{Hook: "g.sh"}.Next("global"), "addon-operator logs global g.sh"},
		{describe("PersistentVolume a"), "kubectl describe persistentvolume a"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}
