package modules

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// directoryGone is the result of work that failed because the directory of its module
// was removed.
type directoryGone struct{ err error }

// unlessGone ends a task that failed when the directory of its module is gone. No
// further attempt could succeed, and the reload that finds out that the module is to be
// purged may wait behind this very task: the main queue would be blocked forever.
func (m *module) unlessGone(a *assignment) *assignment {
	do, succeeded, dir := a.work, a.succeeded, m.module
	a.work = func(run *supervisor.Run) (any, error) {
		result, err := do(run)
		if err != nil && dir.Gone() {
			return directoryGone{err}, nil
		}
		if changed, ok := errors.AsType[*work.FilesChanged](err); ok {
			return changed, nil
		}
		return result, err
	}
	a.succeeded = func(ctx actor.Context, result any) {
		if gone, ok := result.(directoryGone); ok {
			m.log.Warn("the directory of the module is gone: its task is dropped, all modules are discovered again", "task", a.Task.String(), "err", gone.err)
			m.forget(ctx)
			ctx.Send(m.program.PID(work.ConvergePath), messages.RequestReload{Cause: messages.By(messages.ByDirectory, m.name+" was removed", a.Task.Cause)})
			return
		}
		if changed, ok := result.(*work.FilesChanged); ok { // a retry with the same values could not succeed either
			m.log.Warn("files have changed during the task: it is dropped, all modules are discovered again", "task", a.Task.String(), "err", changed)
			m.release.runEnded(ctx)
			ctx.Send(m.program.PID(work.ConvergePath), messages.RequestReload{Cause: messages.By(messages.ByFiles, "files of "+m.name+" changed during its run", a.Task.Cause)})
			return
		}
		if succeeded != nil {
			succeeded(ctx, result)
		}
	}
	return a
}
