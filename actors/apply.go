package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// application is a hook result on its way to become values.
type application struct {
	msg  messages.ApplyHookResult
	from *actor.PID
	base *values.Section // what the patches were applied to
	next *values.Section // what will be the section
	// discarded: its run was cancelled.
	discarded bool
}

// applier is where owners differ: what runs get to know, what a patch may touch, and what follows a change.
type applier interface {
	// known returns what the owner hands over to a run.
	known() work.Known
	// patches checks what the patches of a hook touch and returns the parts for the section.
	patches(hooks.Result) (config, memory values.Patch, flags flagChanges, err error)
	// committed is called after a result has become values.
	committed(ctx actor.Context, msg messages.ApplyHookResult, changed bool, flags flagChanges)
	// reconcile queues a run of the module, or a reload. It is also called when a deferred Synchronization has
	// succeeded, or the snapshots are complete for which a hook was skipped: what was done without that hook
	// is done again.
	reconcile(ctx actor.Context, cause messages.Cause)
}

// flagChanges are the opinions of a global hook on enabled modules (D25).
type flagChanges struct {
	config, memory []values.Flag
	// configChanged: the ConfigMap said something else before.
	configChanged bool
}

// applyHookResult is step 3 of the way of a task (docs/architecture.md): check everything, then commit (D26).
func (o *owner) applyHookResult(ctx actor.Context, a application) {
	if o.applying != nil {
		o.waiting = append(o.waiting, a)
		return
	}
	config, memory, flags, err := o.self.patches(a.msg.Result)
	if err == nil {
		a.base = o.section
		a.next, err = o.patched(config, memory, a.msg.Origin)
	}
	if err != nil {
		o.refuse(a, fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err))
		return
	}
	configChanged := len(config) > 0 && a.next.Stored().Checksum() != o.section.Stored().Checksum()
	if !configChanged && len(flags.config) == 0 {
		o.commit(ctx, a, false)
		return
	}
	save := messages.SaveConfig{Flags: flags.config, Hook: a.msg.Hook}
	if configChanged {
		save.Key, save.Base = o.section.Key(), o.section.Stored().Checksum()
		save.Section, save.Secret = a.next.Stored().InConfigMap(), a.next.Stored().Secret
	}
	o.applying = &a
	ctx.Request(o.program.PID(configPath), save)
}

// patched applies both patches to the section and validates the result with both
// schemas (D36).
func (o *owner) patched(config, memory values.Patch, by values.Origin) (*values.Section, error) {
	next := o.section
	var err error
	if len(config) > 0 {
		if o.program.secretOff.Load() {
			next = next.WithoutStore()
		}
		if next, err = next.PatchConfig(config, by); err != nil {
			return nil, fmt.Errorf("config values patch: %w", err)
		}
		if err := next.ValidateConfig(); err != nil {
			return nil, fmt.Errorf("config values patch: %w", err)
		}
	}
	if len(memory) > 0 {
		if next, err = next.Patch(memory, by); err != nil {
			return nil, fmt.Errorf("values patch: %w", err)
		}
	}
	if next != o.section {
		if err := next.ValidateValues(); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// configSaved continues with the result that waited for the ConfigMap.
func (o *owner) configSaved(ctx actor.Context, msg messages.ConfigSaved) {
	a := o.applying
	o.applying = nil
	switch {
	case a.discarded && !msg.Conflict && msg.Err == nil:
		// Its run was cancelled, but the ConfigMap says so by now.
		o.setConfig(messages.SetConfig{Section: a.next.Stored().InConfigMap(), Origin: a.msg.Origin, Secret: a.next.Stored().Secret, SecretOrigin: a.msg.Origin})
	case a.discarded:
	case msg.Conflict: // the new section has arrived before this answer
		o.applyHookResult(ctx, *a)
	case msg.Err != nil:
		o.refuse(*a, fmt.Errorf("hook %s: save config values: %w", a.msg.Hook, msg.Err))
	default:
		o.commitSaved(ctx, *a, msg.FlagsChanged)
	}
	for o.applying == nil && len(o.waiting) > 0 {
		next := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.applyHookResult(ctx, next)
	}
}

// discardResults forgets the results of runs that are cancelled (E11, E15).
func (o *owner) discardResults() {
	o.waiting = nil
	if o.applying != nil {
		o.applying.discarded = true
	}
}

// commitSaved commits what has been written. While only flags were written, the section
// may have got new config values; then the patches are applied to those.
func (o *owner) commitSaved(ctx actor.Context, a application, flagsChanged bool) {
	if a.base != o.section {
		config, memory, _, err := o.self.patches(a.msg.Result)
		if err == nil {
			a.next, err = o.patched(config, memory, a.msg.Origin)
		}
		if err != nil {
			o.refuse(a, fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err))
			return
		}
	}
	o.commit(ctx, a, flagsChanged)
}

func (o *owner) commit(ctx actor.Context, a application, flagsChanged bool) {
	changed := a.next.Checksum() != o.section.Checksum() // D27
	o.setSection(a.next)
	_, _, flags, _ := o.self.patches(a.msg.Result)
	flags.configChanged = flagsChanged
	o.unfinished.Commit(a.msg.Origin.Task)
	now := o.self.known()
	now.Changed = changed
	o.program.Send(a.from, work.Handed{Known: now})
	o.self.committed(ctx, a.msg, changed, flags)
}

// refuse answers a run whose result has no effect (D26).
func (o *owner) refuse(a application, err error) {
	o.unfinished.End(a.msg.Origin.Task)
	o.program.Send(a.from, work.Handed{Known: o.self.known(), Err: err})
}
