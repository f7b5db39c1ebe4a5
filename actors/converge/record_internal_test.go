package converge

import (
	"testing"

	"addon-operator/messages"
)

// J21: ten reloads are kept, of a thousand steps each, with three thousand parts; what is not kept is counted. A step of a
// reload that is forgotten is dropped.
func TestConvergeRecordIsBounded(t *testing.T) {
	var r convergeRecord
	for reload := range 12 {
		r.begin(reload+1, messages.Cause{Activation: messages.ByConfigMap})
	}
	r.begin(12, messages.Cause{})
	for range 1200 {
		r.add(messages.StepEnded{Reload: 12, Step: messages.Step{Parts: make([]messages.Part, 4)}})
		r.add(messages.StepEnded{Reload: 1})
	}
	r.end(12)
	list := r.converges().List
	if len(list) != 10 || list[0].Reload != 12 || list[9].Reload != 3 || !list[9].Overtaken || list[0].Overtaken || list[0].Ended.IsZero() {
		t.Fatalf("%d reloads are kept, the newest is %+v", len(list), list[0].Reload)
	}
	parts, cut := 0, 0
	for _, s := range list[0].Steps {
		parts += len(s.Parts)
		cut += s.Cut
	}
	if len(list[0].Steps) != 1000 || list[0].Cut != 200 || parts != 3000 || cut != 1000 {
		t.Errorf("%d steps are kept, %d are not; %d parts are, %d are not", len(list[0].Steps), list[0].Cut, parts, cut)
	}
}
