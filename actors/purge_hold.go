package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// Absence is not an order to delete (P1): a volume that is not mounted looks like modules
// that were removed. A reload holds its purges back when they look like that, and people are
// shown which releases would go and how to allow it. Everything else of the reload goes on.

// purgeReminder is the time until a purge that is still held back is reported again.
const purgeReminder = 10 * time.Minute

// steps decides what a reload does, and reports the purges that no person has allowed.
func (c *converge) steps(ctx actor.Context, enabled []string) decide.Steps {
	g := &c.purges
	s, confirmed := decide.Reload{
		Tree: c.tree, Enabled: enabled, Deployed: c.deployed, Ignored: c.program.IgnoredRelease,
		Maintenance: c.maintenance, Purges: *g, AllowPurge: c.program.AllowPurge, PurgeShare: c.program.PurgeShare,
	}.Steps()
	if confirmed {
		allowed := setOf(s.Purge)
		maps.Copy(allowed, g.Allowed)
		g.Allowed = allowed
		c.log.Info("a purge is confirmed", "releases", s.Purge)
		c.program.notify(kube.Notice{OnConfigMap: true, Reason: "PurgeConfirmed", Message: "The purge of releases is confirmed: " + strings.Join(s.Purge, ", ")})
	}
	maps.DeleteFunc(g.Allowed, func(name string, _ bool) bool { return !slices.Contains(s.Purge, name) }) // its directory is back
	if g.Confirmed != "" {
		if !confirmed {
			c.log.Warn("a confirmation is for another purge than the one that is held back now, if any; it is removed", "annotation", kube.ConfirmPurgeAnnotation, "value", g.Confirmed, "held", s.Held)
		}
		ctx.Send(c.program.PID(configPath), removeConfirmation{g.Confirmed})
	}
	before := g.Held
	g.Held, g.Why, g.Confirmed = s.Held, s.HeldWhy, ""
	switch held := c.heldPurge(); {
	case slices.Equal(before, g.Held):
	case held == nil:
		c.log.Info("no purge is held back any more")
	default:
		c.log.Warn("a purge is held back: releases without a module directory stay until a person allows it, or the directories are back", "releases", held.Releases, "why", held.Why, "confirm", held.Confirm)
		c.noticeHeld(ctx)
	}
	return s
}

// remindHeld asks converge to report a purge that is held back once more.
type remindHeld struct{ told int }

// noticeHeld reports a purge that is held back, and again after a while: Events do
// not last.
func (c *converge) noticeHeld(ctx actor.Context) {
	held := c.heldPurge()
	if held == nil {
		return
	}
	c.program.notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "PurgeHeld", Message: held.String()})
	c.reminded++
	self, again := ctx.Self(), remindHeld{c.reminded}
	time.AfterFunc(purgeReminder, func() { c.program.Send(self, again) })
}

// heldPurge is the report about the purges that are held back; nil for none.
func (c *converge) heldPurge() *view.HeldPurge {
	g := c.purges
	if len(g.Held) == 0 {
		return nil
	}
	return &view.HeldPurge{
		Releases: g.Held, Why: g.Why,
		Confirm: fmt.Sprintf("kubectl annotate --overwrite configmap -n %s %s %s=%s", c.program.Namespace, c.program.ConfigMapName, kube.ConfirmPurgeAnnotation, decide.Confirmation(g.Held)),
	}
}

// confirmPurge notifies converge of a confirmation that a person has given.
type confirmPurge struct{ value string }

// confirmPurge has the next reload look at a confirmation. It begins at once.
func (c *converge) confirmPurge(ctx actor.Context, value string) {
	c.purges.Confirmed = value
	if c.phase.begun() {
		c.requestReload(ctx, messages.Cause{Activation: messages.ByConfigMap, Detail: kube.ConfirmPurgeAnnotation})
	}
}

// removeConfirmation says to config that a confirmation was read: it is valid once, so
// that it cannot allow what comes later.
type removeConfirmation struct{ value string }

// confirmation is the annotation of the ConfigMap that confirms a purge, as config saw it last.
type confirmation struct {
	report *reporter
	value  string
}

// seen notes the annotation of a ConfigMap, valid or not.
func (c *confirmation) seen(ctx actor.Context, value string) {
	if value != c.value {
		c.value = value
		c.send(ctx)
	}
}

// send notifies converge of it, unless another replica leads.
func (c *confirmation) send(ctx actor.Context) {
	if c.value != "" && !c.report.standby {
		ctx.Send(c.report.program.PID(convergePath), confirmPurge{c.value})
	}
}

// remove takes it off the ConfigMap, which it returns.
func (c *confirmation) remove(value string) (left kube.ConfigMap, ok bool) {
	writing, cancel := context.WithTimeout(c.report.program.WriteContext, writeTimeout)
	defer cancel()
	left, err := c.report.program.ConfigMap.RemoveConfirmation(writing, value)
	if err != nil {
		c.report.log.Warn("the confirmation of a purge cannot be removed; remove the annotation by hand, or it is looked at again after a restart", "annotation", kube.ConfirmPurgeAnnotation, "err", err)
	}
	return left, err == nil
}
