package supervisor

import "github.com/asynkron/protoactor-go/actor"

// Stages stops the children of an actor in order: those of the last stage stop first,
// and a stage begins to stop only when the one after it is gone.
type Stages struct {
	stages   [][]*actor.PID
	stopping bool
}

// NewStages makes a number of stages without children.
func NewStages(n int) Stages { return Stages{stages: make([][]*actor.PID, n)} }

// Add appends a child to the stage with the given index, counted from 0.
func (s *Stages) Add(stage int, pid *actor.PID) { s.stages[stage] = append(s.stages[stage], pid) }

// Stop begins the stop; done reports that no child is left.
func (s *Stages) Stop(ctx actor.Context) (done bool) {
	s.stopping = true
	return s.stopLast(ctx)
}

// Terminated notes that a child is gone and stops the next stage when it was the last
// of its stage. It reports true when no child is left.
func (s *Stages) Terminated(ctx actor.Context, who *actor.PID) (done bool) {
	for i, stage := range s.stages {
		for j, pid := range stage {
			if pid.Id == who.Id {
				s.stages[i] = append(stage[:j:j], stage[j+1:]...)
			}
		}
	}
	if !s.stopping || len(s.stages) == 0 || len(s.stages[len(s.stages)-1]) > 0 {
		return false
	}
	return s.stopLast(ctx)
}

func (s *Stages) stopLast(ctx actor.Context) (done bool) {
	for len(s.stages) > 0 && len(s.stages[len(s.stages)-1]) == 0 {
		s.stages = s.stages[:len(s.stages)-1]
	}
	if len(s.stages) == 0 {
		return true
	}
	for _, pid := range s.stages[len(s.stages)-1] {
		ctx.Stop(pid)
	}
	return false
}
