package actors

import (
	"log/slog"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// recorder is an applier that notes what was committed.
type recorder struct{ committedHooks []string }

func (*recorder) known() known { return known{} }

func (*recorder) patches(r hooks.Result) (config, memory values.Patch, _ flagChanges, err error) {
	return r.ConfigPatch, r.ValuesPatch, flagChanges{}, nil
}

func (r *recorder) committed(_ actor.Context, msg messages.ApplyHookResult, _ bool, _ flagChanges) {
	r.committedHooks = append(r.committedHooks, msg.Hook)
}

func (*recorder) reconcile(actor.Context, messages.Cause) {}

func (*recorder) publish() {}

func patchOf(t *testing.T, text string) values.Patch {
	t.Helper()
	patch, _, err := values.ParsePatch([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return patch
}

// saving is an owner whose hook result waits for its write of the ConfigMap, request 7.
func saving(t *testing.T, self applier) *owner {
	t.Helper()
	section, err := values.NewSection("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	p := newProgram(supervisor.NewSystem(supervisor.Options{Log: log}), World{Services: Services{Log: log}})
	o := newOwner(self, p, "a", "", log, section)
	result := hooks.Result{
		ConfigPatch: patchOf(t, `{"op": "add", "path": "/a/saved", "value": true}`),
		ValuesPatch: patchOf(t, `{"op": "add", "path": "/a/inMemory", "value": true}`),
	}
	next, err := o.patched(result.ConfigPatch, result.ValuesPatch, values.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	o.applying = &application{
		msg: messages.ApplyHookResult{Hook: "h", Result: result}, from: p.PID("nobody"), next: next,
	}
	return o
}

func (o *owner) has(key string) bool {
	merged, _ := o.section.Merged().(map[string]any)
	return merged[key] != nil
}

// E11, E15: the result of a run that was cancelled while it was being saved counts for
// nothing; only what the ConfigMap says by then is known to its owner.
func TestResultOfACancelledRun(t *testing.T) {
	for situation, test := range map[string]struct {
		answer messages.ConfigSaved
		saved  bool
	}{
		"it was saved":                 {messages.ConfigSaved{}, true},
		"somebody else changed it":     {messages.ConfigSaved{Conflict: true}, false},
		"the API server refused it":    {messages.ConfigSaved{Err: errNoSuchWork}, false},
		"and it changed flags as well": {messages.ConfigSaved{FlagsChanged: true}, true},
	} {
		t.Run(situation, func(t *testing.T) {
			self := &recorder{}
			o := saving(t, self)
			o.waiting = []application{*o.applying}
			o.configSaved(nil, test.answer)
			if o.applying != nil || len(o.waiting) != 0 {
				t.Error("something still waits")
			}
			if len(self.committedHooks) != 0 || o.has("inMemory") || o.has("saved") != test.saved {
				t.Errorf("committed %v, values %v, want saved: %t", self.committedHooks, o.section.Merged(), test.saved)
			}
		})
	}
}
