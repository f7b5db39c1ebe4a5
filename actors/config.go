package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// config owns the ConfigMap: it validates what people write into it, refuses a change
// as a whole or sends every owner what changed, and is the only one who writes into it.
//
// It may block on the API server: only runs that save values wait for it.
type config struct {
	program *program
	log     *slog.Logger
	started func(self *actor.PID) // begins to watch, once in the life of the process

	// known are the texts of all keys as owners know them: the last valid ones, and what
	// the operator wrote itself.
	known map[string]string
	// sections are templates to validate with: static values and schemas by key.
	sections map[string]*values.Section
	modules  []addons.Module
	global   addons.Global
	enabling decide.Enabling // see rules
	refused  string          // why the ConfigMap in the cluster, or its deletion, is not in force
	// fromKept: known is the last valid content that an earlier process has kept (P3).
	fromKept bool
	kept     kept
	written  written
	revision string
	// ahead is the resourceVersion of the last content that was written, or read outside of the
	// watch: the watch may be behind it.
	ahead   string
	standby bool // another replica acts
	// wentBack counts the watches that have seen the API server go back.
	wentBack int
	secret   secretState
	// confirmPurge is the annotation that confirms a purge, as it was seen last.
	confirmPurge string
}

func newConfig(ctx context.Context, p *program, initial initialConfig, standby bool) *config {
	c := &config{program: p, log: p.Log, known: initial.data, sections: initial.sections, modules: initial.modules, global: initial.global, revision: initial.revision, standby: standby, refused: initial.refused}
	c.secret = secretState{known: initial.secret.data, revision: initial.secret.revision, refused: initial.secretRefused, fromKept: initial.secretRefused != ""}
	c.fromKept = initial.refused != ""
	if c.fromKept || c.secret.fromKept {
		c.kept = kept{known: true, values: kube.LastValid{Config: initial.data, Secret: initial.secret.data}}
	}
	c.started = func(self *actor.PID) {
		if c.refused != "" {
			c.noticeRefused(c.refused)
		}
		if c.secret.refused != "" {
			c.noticeSecretRefused(c.secret.refused)
		}
		c.writtenBefore(initial.written)
		c.warnLostBefore()
		p.ConfigMap.Watch(ctx, func(cm kube.ConfigMap) {
			p.Send(self, messages.ConfigMapSeen(cm))
		})
		if p.WentBack != nil {
			p.WentBack(ctx, func(watch string) { p.Send(self, clusterWentBack{watch}) })
		}
		if !initial.secret.off && p.Secret != nil {
			p.Secret.Watch(ctx, func(content kube.ConfigMap) { p.Send(self, secretSeen{content}) })
		}
		c.tellMisplaced()
		c.secretKnown()
	}
	return c
}

// Receive implements actor.Actor.
func (c *config) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.started(ctx.Self())
	case messages.ConfigMapSeen:
		c.seen(ctx, msg)
	case secretSeen:
		c.secretSeen(ctx, msg.content)
	case messages.SaveConfig:
		ctx.Respond(c.save(ctx, msg))
	case getConfig:
		ctx.Respond(c.current(ctx))
	case lead:
		c.lead(ctx, msg)
	case clusterWentBack:
		c.clusterWentBack(ctx, msg)
	case compareAgain:
		c.compareAgain(ctx, msg)
	case removeConfirmation:
		c.removeConfirmation(ctx, msg)
	case getKnownConfig:
		ctx.Respond(knownConfig{c.known, c.refusedAll()})
		return
	case messages.CheckConfig:
		ctx.Respond(c.checked(msg))
		return
	case addSections:
		c.addSections(ctx, msg)
	case messages.SetDynamicFlags:
		c.warnUnknownFlags(msg.Flags, msg.By)
		c.enabling.Dynamic = msg.Flags
		c.enablingChanged(ctx)
	case scriptsAnswered:
		c.enabling.Scripts = msg.scripts
		c.enablingChanged(ctx)
	case keepAgain:
		c.kept.waits = false
	default:
		unhandled(ctx, c.log)
	}
	c.noteWritten(ctx)
	c.publish(ctx)
	c.keep(ctx)
}

// checked answers who wants to write a content of the ConfigMap.
func (c *config) checked(msg messages.CheckConfig) messages.ConfigChecked {
	var answer messages.ConfigChecked
	if _, err := c.check(msg.Data); err != nil {
		answer.Refused = err.Error()
	}
	answer.Deleted, answer.LastValid = c.refused == c.absence().Error(), maps.Clone(c.known)
	if path, err := values.ParsePath(msg.Path); err == nil && len(path) > 0 {
		if section := c.knownSection(path[0]); section != nil {
			answer.Marked, answer.InSecret = section.Marked(path[1:]), section.InSecret(path[1:])
		}
	}
	return answer
}

func (c *config) publish(ctx actor.Context) {
	status := view.ConfigStatus{Revision: c.revision, Refused: c.refusedAll(), OnlySecret: c.refused == "" && c.secret.refused != ""}
	if c.fromKept || c.secret.fromKept {
		status.From = c.program.LastValid.String()
	}
	c.program.Inspector.Publish(ctx.Self(), status)
}

// inForce notes that a content of the ConfigMap in the cluster is in force.
func (c *config) inForce(revision string) {
	c.refused, c.revision, c.fromKept, c.secret.configCandidate = "", revision, false, nil
}

// addSections adds to config the modules that were found after the start; each gets its
// section of the ConfigMap before who asked for the modules is answered.
type addSections struct {
	modules  []addons.Module
	sections map[string]*values.Section
}

func (c *config) addSections(ctx actor.Context, msg addSections) {
	c.modules = msg.modules
	for key, section := range msg.sections {
		c.sections[key] = section
		c.deliver(ctx, key)
	}
	c.tellMisplaced()
	c.secretKnown()
	if ctx.Sender() != nil {
		ctx.Respond(work.ModulesSpawned{})
	}
}

// announceSection sends a section to its owner that the owner itself has changed, without knowing it.
func (c *config) announceSection(ctx actor.Context, key string) {
	changed := messages.ConfigChanged{Revision: c.revision}
	if doc, err := c.document(); err == nil { // known is valid by definition
		changed.Flags, changed.Maintenance = doc.Flags, doc.Maintenance
	}
	c.deliver(ctx, key)
	if key == values.GlobalKey {
		changed.Global = true
	} else {
		changed.Modules = []string{c.moduleName(key)}
	}
	ctx.Send(c.program.PID(convergePath), changed)
}

func (c *config) deliver(ctx actor.Context, key string) {
	doc, err := c.document()
	if err != nil {
		return // known is valid by definition
	}
	ctx.Send(c.owner(key), c.setConfig(doc, key))
}

// older compares two resourceVersions; an empty one, of a ConfigMap that does not exist,
// is never older.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// errDeleted refuses the absence of a ConfigMap that had content: it may be between the two
// halves of 'kubectl replace --force'. Absence is not an order to delete (P1). errDeletedBefore
// is the same where the last valid content is kept over a restart (P3).
var (
	errDeleted       = errors.New("the ConfigMap is deleted; create it again before the operator restarts, or create an empty ConfigMap to remove all overrides")
	errDeletedBefore = errors.New("the ConfigMap is deleted; create it again, or create an empty ConfigMap to remove all overrides")
)

// absence is the error for a ConfigMap that is deleted.
func (c *config) absence() error {
	if c.program.LastValid != nil {
		return errDeletedBefore
	}
	return errDeleted
}

// seen handles a content of the ConfigMap that may be new. What the operator wrote
// itself is known already and triggers nothing (D14). Without a ConfigMap from the start
// nothing is known, and an absence changes nothing (D13).
func (c *config) seen(ctx actor.Context, msg messages.ConfigMapSeen) {
	if msg.WentBack {
		c.ahead = ""
	}
	if older(msg.ResourceVersion, c.ahead) {
		c.log.Debug("news of the ConfigMap is older than what is known, so it is dropped", "resourceVersion", msg.ResourceVersion, "known", c.ahead)
		return // late news
	}
	if msg.ResourceVersion == "" && len(c.known) > 0 {
		c.secret.configCandidate = nil
		c.refuse(c.absence())
		return
	}
	c.confirmationSeen(ctx, msg.ConfirmPurge)
	c.writtenSeen(msg.Written)
	if maps.Equal(msg.Data, c.known) {
		if c.refused != "" {
			c.log.Info("the ConfigMap has its last valid content again")
			c.noticeAccepted()
		}
		c.inForce(msg.ResourceVersion)
		return
	}
	before, beforeErr := c.document()
	if beforeErr != nil { // what is known was valid when it became known
		c.log.Error("bug: the known values are not valid", "err", beforeErr)
	}
	doc, withSecret := c.withCandidate(msg.Data)
	var err error
	if !withSecret {
		doc, err = c.check(msg.Data)
	}
	if err != nil {
		candidate := kube.ConfigMap(msg)
		c.secret.configCandidate = &candidate
		c.refuse(err)
		return
	}
	c.warnLost(before, doc)
	c.configAccepted(msg.ResourceVersion)
	c.changed(ctx, before, doc)
	c.known = maps.Clone(msg.Data)
	if withSecret {
		c.takeCandidate()
	}
	c.tellMisplaced()
	c.secretKnown()
}

// meet handles a content that was not shown by the watch.
func (c *config) meet(ctx actor.Context, cm kube.ConfigMap) {
	c.seen(ctx, messages.ConfigMapSeen(cm))
	c.goAhead(cm)
}

// goAhead notes that the content is known already: older news of the watch is late. A
// ConfigMap that does not exist has no version.
func (c *config) goAhead(cm kube.ConfigMap) {
	if cm.Exists() {
		c.ahead = cm.ResourceVersion
	}
}

// noticeAccepted reports the end of a refusal that was reported.
func (c *config) noticeAccepted() {
	c.notify(kube.Notice{OnConfigMap: true, Reason: "Accepted", Message: "The values are valid again and in force"})
}

// getConfig asks config of a follower for the content that is in force; it answers
// currentConfig.
type getConfig struct{}

type currentConfig struct {
	known    map[string]string
	revision string
	secret   initialSecret
}

// current looks once more before this replica takes over: its watch may be late.
func (c *config) current(ctx actor.Context) currentConfig {
	reading, cancel := context.WithTimeout(c.program.Writes, writeTimeout)
	defer cancel()
	if cm, err := c.program.ConfigMap.Read(reading); err != nil {
		c.log.Warn("the ConfigMap cannot be read now; this replica begins with what it saw last", "err", err)
	} else if !older(cm.ResourceVersion, c.revision) {
		c.meet(ctx, cm)
	}
	c.currentSecret(ctx)
	return currentConfig{c.known, c.revision, initialSecret{c.secret.known, c.secret.revision, c.program.secretOff.Load()}}
}

// lead begins to announce what people write into the ConfigMap, and what came since the
// owners were spawned.
func (c *config) lead(ctx actor.Context, msg lead) {
	c.standby = false
	c.tellConfirmation(ctx, c.confirmPurge)
	if c.refused != "" {
		c.noticeRefused(c.refused)
	}
	c.warnLostBefore()
	if c.secret.refused != "" {
		c.noticeSecretRefused(c.secret.refused)
	}
	before, errBefore := decide.Parse(msg.known, msg.secret)
	after, errAfter := c.document()
	if err := errors.Join(errBefore, errAfter); err != nil { // both were valid when they became known
		c.log.Error("bug: the known content of the ConfigMap is not valid", "err", err)
		return
	}
	c.announce(ctx, before, after)
	c.secret.misplaced = nil // no Event was recorded
	c.tellMisplaced()
}

// refuse keeps the last valid values in force; nothing is queued (D16, D36).
func (c *config) refuse(err error) {
	c.program.Metrics.Converge.ConfigRefused.Inc()
	if c.refused == err.Error() {
		return
	}
	if errors.Is(err, c.absence()) {
		c.log.Warn("the last valid values stay in force", "err", err)
	} else {
		c.log.Error("the ConfigMap is refused as a whole; the last valid values stay in force until it is fixed", "err", err)
	}
	c.noticeRefused(err.Error())
	c.refused = err.Error()
}

func (c *config) noticeRefused(why string) {
	what := "The values are refused as a whole, the last valid ones stay in force: "
	switch {
	case c.fromKept:
		what = fmt.Sprintf("The operator has started with the last valid values, from %s, they stay in force: ", c.program.LastValid)
	case why == c.absence().Error():
		what = "The last valid values stay in force: "
	}
	c.notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "Refused", Message: what + why})
}

// notify records an Event, unless that is for the leader to do.
func (c *config) notify(n kube.Notice) {
	if !c.standby {
		c.program.notify(n)
	}
}

// announce sends the owners of changed sections, then converge, what is new.
func (c *config) announce(ctx actor.Context, before, after values.Document) {
	changed := messages.ConfigChanged{
		Flags: after.Flags, FlagsChanged: !maps.Equal(before.Flags, after.Flags), Maintenance: after.Maintenance, Revision: c.revision,
	}
	maintenance := !maps.Equal(before.Maintenance, after.Maintenance)
	keys := slices.Sorted(maps.Keys(c.sections))
	for _, key := range keys {
		if !decide.Changed(before, after, key) {
			continue
		}
		ctx.Send(c.owner(key), c.setConfig(after, key))
		if key == values.GlobalKey {
			changed.Global = true
		} else {
			changed.Modules = append(changed.Modules, c.moduleName(key))
		}
	}
	log := c.log
	switch {
	case maintenance:
		log = log.With("maintenance", true)
	case !changed.Global && !changed.FlagsChanged && len(changed.Modules) == 0:
		return // only texts changed: comments, order of keys
	}
	log.Info("config values changed", "global", changed.Global, "modules", changed.Modules, "flags", changed.FlagsChanged, "revision", changed.Revision)
	ctx.Send(c.program.PID(convergePath), changed)
}

// origin is that of what people wrote into the ConfigMap: which content, and since when it is in force.
func (c *config) origin() values.Origin {
	return values.Origin{Revision: c.revision, Time: time.Now()}
}

func (c *config) owner(key string) *actor.PID {
	if key == values.GlobalKey {
		return c.program.PID(globalPath)
	}
	return c.program.owner(c.moduleName(key))
}

func (c *config) moduleName(key string) string {
	for _, m := range c.modules {
		if m.Key == key {
			return m.Name
		}
	}
	return key
}
