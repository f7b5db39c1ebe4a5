package actors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/kube"
	"addon-operator/messages"
)

// Absence is not an order to delete (P1): a volume that is not mounted looks like modules
// that were removed. A reload holds its purges back when they look like that, and people are
// shown which releases would go and how to allow it. Everything else of the reload goes on.

// DefaultPurgeShare is the share of the releases, in percent, that one reload may purge.
const DefaultPurgeShare = 25

// PurgeLimits say which purges are held back until a person allows them.
type PurgeLimits struct {
	// Any allows all purges.
	Any bool
	// Share is how many of the releases, in percent, one reload may purge. A single one it
	// may purge always.
	Share int
}

// purges is what converge knows of purges that are held back.
type purges struct {
	// held are the releases of the last plan that stay, sorted; why says for what reason.
	held []string
	why  string
	// allowed are releases that a person has allowed to purge, and that are not purged yet.
	allowed map[string]bool
	// confirmed is the confirmation that the next plan looks at.
	confirmed string
	// told counts how often held was reported.
	told int
}

func (g purges) clone() purges {
	g.allowed = maps.Clone(g.allowed)
	return g
}

// holdBack takes the purges out of a plan that a person must allow. releases is how many
// releases there are, empty are the roots that hold no module. confirmed reports that the
// confirmation is for these very purges, which are in the plan then.
//
// What was held back stays held back when only the reason is gone: while a volume comes back
// directory by directory, the last ones must not go.
func (g purges) holdBack(p Plan, limits PurgeLimits, releases int, empty []string) (_ Plan, confirmed bool) {
	pending := slices.DeleteFunc(slices.Clone(p.Purge), func(name string) bool { return g.allowed[name] })
	slices.Sort(pending)
	why := g.suspicion(pending, limits.Share, releases, empty)
	if limits.Any || why == "" {
		return p, false
	}
	if g.confirmed == confirmationOf(pending) {
		return p, true
	}
	p.Purge = slices.DeleteFunc(slices.Clone(p.Purge), func(name string) bool { return slices.Contains(pending, name) })
	p.Held, p.HeldWhy = pending, why
	return p, false
}

// suspicion says why purges look like a mistake; nothing when they do not.
func (g purges) suspicion(pending []string, share, releases int, empty []string) string {
	switch n := len(pending); {
	case n == 0:
		return ""
	case len(empty) > 0:
		return "there is no module in " + strings.Join(empty, ", ")
	case n > 1 && n*100 > share*releases:
		return fmt.Sprintf("they are %d of %d releases, and one reload may purge %d%%", n, releases, share)
	case slices.ContainsFunc(pending, func(name string) bool { return slices.Contains(g.held, name) }):
		return "not all directories are back since it was held back"
	}
	return ""
}

// confirmationOf is the text that allows to purge exactly these releases, which are sorted.
func confirmationOf(releases []string) string {
	const digits = 12
	sum := sha256.Sum256([]byte(strings.Join(releases, "\n")))
	return hex.EncodeToString(sum[:])[:digits]
}

// countReleases counts what could be purged if all directories were gone.
func countReleases(deployed map[string]bool, ignored string) int {
	if deployed[ignored] {
		return len(deployed) - 1
	}
	return len(deployed)
}

// purgeReminder is the time until a purge that is still held back is reported again.
const purgeReminder = 10 * time.Minute

// holdBack removes purges from a plan that no person has allowed, and reports them.
func (c *converge) holdBack(ctx actor.Context, p Plan) Plan {
	g := &c.state.purges
	p, confirmed := g.holdBack(p, c.program.Purges, countReleases(c.state.deployed, c.program.IgnoredRelease), c.state.tree.Empty)
	if confirmed {
		allowed := setOf(p.Purge)
		maps.Copy(allowed, g.allowed)
		g.allowed = allowed
		c.log.Info("a purge is confirmed", "releases", p.Purge)
		c.program.notify(kube.Notice{OnConfigMap: true, Reason: "PurgeConfirmed", Message: "The purge of releases is confirmed: " + strings.Join(p.Purge, ", ")})
	}
	maps.DeleteFunc(g.allowed, func(name string, _ bool) bool { return !slices.Contains(p.Purge, name) }) // its directory is back
	if g.confirmed != "" {
		if !confirmed {
			c.log.Warn("a confirmation is for another purge than the one that is held back now, if any; it is removed", "annotation", kube.ConfirmPurgeAnnotation, "value", g.confirmed, "held", p.Held)
		}
		ctx.Send(c.program.PID(configPath), removeConfirmation{g.confirmed})
	}
	before := g.held
	g.held, g.why, g.confirmed = p.Held, p.HeldWhy, ""
	switch held := c.heldPurge(); {
	case slices.Equal(before, g.held):
	case held == nil:
		c.log.Info("no purge is held back any more")
	default:
		c.log.Warn("a purge is held back: releases without a module directory stay until a person allows it, or the directories are back", "releases", held.Releases, "why", held.Why, "confirm", held.Confirm)
		c.noticeHeld(ctx)
	}
	return p
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
	c.state.purges.told++
	self, again := ctx.Self(), remindHeld{c.state.purges.told}
	time.AfterFunc(purgeReminder, func() { c.program.Send(self, again) })
}

// heldPurge is the report about the purges that are held back; nil for none.
func (c *converge) heldPurge() *messages.HeldPurge {
	g := c.state.purges
	if len(g.held) == 0 {
		return nil
	}
	return &messages.HeldPurge{
		Releases: g.held, Why: g.why,
		Confirm: fmt.Sprintf("kubectl annotate --overwrite configmap -n %s %s %s=%s", c.program.Namespace, c.program.ConfigMapName, kube.ConfirmPurgeAnnotation, confirmationOf(g.held)),
	}
}

// confirmPurge notifies converge of a confirmation that a person has given.
type confirmPurge struct{ value string }

// confirmPurge has the next plan look at a confirmation. A reload makes that plan at once.
func (c *converge) confirmPurge(ctx actor.Context, value string) {
	c.state.purges.confirmed = value
	if c.state.reload > 0 {
		c.requestReload(ctx, messages.Cause{Activation: messages.ByConfigMap, Detail: kube.ConfirmPurgeAnnotation})
	}
}

// removeConfirmation says to config that a confirmation was read: it is valid once, so
// that it cannot allow what comes later.
type removeConfirmation struct{ value string }

// confirmationSeen notes the annotation of a ConfigMap, valid or not.
func (c *config) confirmationSeen(ctx actor.Context, value string) {
	if value == c.state.confirmPurge {
		return
	}
	if !c.state.standby {
		c.tellConfirmation(ctx, value)
	}
	c.state.confirmPurge = value
}

func (c *config) tellConfirmation(ctx actor.Context, value string) {
	if value != "" {
		ctx.Send(c.program.PID(convergePath), confirmPurge{value})
	}
}

func (c *config) removeConfirmation(ctx actor.Context, msg removeConfirmation) {
	writing, cancel := context.WithTimeout(c.program.Writes, writeTimeout)
	defer cancel()
	left, err := c.program.ConfigMap.RemoveConfirmation(writing, msg.value)
	if err != nil {
		c.log.Warn("the confirmation of a purge cannot be removed; remove the annotation by hand, or it is looked at again after a restart", "annotation", kube.ConfirmPurgeAnnotation, "err", err)
		return
	}
	c.meet(ctx, left)
}
