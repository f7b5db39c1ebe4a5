package converge

import (
	"slices"
	"time"

	"addon-operator/messages"
)

// These limits bound the record of the last reloads to some 4 MiB; with 500 modules of two hooks it
// takes about half of that.
const (
	keptConverges = 10
	keptSteps     = 1000 // of one reload
	keptParts     = 3000 // of all its steps
)

// convergeRecord is what the last reloads did (J21). Only converge has it; answers share its steps.
type convergeRecord struct{ list []*keptConverge } // the newest last

// keptConverge is the record of one reload. Ended is zero while it is in progress.
type keptConverge struct {
	messages.ConvergeRecord
	parts int // of all steps, up to keptParts
}

// begin opens the record of a reload. The start-up has opened that of the first one.
func (r *convergeRecord) begin(reload int, cause messages.Cause) {
	if r.of(reload) != nil {
		return
	}
	now := time.Now()
	for _, before := range r.list { // one at most: a reload that has ended by itself has its time
		if before.Ended.IsZero() {
			before.Ended, before.Overtaken = now, true
		}
	}
	r.list = append(r.list, &keptConverge{ConvergeRecord: messages.ConvergeRecord{Reload: reload, Cause: cause, Began: now}})
	r.list = slices.Delete(r.list, 0, max(0, len(r.list)-keptConverges))
}

func (r *convergeRecord) end(reload int) {
	if c := r.of(reload); c != nil {
		c.Ended = time.Now()
	}
}

// of is the record of a reload, nil when it is not kept any more.
func (r *convergeRecord) of(reload int) *keptConverge {
	i := slices.IndexFunc(r.list, func(c *keptConverge) bool { return c.Reload == reload })
	if i < 0 {
		return nil
	}
	return r.list[i]
}

// add remembers a step, also of a reload that has ended: a parked module goes on.
func (r *convergeRecord) add(msg messages.StepEnded) {
	switch c := r.of(msg.Reload); {
	case c == nil:
	case len(c.Steps) >= keptSteps:
		c.Cut++
	default:
		s := msg.Step
		// Beyond the limit a step loses its parts, not the step itself: its time is what explains a
		// reload.
		if c.parts += len(s.Parts); c.parts > keptParts {
			c.parts -= len(s.Parts)
			s.Parts, s.Cut = nil, s.Cut+len(s.Parts)
		}
		c.Steps = append(c.Steps, s)
	}
}

// converges answers ListConverges, the newest first. Steps are only ever appended, and the slices
// are clipped, so they can be shared with who reads them.
func (r *convergeRecord) converges() messages.Converges {
	all := make([]messages.ConvergeRecord, 0, len(r.list))
	for _, c := range slices.Backward(r.list) {
		shown := c.ConvergeRecord
		shown.Steps = slices.Clip(c.Steps)
		all = append(all, shown)
	}
	return messages.Converges{List: all}
}
