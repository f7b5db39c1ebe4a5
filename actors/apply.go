package actors

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// application is a hook result on its way to become values. It waits while an earlier one is
// written to the ConfigMap.
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
	known() known
	// patches checks what the patches of a hook touch and returns the parts for the section.
	patches(hooks.Result) (config, memory values.Patch, flags flagChanges, err error)
	// committed is called after a result has become values.
	committed(ctx actor.Context, msg messages.ApplyHookResult, changed bool, flags flagChanges)
	// reconcile queues a run of the module, or a reload. It is also called when a deferred Synchronization has
	// succeeded, or the snapshots are complete for which a hook was skipped: what was done without that hook
	// is done again.
	reconcile(ctx actor.Context, cause messages.Cause)
	// publish shows the owner on pages, in metrics and in its object of kind Module.
	publish()
}

// flagChanges are the opinions of a global hook on enabled modules (D25).
type flagChanges struct {
	config, memory []values.Flag
	// configChanged: the ConfigMap said something else before.
	configChanged bool
}

// apply is step 3 of the way of a task (docs/architecture.md): check everything, then commit (D26). Results of hooks are
// applied one after the other: one that must be written to the ConfigMap waits for the config actor, and those behind it
// wait for that (D28). Otherwise a second result would be checked against values that the first is about to change.
//
// A patch that changes nothing in the ConfigMap is not written: an own write would show as an edit
// in the audit log (D27).
func (o *owner) apply(ctx actor.Context, a application) {
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
		o.refuseResult(a, fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err))
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

// patched applies both patches to a copy of the section and validates the result with both schemas
// (D36). While there is no Secret with values, config patches go to the ConfigMap as a whole.
func (o *owner) patched(config, memory values.Patch, by values.Origin) (*values.Section, error) {
	next := o.section
	var err error
	if len(config) > 0 {
		if next, err = next.PatchConfig(config, by, !o.program.SecretOff.Load()); err != nil {
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

// configSaved continues with the result that waited for the ConfigMap, and then with those that
// wait behind it. On a conflict it starts over: config has sent the new section before this answer,
// so the mailbox has it already.
func (o *owner) configSaved(ctx actor.Context, msg messages.ConfigSaved) {
	a := o.applying
	o.applying = nil
	switch {
	case a.discarded && !msg.Conflict && msg.Err == nil:
		// Its run was cancelled, but the ConfigMap says so by now.
		o.setConfig(messages.SetConfig{Section: a.next.Stored().InConfigMap(), Origin: a.msg.Origin, Secret: a.next.Stored().Secret, SecretOrigin: a.msg.Origin})
	case a.discarded:
	case msg.Conflict: // the new section has arrived before this answer
		o.apply(ctx, *a)
	case msg.Err != nil:
		o.refuseResult(*a, fmt.Errorf("hook %s: save config values: %w", a.msg.Hook, msg.Err))
	default:
		o.commitSaved(ctx, *a, msg.FlagsChanged)
	}
	for o.applying == nil && len(o.waiting) > 0 {
		next := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.apply(ctx, next)
	}
}

// discard forgets the results of runs that are cancelled (E11, E15). One that is being written
// cannot be taken back; configSaved takes over what the ConfigMap has by then.
func (o *owner) discard() {
	o.waiting = nil
	if o.applying != nil {
		o.applying.discarded = true
	}
}

// commitSaved commits what has been written. If only flags were written, the section itself was not
// locked and may have new config values; then the patches are applied again, to those.
func (o *owner) commitSaved(ctx actor.Context, a application, flagsChanged bool) {
	if a.base != o.section {
		config, memory, _, err := o.self.patches(a.msg.Result)
		if err == nil {
			a.next, err = o.patched(config, memory, a.msg.Origin)
		}
		if err != nil {
			o.refuseResult(a, fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err))
			return
		}
	}
	o.commit(ctx, a, flagsChanged)
}

// commit makes the result the section, and answers the run. From then on the run does not repeat the
// hook (D26).
func (o *owner) commit(ctx actor.Context, a application, flagsChanged bool) {
	changed := a.next.Checksum() != o.section.Checksum() // D27
	_, _, flags, _ := o.self.patches(a.msg.Result)
	a.msg.Cause.Detail += changedPaths(a.next, o.section, flags)
	o.set(a.next)
	flags.configChanged = flagsChanged
	now := o.self.known()
	now.Changed = changed
	o.program.Send(a.from, handed{Known: now})
	o.self.committed(ctx, a.msg, changed, flags)
}

// changedPaths names what a hook has changed, for the chain of causes: what it has written as it was is no cause.
func changedPaths(after, before *values.Section, flags flagChanges) string {
	var paths []string
	for _, change := range after.Diff(before) {
		paths = append(paths, change.Path)
	}
	for _, flag := range slices.Concat(flags.config, flags.memory) {
		paths = append(paths, flag.Key)
	}
	if len(paths) == 0 {
		return ""
	}
	return " changed " + messages.Few(3, paths)
}

// refuse answers a run whose result has no effect (D26). The run fails and repeats the hook.
func (o *owner) refuseResult(a application, err error) {
	o.program.Send(a.from, handed{Known: o.self.known(), Err: err})
}

// onFiles takes over static values and schemas that have changed on disk; nil: they are the same.
func (o *owner) onFiles(files *values.Section) {
	if files == nil {
		return
	}
	next, err := o.section.OnFiles(files)
	if err != nil { // config has checked it, but not what hooks have set
		o.log.Error("new static values are refused", "err", err)
		return
	}
	o.set(next)
}

// setConfig replaces the ConfigMap and Secret layers; saved patches are replayed over them (D22).
// config has checked the sections of enabled modules, but not those of disabled ones (D37): these
// keep their old values until the new ones are fixed.
func (o *owner) setConfig(msg messages.SetConfig) {
	next, err := o.section.WithStored(msg.Section, msg.Secret, msg.Origin, msg.SecretOrigin)
	if err != nil {
		o.log.Error("new config values are refused", "err", err)
		return
	}
	o.set(next)
}

// set replaces the section. Its secrets are made known first, so that no log or page can show one
// of them.
func (o *owner) set(section *values.Section) {
	o.program.Secrets.Know(section.Key(), section.Secrets().Texts())
	o.section = section
	if o.name == messages.GlobalHooks {
		o.program.Global.Store(section)
	}
}
