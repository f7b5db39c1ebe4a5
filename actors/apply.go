package actors

import (
	"fmt"
	"time"

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

// ownValues are the section of values of an owner. Results of hooks are applied one after the other: a result that must be
// written to the ConfigMap waits for the config actor, and the ones behind it wait for that (D28).
type ownValues struct {
	part
	unfinished *work.Unfinished // of the owner

	section   *values.Section
	converged convergedValues
	applying  *application
	waiting   []application // behind the one that is being applied
}

// convergedValues are the values at the end of the last converge, which people compare with.
type convergedValues struct {
	section *values.Section
	at      time.Time
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

// apply is step 3 of the way of a task (docs/architecture.md): check everything, then commit (D26).
func (v *ownValues) apply(ctx actor.Context, a application) {
	if v.applying != nil {
		v.waiting = append(v.waiting, a)
		return
	}
	config, memory, flags, err := v.self.patches(a.msg.Result)
	if err == nil {
		a.base = v.section
		a.next, err = v.patched(config, memory, a.msg.Origin)
	}
	if err != nil {
		v.refuse(a, fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err))
		return
	}
	configChanged := len(config) > 0 && a.next.Stored().Checksum() != v.section.Stored().Checksum()
	if !configChanged && len(flags.config) == 0 {
		v.commit(ctx, a, false)
		return
	}
	save := messages.SaveConfig{Flags: flags.config, Hook: a.msg.Hook}
	if configChanged {
		save.Key, save.Base = v.section.Key(), v.section.Stored().Checksum()
		save.Section, save.Secret = a.next.Stored().InConfigMap(), a.next.Stored().Secret
	}
	v.applying = &a
	ctx.Request(v.program.PID(configPath), save)
}

// patched applies both patches to the section and validates the result with both
// schemas (D36).
func (v *ownValues) patched(config, memory values.Patch, by values.Origin) (*values.Section, error) {
	next := v.section
	var err error
	if len(config) > 0 {
		if v.program.secretOff.Load() {
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
	if next != v.section {
		if err := next.ValidateValues(); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// configSaved continues with the result that waited for the ConfigMap.
func (v *ownValues) configSaved(ctx actor.Context, msg messages.ConfigSaved) {
	a := v.applying
	v.applying = nil
	switch {
	case a.discarded && !msg.Conflict && msg.Err == nil:
		// Its run was cancelled, but the ConfigMap says so by now.
		v.setConfig(messages.SetConfig{Section: a.next.Stored().InConfigMap(), Origin: a.msg.Origin, Secret: a.next.Stored().Secret, SecretOrigin: a.msg.Origin})
	case a.discarded:
	case msg.Conflict: // the new section has arrived before this answer
		v.apply(ctx, *a)
	case msg.Err != nil:
		v.refuse(*a, fmt.Errorf("hook %s: save config values: %w", a.msg.Hook, msg.Err))
	default:
		v.commitSaved(ctx, *a, msg.FlagsChanged)
	}
	for v.applying == nil && len(v.waiting) > 0 {
		next := v.waiting[0]
		v.waiting = v.waiting[1:]
		v.apply(ctx, next)
	}
}

// discard forgets the results of runs that are cancelled (E11, E15).
func (v *ownValues) discard() {
	v.waiting = nil
	if v.applying != nil {
		v.applying.discarded = true
	}
}

// commitSaved commits what has been written. While only flags were written, the section
// may have got new config values; then the patches are applied to those.
func (v *ownValues) commitSaved(ctx actor.Context, a application, flagsChanged bool) {
	if a.base != v.section {
		config, memory, _, err := v.self.patches(a.msg.Result)
		if err == nil {
			a.next, err = v.patched(config, memory, a.msg.Origin)
		}
		if err != nil {
			v.refuse(a, fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err))
			return
		}
	}
	v.commit(ctx, a, flagsChanged)
}

func (v *ownValues) commit(ctx actor.Context, a application, flagsChanged bool) {
	changed := a.next.Checksum() != v.section.Checksum() // D27
	v.set(a.next)
	_, _, flags, _ := v.self.patches(a.msg.Result)
	flags.configChanged = flagsChanged
	v.unfinished.Commit(a.msg.Origin.Task)
	now := v.self.known()
	now.Changed = changed
	v.program.Send(a.from, work.Handed{Known: now})
	v.self.committed(ctx, a.msg, changed, flags)
}

// refuse answers a run whose result has no effect (D26).
func (v *ownValues) refuse(a application, err error) {
	v.unfinished.End(a.msg.Origin.Task)
	v.program.Send(a.from, work.Handed{Known: v.self.known(), Err: err})
}

// setConfig replaces the ConfigMap layer; saved patches are replayed over it (D22). The
// config actor has checked it, but not the sections of disabled modules (D37): their old
// values stay until theirs are fixed.
func (v *ownValues) setConfig(msg messages.SetConfig) {
	next, err := v.section.WithConfig(msg.Section, msg.Origin)
	if err == nil {
		next, err = next.WithSecret(msg.Secret, msg.SecretOrigin)
	}
	if err != nil {
		v.log.Error("new config values are refused", "err", err)
		return
	}
	v.set(next)
}

// set replaces the section. What must not be shown of it is known before anybody can see it.
func (v *ownValues) set(section *values.Section) {
	v.program.Secrets.Know(section.Key(), section.Secrets().Texts())
	v.section = section
	if v.name == messages.GlobalHooks {
		v.program.global.Store(section)
	}
}

// answer answers GetValues.
func (v *ownValues) answer() messages.Values {
	return messages.Values{Section: v.section, Converged: v.converged.section, ConvergedAt: v.converged.at}
}
