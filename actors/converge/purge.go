package converge

import (
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/work"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// purgesDecided notes which purges a reload does and which it holds. A confirmation is valid for the releases that it was
// given for, and is removed once it was read.
//
// A purge uninstalls the release of a module that has no directory (G7), if an operator has
// installed it: people and other programs may have releases in the namespace, too (P2). It is a
// step of a reload, tried once there; one that fails is tried again by the next reload (E10).
func (c *catalog) purgesDecided(ctx actor.Context, s decide.Steps) {
	if len(s.Confirmed) > 0 {
		allowed := map[string]bool{}
		maps.Copy(allowed, c.Purges.Allowed)
		for _, release := range s.Confirmed {
			allowed[release] = true
		}
		c.Purges.Allowed = allowed
		c.log.Info("a purge is confirmed", "releases", s.Confirmed)
		c.program.Notify(kube.Notice{OnConfigMap: true, Reason: "PurgeConfirmed", Message: "The purge of releases is confirmed: " + strings.Join(s.Confirmed, ", ")})
	}
	due := slices.Concat(s.Purge, s.Delete)
	maps.DeleteFunc(c.Purges.Allowed, func(name string, _ bool) bool { return !slices.Contains(due, name) }) // its directory is back
	if c.Purges.Confirmed != "" {
		if len(s.Confirmed) == 0 {
			c.log.Warn("a confirmation does not match the purge that is held back now, if any; it is removed", "annotation", kube.ConfirmPurgeAnnotation, "value", c.Purges.Confirmed, "held", s.Held)
		}
		ctx.Send(c.program.PID(work.ConfigPath), messages.RemoveConfirmation{Value: c.Purges.Confirmed})
	}
	before := c.Purges.Held
	c.Purges.Held, c.Purges.Why, c.Purges.Confirmed = s.Held, s.HeldWhy, ""
	switch held := c.heldPurge(); {
	case slices.Equal(before, c.Purges.Held):
	case held == nil:
		c.log.Info("no purge is held back any longer")
	default:
		c.log.Warn("a purge is held back: releases stay until a person allows it, or their directories or flags are back", "releases", held.Releases, "why", held.Why, "confirm", held.Confirm)
		c.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "PurgeHeld", Message: held.String()})
	}
}

// heldPurge is the report about the purges that are held back; nil for none.
func (c *catalog) heldPurge() *view.HeldPurge {
	if len(c.Purges.Held) == 0 {
		return nil
	}
	return &view.HeldPurge{
		Releases: c.Purges.Held, Why: c.Purges.Why,
		Confirm: c.program.ConfirmCommand(decide.Confirmation(c.Purges.Held)),
	}
}

// confirmPurge has the next reload look at a confirmation, and requests that reload. One that begins with the name of a
// module is for an upgrade that this module holds back.
func (c *converge) confirmPurge(ctx actor.Context, value string) {
	if name, _, ok := strings.Cut(value, ":"); ok {
		if c.catalog.Tree.Module(name) != nil {
			ctx.Send(c.program.Owner(name), messages.ConfirmPurge{Value: value})
		} else {
			c.log.Warn("a confirmation names no module; it is removed",
				"annotation", kube.ConfirmPurgeAnnotation, "value", value)
		}
		ctx.Send(c.program.PID(work.ConfigPath), messages.RemoveConfirmation{Value: value})
		return
	}
	c.catalog.Purges.Confirmed = value
	if c.reloads.phase.begun() {
		c.reloads.request(ctx, messages.Cause{Activation: messages.ByConfigMap, Detail: kube.ConfirmPurgeAnnotation})
	}
}
