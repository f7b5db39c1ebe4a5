package configmap

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// config owns the ConfigMap and the Secret with values: it validates what people write into them,
// refuses a change of one as a whole (D16) or sends every owner what changed, and is their only
// writer.
//
// It may block on the API server: only runs that save values wait for it, and writes are bounded by
// writeTimeout.
type config struct {
	program *shared.Program
	log     *slog.Logger
	report  *reporter
	started func(self *actor.PID) // begins to watch, once in the life of the process

	configMap, secret *layer
	// schemas are what both are checked against (see rules). doc is what is in force of both; it
	// changes in step with the known texts of the layers.
	schemas decide.Schemas
	global  addons.Global
	doc     values.Document

	kept      kept
	confirmed confirmation
	misplaced misplaced
}

// Initial is the ConfigMap as it was read at the start.
type Initial struct {
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
	// Refused and SecretRefused say why the ConfigMap, or the Secret with values, is not in force
	// from the start: Data and Secret are the last valid contents that were kept (P3).
	Refused, SecretRefused error
	Secret                 InitialSecret
}

// New makes config with the contents that boot has read and checked. Watches begin only in
// started, when the actor can receive what they report. What the start took from the kept content
// counts as kept, so that it is not written again.
func New(ctx context.Context, p *shared.Program, initial Initial) actor.Actor {
	report := &reporter{program: p, log: p.Log}
	c := &config{
		program: p, log: p.Log, report: report,
		configMap: &layer{
			layerWords: configMapWords(), report: report, store: p.ConfigMap, deleted: errDeleted,
			known: initial.Data, revision: initial.Revision, fromKept: initial.Refused != nil,
		},
		secret: &layer{
			layerWords: secretWords(), report: report, deleted: errSecretDeleted,
			known: initial.Secret.Data, revision: initial.Secret.Revision, fromKept: initial.SecretRefused != nil,
		},
		schemas:   decide.Schemas{Sections: initial.Sections, Modules: initial.Modules},
		global:    initial.Global,
		confirmed: confirmation{report: report},
		misplaced: misplaced{report: report},
	}
	c.configMap.why(initial.Refused)
	c.secret.why(initial.SecretRefused)
	if p.LastValid != nil {
		c.configMap.deleted, c.secret.deleted = ErrDeletedBefore, ErrSecretDeletedBefore
	}
	if c.configMap.fromKept || c.secret.fromKept {
		c.kept = kept{known: true, values: kube.LastValid{Config: initial.Data, Secret: initial.Secret.Data}}
	}
	if !initial.Secret.Off && p.Secret != nil {
		c.secret.store = p.Secret
	}
	var err error
	if c.doc, err = decide.Parse(c.configMap.known, c.secret.known); err != nil { // the start has checked it
		c.log.Error("bug: the initial values are not valid", "err", err)
	}
	c.started = func(self *actor.PID) {
		c.configMap.noticeRefused()
		c.secret.noticeRefused()
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
	case work.AddSections:
		c.addSections(ctx, msg)
	case work.OfferSections:
		ctx.Respond(work.SectionsOffered{Refused: c.offered(ctx, msg)})
	case messages.SetDynamicFlags:
		Warn(c.log, decide.UnknownFlags(msg.Flags, msg.By, c.schemas.Enabling.Dynamic, c.schemas.Sections))
		c.schemas.Enabling.Dynamic = msg.Flags
		c.enablingChanged(ctx)
	case messages.ScriptsAnswered:
		c.schemas.Enabling.Scripts = msg.Scripts
		c.enablingChanged(ctx)
	case keepAgain:
		c.kept.waits = false
	default:
		shared.Unhandled(ctx, c.log)
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
	if _, err := c.schemas.Check(msg.Data, c.secret.known); err != nil {
		answer.Refused = err.Error()
	}
	answer.Deleted, answer.LastValid = c.configMap.isDeleted(), maps.Clone(c.configMap.known)
	if path, err := values.ParsePath(msg.Path); err == nil && len(path) > 0 {
		answer.Unknown = decide.UnknownKey(path[0], c.schemas.Sections)
		if section := c.schemas.Section(path[0], c.doc); section != nil {
			answer.Marked, answer.InSecret = section.Secrets().Marked(path[1:]), section.Secrets().Stored(path[1:])
		}
	}
	return answer
}

func (c *config) publish(ctx actor.Context) {
	status := view.ConfigStatus{Revision: c.configMap.revision, Refused: c.refused(), OnlySecret: c.configMap.refused == "" && c.secret.refused != "", Data: c.configMap.known}
	if c.configMap.fromKept || c.secret.fromKept {
		status.From = c.program.LastValid.String()
	}
	for _, w := range decide.UnknownKeys(c.doc, values.Document{}, c.schemas.Sections) {
		status.Unknown = append(status.Unknown, w.Public)
	}
	c.program.Inspector.Publish(ctx.Self(), status)
}

// refused says why the ConfigMap or the Secret in the cluster is not in force.
func (c *config) refused() string {
	var why []string
	if c.configMap.refused != "" {
		why = append(why, c.configMap.refused)
	}
	if c.secret.refused != "" {
		why = append(why, view.AboutSecret+c.secret.refused)
	}
	return strings.Join(why, "; ")
}

func (c *config) addSections(ctx actor.Context, msg work.AddSections) {
	c.schemas.Modules = msg.Modules
	for key, section := range msg.Sections {
		c.schemas.Sections[key] = section
		c.deliver(ctx, key)
	}
	c.sectionsKnown()
	ctx.Respond(work.SectionsAdded{})
}

// offered checks static values and schemas that are to replace others together with what people
// wrote, and uses those that fit from now on (P8). Sections of modules that are off are not checked
// (D37). Their owners receive them next, from the caller.
func (c *config) offered(ctx actor.Context, msg work.OfferSections) (refused map[string]error) {
	refused = map[string]error{}
	for _, key := range slices.Sorted(maps.Keys(msg.Sections)) {
		i := slices.IndexFunc(msg.Modules, func(m addons.Module) bool { return m.Key == key })
		if key == values.GlobalKey || i >= 0 && c.schemas.Enabling.Concerns(msg.Modules[i], c.doc.Flags) {
			if err := decide.Fits(msg.Sections[key], c.doc); err != nil {
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
		c.misplaced.warn(c.schemas.Misplaced(c.doc))
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
		return
	}
	if !content.Exists() && len(l.known) > 0 {
		l.refuse(nil, l.deleted)
		return
	}
	if l == c.configMap {
		// After the values with which it was written: what it allows may follow from them.
		defer c.confirmed.seen(ctx, content.ConfirmPurge)
	}
	other := c.other(l)
	if maps.Equal(content.Data, l.known) {
		l.accept(content)
		return
	}
	doc, with, err := c.check(l, content.Data)
	if err != nil {
		l.refuse(&content, err)
		return
	}
	before := c.doc
	l.accept(content)
	if with != nil {
		other.accept(*with)
	}
	c.doc = doc
	c.changed(ctx, before)
	c.sectionsKnown()
}

func (c *config) other(l *layer) *layer {
	if l == c.secret {
		return c.configMap
	}
	return c.secret
}

// check validates a content of one layer with the refused content of the other, which it returns if both are valid together,
// or else with the one that is in force: a refused ConfigMap must not keep a credential from being rotated.
func (c *config) check(l *layer, data map[string]string) (doc values.Document, with *kube.ConfigMap, err error) {
	other := c.other(l)
	if other.candidate != nil {
		if doc, err = c.schemas.Check(c.order(l, data, other.candidate.Data)); err == nil {
			return doc, other.candidate, nil
		}
	}
	doc, err = c.schemas.Check(c.order(l, data, other.known))
	return doc, nil, err
}

// order returns the contents of ConfigMap and Secret, in this order, given the content of a layer
// and that of the other.
func (c *config) order(l *layer, its, others map[string]string) (inConfig, inSecret map[string]string) {
	if l == c.secret {
		return others, its
	}
	return its, others
}

// enablingChanged checks a refused content again: the module for which it was refused may be off by
// now, and is not checked then (D37).
func (c *config) enablingChanged(ctx actor.Context) {
	for _, l := range []*layer{c.configMap, c.secret} {
		if l.candidate != nil {
			c.seen(ctx, l, *l.candidate)
		}
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
	unknown := decide.UnknownKeys(c.doc, before, c.schemas.Sections)
	Warn(c.log, unknown)
	var sentences []string
	for _, w := range unknown[:min(len(unknown), maxNamed)] {
		sentences = append(sentences, w.Public)
	}
	if len(unknown) > 0 {
		c.report.notify(kube.Notice{Warning: true, Reason: "UnknownModule", Message: unknown[0].Text + ": " + strings.Join(sentences, "; ")})
	}
	for _, m := range c.schemas.InvalidOff(before, c.doc) {
		c.log.Warn("the values of a module are not valid; they are accepted while a hook or its script disables it; fix them before it is enabled or the operator restarts", "module", m.Name, "err", m.Err)
	}
	c.announce(ctx, before)
}

// Warn logs what people should know of a content that is accepted.
func Warn(log *slog.Logger, warnings []decide.Warning) {
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
func (c *config) send(ctx actor.Context, change decide.Change, before values.Document) {
	for _, key := range change.Keys {
		c.deliver(ctx, key)
	}
	ctx.Send(c.program.PID(work.ConvergePath), messages.ConfigChanged{
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

// misplaced is which values were reported that a schema marks as secrets while they are in the
// ConfigMap (D41).
type misplaced struct {
	report *reporter
	warned []string
}

// warn reports each of these paths once.
func (m *misplaced) warn(paths []string) {
	paths = slices.DeleteFunc(paths, func(path string) bool { return slices.Contains(m.warned, path) })
	if len(paths) == 0 {
		return
	}
	m.warned = append(m.warned, paths...)
	m.report.log.Warn("values that a schema marks as secrets are in the ConfigMap, where more people can read them; move them to the Secret", "paths", paths)
	m.report.notify(kube.Notice{Warning: true, Reason: "SecretInConfigMap", Message: "The ConfigMap has values that a schema marks as secrets; move them to the Secret with values: " + strings.Join(paths, ", ")})
}
