package actors

import (
	"context"
	"testing"

	"addon-operator/addons"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// F10: a reload whose last step ends when the next one was asked for already has not
// converged: the operator is not ready, and the new values are not taken for applied ones.
func TestOvertakenAtTheLastStep(t *testing.T) {
	p := testProgram(nil)
	c := newConverge(context.Background(), p, &boot{tree: &addons.Tree{}})
	c.number, c.phase = 1, reloading
	pid := spawnActor(t, p, convergePath, c)
	p.Send(pid, messages.ConfigChanged{Global: true})
	askActor[messages.TaskDone](t, p, pid, messages.ExecuteTask{Task: messages.Task{Owner: messages.Converge, Work: messages.FinishReload{}, Reload: 1}})
	askActor[discovery](t, p, pid, getDiscovery{})
	if s, _ := p.Inspector.Status(convergePath).(view.ConvergeStatus); s.Ready || s.Phase != view.ConvergeReloading {
		t.Errorf("it says: %s", s)
	}
}
