package converge

import (
	"context"
	"testing"

	"addon-operator/actors/decide"
	"addon-operator/actors/shared/sharedtest"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// F10: a reload whose last step ends when the next one was asked for already has not
// converged: the operator is not ready, and the new values are not taken for applied ones.
func TestOvertakenAtTheLastStep(t *testing.T) {
	p := sharedtest.NewProgram(nil)
	pid := sharedtest.Spawn(t, p, work.ConvergePath, assembled(context.Background(), p, &catalog{program: p, log: p.Log, Reload: decide.Reload{Tree: &addons.Tree{}}}, &reloads{program: p, log: p.Log, number: 1, phase: reloading}))
	p.Send(pid, messages.ConfigChanged{Global: true})
	sharedtest.Ask[messages.TaskDone](t, p, pid, messages.ExecuteTask{Task: messages.Task{Owner: messages.Converge, Work: messages.FinishReload{}, Reload: 1}})
	sharedtest.Ask[work.Discovery](t, p, pid, work.GetDiscovery{})
	if s, _ := p.Inspector.Status(work.ConvergePath).(view.ConvergeStatus); s.Ready || s.Phase != view.ConvergeReloading {
		t.Errorf("it says: %s", s)
	}
}
