package modules

import (
	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/supervisor"
)

// whenQuiet answers runs that wait until nothing of a module runs.
type whenQuiet struct {
	runs     *supervisor.Runs
	awaiting []*actor.PID
}

// answer is called after every message, because the end of a run is one.
func (q *whenQuiet) answer(ctx actor.Context) {
	if q.runs.Len() > 0 {
		return
	}
	for _, pid := range q.awaiting {
		ctx.Send(pid, work.ModuleQuiet{})
	}
	q.awaiting = nil
}
