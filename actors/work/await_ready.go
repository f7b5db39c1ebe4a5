package work

import (
	"time"

	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// AwaitReady asks a module what keeps it from being ready. The module answers as soon as that
// differs from Known. A later question of the same waiter replaces one that was not answered.
type AwaitReady struct{ Waiter, Known string }

// Readiness answers AwaitReady; with an empty Reason the module is ready.
type Readiness struct{ Reason string }

// awaitReady waits until the modules that module.yaml names are ready (H26). Two kinds of runs wait
// for none: a heal, which brings back what was there before, and one under maintenance, which
// changes nothing.
func (j ModuleJob) awaitReady(run *supervisor.Run) error {
	began, waited := time.Now(), false
	if j.Task.Urgent || j.Known.Maintenance != "" {
		return nil
	}
	for _, name := range j.Module.Awaits {
		run.Step("wait for module %s", name)
		for known := "not asked yet"; ; {
			got, err := supervisor.Ask[Readiness](run, OwnerPath(name), AwaitReady{j.Owner, known})
			if err != nil {
				return err
			}
			if got.Reason == "" {
				break
			}
			known, waited = got.Reason, true
			run.Tell(OwnerPath(j.Owner), Waits{j.Task.ID, &view.Wait{Module: name, Message: known, Since: began}})
		}
	}
	if !waited {
		return nil
	}
	run.Tell(OwnerPath(j.Owner), Waits{j.Task.ID, nil})
	return j.ask(run, HandOver{}) // that may have taken a while
}
