package actors

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// config owns the ConfigMap and the Secret with values, which are one document: it validates what people write into
// them, refuses both as a whole (D16, D40) or sends every owner what changed, and is their only writer.
//
// It may block on the API server: only runs that save values wait for it, and writes are bounded by
// writeTimeout.
type config struct {
	program *program
	log     *slog.Logger
	started func(self *actor.PID) // begins to watch, once in the life of the process

	configMap, secret *layer
	// refused is why what is in the cluster of both is not in force; nil when it is. fromKept: the last valid
	// contents that an earlier process has kept are in force (P3).
	refused  error
	fromKept bool
	// schemas are what both are checked against (see rules). doc is what is in force of both; it
	// changes in step with the known texts of the layers.
	schemas plan.Schemas
	global  addons.Global
	doc     values.Document

	kept      kept
	confirmed confirmation
	misplaced []string // the values that warnMisplaced has reported
}

// Initial is the ConfigMap as it was read at the start.
type initialConfig struct {
	Data     map[string]string
	Revision string
	Flags    map[string]bool // by flag key
	// Maintenance are the modes by maintenance key (H15).
	Maintenance map[string]string
	// Sections are by key, without their parts of ConfigMap and Secret: what contents are checked
	// with.
	Sections map[string]*values.Section
	Modules  []addons.Module
	Global   addons.Global
	// Refused says why what is in the cluster is not in force from the start: Data and Secret are the last valid
	// contents that were kept (P3). InCluster and SecretInCluster are what was read.
	Refused                    error
	InCluster, SecretInCluster kube.ConfigMap
	Secret                     initialSecret
}

// New makes config with the contents that boot has read and checked. Watches begin only in
// started, when the actor can receive what they report. What the start took from the kept content
// counts as kept, so that it is not written again.
func newConfig(ctx context.Context, p *program, initial initialConfig) actor.Actor {
	c := &config{
		program: p, log: p.Log,
		configMap: newLayer("the ConfigMap", errDeleted, initial.Data, initial.Revision),
		secret:    newLayer("the Secret with values", errSecretDeleted, initial.Secret.Data, initial.Secret.Revision),
		schemas:   plan.Schemas{Sections: initial.Sections, Modules: initial.Modules},
		global:    initial.Global,
		refused:   initial.Refused, fromKept: initial.Refused != nil,
		confirmed: confirmation{program: p},
	}
	c.configMap.store = p.ConfigMap
	if p.LastValid != nil {
		c.configMap.deleted, c.secret.deleted = errDeletedBefore, errSecretDeletedBefore
	}
	if c.fromKept {
		c.kept = kept{known: true, values: kube.LastValid{Config: initial.Data, Secret: initial.Secret.Data}}
		c.configMap.now, c.configMap.seen = initial.InCluster, true
		c.secret.now, c.secret.seen = initial.SecretInCluster, !initial.Secret.Off
	}
	if !initial.Secret.Off && p.Secret != nil {
		c.secret.store = p.Secret
	}
	var err error
	if c.doc, err = plan.Parse(c.configMap.known, c.secret.known); err != nil { // the start has checked it
		c.log.Error("bug: the initial values are not valid", "err", err)
	}
	c.started = func(self *actor.PID) {
		c.noticeRefused()
		c.configMap.store.Watch(ctx, func(content kube.ConfigMap) { p.Send(self, configMapSeen{content}) })
		if c.secret.store != nil {
			c.secret.store.Watch(ctx, func(content kube.ConfigMap) { p.Send(self, secretSeen{content}) })
		}
		c.sectionsKnown()
	}
	return c
}

// configMapSeen is the content of the ConfigMap as the API server shows it.
type configMapSeen struct{ content kube.ConfigMap }

// LogValue keeps it out of logs.
func (configMapSeen) LogValue() slog.Value { return slog.StringValue("the ConfigMap") }

// secretSeen is the content of the Secret as the API server shows it.
type secretSeen struct{ content kube.ConfigMap }

// LogValue keeps it out of logs.
func (secretSeen) LogValue() slog.Value { return slog.StringValue("the Secret") }

// Receive implements actor.Actor.
func (c *config) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.started(ctx.Self())
	case configMapSeen:
		c.seen(ctx, c.configMap, msg.content)
	case secretSeen:
		c.seen(ctx, c.secret, msg.content)
	case messages.SaveConfig:
		ctx.Respond(c.save(ctx, msg))
	case messages.RemoveConfirmation:
		if left, ok := c.confirmed.remove(msg.Value); ok {
			c.meet(ctx, c.configMap, left)
		}
	case messages.CheckConfig:
		ctx.Respond(c.checked(msg))
		return
	case addSections:
		c.addSections(ctx, msg)
	case offerSections:
		ctx.Respond(sectionsOffered{Refused: c.offered(ctx, msg)})
	case messages.SetDynamicFlags:
		warn(c.log, plan.UnknownFlags(msg.Flags, msg.By, c.schemas.Enabling.Dynamic, c.schemas.Sections))
		c.schemas.Enabling.Dynamic = msg.Flags
		c.enablingChanged(ctx)
	case messages.ScriptsAnswered:
		c.schemas.Enabling.Scripts = msg.Scripts
		c.enablingChanged(ctx)
	case keepAgain:
		c.kept.waits = false
	default:
		unhandled(ctx, c.log)
	}
	// Each message may have changed what is in force, so what depends on it is brought up to date
	// here, in one place.
	c.publish(ctx)
	c.kept.keep(ctx, c.program, kube.LastValid{Config: c.configMap.known, Secret: c.secret.known})
}

// checked answers a person or program that wants to write a content of the ConfigMap: whether it
// would be refused, and what the path in question is.
func (c *config) checked(msg messages.CheckConfig) messages.ConfigChecked {
	var answer messages.ConfigChecked
	if _, err := c.schemas.Check(msg.Data, c.secret.now.Data); err != nil {
		answer.Refused = err.Error()
	}
	answer.Deleted, answer.LastValid = c.configMap.isDeleted(), maps.Clone(c.configMap.known)
	if path, err := values.ParsePath(msg.Path); err == nil && len(path) > 0 {
		answer.Unknown = plan.UnknownKey(path[0], c.schemas.Sections)
		if section := c.schemas.Section(path[0], c.doc); section != nil {
			answer.Marked, answer.InSecret = section.Secrets().Marked(path[1:]), section.Secrets().Stored(path[1:])
		}
	}
	return answer
}

func (c *config) publish(ctx actor.Context) {
	status := view.ConfigStatus{Revision: c.configMap.revision, Data: c.configMap.known}
	if c.refused != nil {
		status.Refused = c.refused.Error()
	}
	if c.fromKept {
		status.From = c.program.LastValid.String()
	}
	for _, w := range plan.UnknownKeys(c.doc, values.Document{}, c.schemas.Sections) {
		status.Unknown = append(status.Unknown, w.Public)
	}
	c.program.Inspector.Publish(ctx.Self(), status)
}

func (c *config) addSections(ctx actor.Context, msg addSections) {
	c.schemas.Modules = msg.Modules
	for key, section := range msg.Sections {
		c.schemas.Sections[key] = section
		c.deliver(ctx, key)
	}
	c.sectionsKnown()
	ctx.Respond(sectionsAdded{})
}

// offered checks static values and schemas that are to replace others together with what people
// wrote, and uses those that fit from now on (P8). Sections of modules that are off are not checked
// (D37). Their owners receive them next, from the caller.
func (c *config) offered(ctx actor.Context, msg offerSections) (refused map[string]error) {
	refused = map[string]error{}
	for _, key := range slices.Sorted(maps.Keys(msg.Sections)) {
		i := slices.IndexFunc(msg.Modules, func(m addons.Module) bool { return m.Key == key })
		if key == values.GlobalKey || i >= 0 && c.schemas.Enabling.Concerns(msg.Modules[i], c.doc.Flags) {
			if err := plan.Fits(msg.Sections[key], c.doc); err != nil {
				refused[key] = err
				continue
			}
		}
		c.schemas.Sections[key] = msg.Sections[key]
	}
	if refused[values.GlobalKey] == nil {
		c.global = msg.Global
	}
	c.enablingChanged(ctx) // what was refused before may fit now
	c.sectionsKnown()
	return refused
}

// sectionsKnown looks for secrets in what is in force: their texts are not shown, and those in the ConfigMap are
// reported.
func (c *config) sectionsKnown() {
	if c.secret.store != nil {
		c.warnMisplaced()
	}
	for key := range c.schemas.Sections {
		c.program.Secrets.Know("config/"+key, c.schemas.Section(key, c.doc).Secrets().Texts())
	}
}

// seen handles a content of the ConfigMap or the Secret that may be new. What the operator wrote
// itself is known already and triggers nothing (D14). If there was no ConfigMap from the start, its
// absence changes nothing (D13); if it had content, its absence is refused (P1).
func (c *config) seen(ctx actor.Context, l *layer, content kube.ConfigMap) {
	if l.late(content) {
		c.log.Debug("an event of the watch of "+l.name+" is older than the known version and is dropped", "resourceVersion", content.ResourceVersion, "known", l.ahead)
		return
	}
	l.now, l.seen = content, true
	c.judge(ctx)
	if l == c.configMap && content.Exists() {
		// After the values with which it was written: what it allows may follow from them.
		c.confirmed.seen(ctx, content.ConfirmPurge)
	}
}

// judge puts what is in the cluster in force, ConfigMap and Secret together, or refuses it.
func (c *config) judge(ctx actor.Context) {
	for _, l := range []*layer{c.configMap, c.secret} {
		if l.isDeleted() {
			c.refuse(l.deleted)
			return
		}
	}
	before, changed := c.doc, !c.configMap.inForce() || !c.secret.inForce()
	if changed {
		doc, err := c.schemas.Check(c.configMap.now.Data, c.secret.now.Data)
		if err != nil {
			c.refuse(err)
			return
		}
		c.doc = doc
	}
	if c.refused != nil {
		how := "the values are valid again and in force"
		if !changed {
			how = "the values are the last valid ones again"
		}
		c.log.Info(how)
		c.notify(kube.Notice{Reason: "Accepted", Message: "The values are valid again and in force"})
	}
	c.refused, c.fromKept = nil, false
	for _, l := range []*layer{c.configMap, c.secret} {
		l.known, l.revision = maps.Clone(l.now.Data), l.now.ResourceVersion
	}
	if changed {
		c.changed(ctx, before)
		c.sectionsKnown()
	}
}

// refuse keeps the last valid values in force and queues nothing (P1, D16, D36, D40). The same reason is logged once,
// but counted each time.
func (c *config) refuse(err error) {
	c.program.Metrics.ConfigRefused.Inc()
	if c.refused != nil && c.refused.Error() == err.Error() {
		return
	}
	c.refused = err
	c.log.Error("ConfigMap and Secret are refused as a whole; the last valid values stay in force until they are fixed",
		"err", err)
	c.noticeRefused()
}

// noticeRefused records why what is in the cluster is not in force, if it is not.
func (c *config) noticeRefused() {
	if c.refused == nil {
		return
	}
	what := "The values are refused as a whole; the last valid ones stay in force: "
	if c.fromKept {
		what = fmt.Sprintf("The operator has started with the last valid values, from %s, which stay in force: ", c.program.LastValid)
	}
	c.notify(kube.Notice{Warning: true, Reason: "Refused", Message: what + values.Public(c.refused)})
}

// notify records an Event on the ConfigMap.
func (c *config) notify(n kube.Notice) {
	n.OnConfigMap = true
	c.program.Notify(n)
}

// texts returns the texts of ConfigMap and Secret, in this order, with others for a layer.
func (c *config) texts(l *layer, its map[string]string) (inConfig, inSecret map[string]string) {
	if l == c.secret {
		return c.configMap.known, its
	}
	return its, c.secret.known
}

// enablingChanged checks a refused content again: the module for which it was refused may be off by
// now, and is not checked then (D37).
func (c *config) enablingChanged(ctx actor.Context) {
	if c.refused != nil {
		c.judge(ctx)
	}
}

// meet handles a content that did not come from the watch: the watch may show older ones after it.
func (c *config) meet(ctx actor.Context, l *layer, content kube.ConfigMap) {
	c.seen(ctx, l, content)
	l.goAhead(content)
}

// maxNamed is how many unknown modules an Event names.
const maxNamed = 10

// changed notifies the actors concerned of what is new.
func (c *config) changed(ctx actor.Context, before values.Document) {
	unknown := plan.UnknownKeys(c.doc, before, c.schemas.Sections)
	warn(c.log, unknown)
	var sentences []string
	for _, w := range unknown[:min(len(unknown), maxNamed)] {
		sentences = append(sentences, w.Public)
	}
	if len(unknown) > 0 {
		c.notify(kube.Notice{Warning: true, Reason: "UnknownModule", Message: unknown[0].Text + ": " + strings.Join(sentences, "; ")})
	}
	c.announce(ctx, before)
}

// warn logs what people should know of a content that is accepted.
func warn(log *slog.Logger, warnings []plan.Warning) {
	for _, w := range warnings {
		log.Warn(w.Text, w.Attrs...)
	}
}

// announce sends the owners of changed sections, then converge, what is new. Owners come first: the
// runs that converge queues must see the new values.
func (c *config) announce(ctx actor.Context, before values.Document) {
	change := c.schemas.Change(before, c.doc)
	if !change.Any() {
		return // only texts changed: comments, order of keys
	}
	log := c.log
	if change.Maintenance {
		log = log.With("maintenance", true)
	}
	log.Info("config values changed", "global", change.Global, "modules", change.Modules, "flags", change.Flags, "revision", c.configMap.revision)
	c.send(ctx, change, before)
}

// send gives owners their sections, then converge what that changes.
func (c *config) send(ctx actor.Context, change plan.Change, before values.Document) {
	for _, key := range change.Keys {
		c.deliver(ctx, key)
	}
	ctx.Send(c.program.PID(convergePath), messages.ConfigChanged{
		Global: change.Global, Modules: change.Modules, Flags: c.doc.Flags, FlagsChanged: change.Flags, Maintenance: c.doc.Maintenance, Cause: cause(c.schemas, change, before, c.doc),
	})
}

// deliver sends an owner its parts of ConfigMap and Secret.
func (c *config) deliver(ctx actor.Context, key string) {
	owner, now := messages.GlobalHooks, time.Now()
	if key != values.GlobalKey {
		owner = c.schemas.ModuleName(key)
	}
	ctx.Send(c.program.Owner(owner), messages.SetConfig{
		Section: c.doc.Sections[key], Origin: values.Origin{Revision: c.configMap.revision, Time: now},
		Secret: c.doc.Secrets[key], SecretOrigin: values.Origin{Revision: c.secret.revision, Time: now},
	})
}

// warnMisplaced reports each value once that a schema marks as a secret while it is in the ConfigMap (D41).
func (c *config) warnMisplaced() {
	paths := slices.DeleteFunc(c.schemas.Misplaced(c.doc), func(path string) bool { return slices.Contains(c.misplaced, path) })
	if len(paths) == 0 {
		return
	}
	c.misplaced = append(c.misplaced, paths...)
	c.log.Warn("values that a schema marks as secrets are in the ConfigMap, where more people can read them; move them to the Secret", "paths", paths)
	c.notify(kube.Notice{Warning: true, Reason: "SecretInConfigMap", Message: "The ConfigMap has values that a schema marks as secrets; move them to the Secret with values: " + strings.Join(paths, ", ")})
}

// cause words a change of ConfigMap or Secret: which values are others than before. A value that a section has got, and
// that was in force already, is named by its section.
func cause(s plan.Schemas, change plan.Change, before, after values.Document) messages.Cause {
	var paths, words []string
	add := func(path, was, is string) {
		paths, words = append(paths, path), append(words, path+": "+was+" -> "+is)
	}
	inConfigMap := change.Flags || change.Maintenance
	for _, key := range change.Keys {
		found := s.Section(key, after).Diff(s.Section(key, before))
		for _, c := range found {
			add(c.Path, word(c.Before, !c.Added), word(c.After, !c.Gone))
		}
		if len(found) == 0 {
			paths, words = append(paths, key), append(words, key)
		}
		inConfigMap = inConfigMap || values.Checksum(before.Sections[key]) != values.Checksum(after.Sections[key])
	}
	differ(before.Flags, after.Flags, add)
	differ(before.Maintenance, after.Maintenance, add)
	where := " in ConfigMap"
	if !inConfigMap {
		where = " in Secret"
	}
	return messages.Cause{Activation: messages.ByConfigMap, Detail: messages.Few(3, paths) + where, Change: messages.Few(3, words) + where}
}

// differ finds the keys that have another value, in their order.
func differ[V comparable](before, after map[string]V, add func(path, was, is string)) {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, had := before[key]
		is, has := after[key]
		if was != is || had != has {
			add(key, word(was, had), word(is, has))
		}
	}
}

// word is a value on one short line.
func word(value any, there bool) string {
	if !there {
		return "(none)"
	}
	text, _ := values.Encode(value) // what JSON cannot say is shown as nothing
	return values.Shorten(string(text), 60)
}

// confirmation is the annotation of the ConfigMap that confirms a purge, as config saw it last.
type confirmation struct {
	program *program
	value   string
}

// seen notes the annotation of a ConfigMap, valid or not.
func (c *confirmation) seen(ctx actor.Context, value string) {
	if value != c.value {
		c.value = value
		c.send(ctx)
	}
}

// send notifies converge of it.
func (c *confirmation) send(ctx actor.Context) {
	if c.value != "" {
		ctx.Send(c.program.PID(convergePath), messages.ConfirmPurge{Value: c.value})
	}
}

// remove takes the annotation off the ConfigMap, whose new content it returns. Another value, which
// a person has set since, stays.
func (c *confirmation) remove(value string) (left kube.ConfigMap, ok bool) {
	writing, cancel := context.WithTimeout(c.program.WriteContext, writeTimeout)
	defer cancel()
	left, err := c.program.ConfigMap.RemoveConfirmation(writing, value)
	if err != nil {
		c.program.Log.Warn("the confirmation of a purge cannot be removed; remove the annotation manually, or it is evaluated again after a restart", "annotation", kube.ConfirmPurgeAnnotation, "err", err)
	}
	return left, err == nil
}
