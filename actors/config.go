package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// refused is why what is in the cluster of both is not in force; nil when it is.
	refused error
	// schemas are what both are checked against (see rules). doc is what is in force of both; it
	// changes in step with what is in force of the layers.
	schemas plan.Schemas
	doc     values.Document
	// warnings are what people should know of doc, each a sentence; misplaced are the paths of secrets in the
	// ConfigMap, by section.
	warnings  []string
	misplaced map[string][]string

	kept      *kube.LastValid // what is kept over a restart (P3), nil while that is unknown
	keepWaits bool            // the last attempt to keep it has failed, and the next one comes with keepAgain
	confirmed string          // the annotation of the ConfigMap that confirms a purge, as it was seen last
}

// newConfig makes config with the contents that boot has read and checked. Watches begin only in
// started, when the actor can receive what they report.
func newConfig(ctx context.Context, p *program, b *boot) *config {
	c := &config{
		program: p, log: p.Log, schemas: b.schemas(), doc: b.doc, misplaced: map[string][]string{},
		configMap: &layer{"the ConfigMap", p.ConfigMap, b.inForce.configMap, b.inCluster.configMap},
		secret:    &layer{"the Secret with values", nil, b.inForce.secret, b.inCluster.secret},
	}
	if !b.secretOff {
		c.secret.store = p.Secret
	}
	c.started = func(self *actor.PID) {
		for _, l := range []*layer{c.configMap, c.secret} {
			if l.store != nil {
				l.store.Watch(ctx, func(content kube.ConfigMap) { p.Send(self, contentSeen{l, content}) })
			}
		}
		c.inspect(slices.Collect(maps.Keys(c.schemas.Sections))...)
	}
	return c
}

// contentSeen is the content of the ConfigMap, or of the Secret, as the API server shows it.
type contentSeen struct {
	of      *layer
	content kube.ConfigMap
}

// Receive implements actor.Actor.
func (c *config) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.started(ctx.Self())
	case contentSeen:
		c.seen(ctx, msg.of, msg.content)
	case messages.SaveConfig:
		ctx.Respond(c.save(ctx, msg))
	case messages.RemoveConfirmation:
		c.removeConfirmation(ctx, msg.Value)
	case messages.CheckConfig:
		ctx.Respond(c.checked(msg))
	case addSections:
		ctx.Respond(sectionsAdded{Refused: c.addSections(ctx, msg)})
	case plan.Enabling:
		c.schemas.Enabling = msg
		c.inspect()
	case keepAgain:
		c.keepWaits = false
	default:
		unhandled(ctx, c.log)
	}
	// Each message may have changed what can be in force, or what is, so what depends on it is brought up to date
	// here, in one place. A content that was refused may be valid now: the module for which it was refused may be
	// off, and is not checked then (D37).
	c.judge(ctx)
	c.publish(ctx)
	c.keep(ctx)
}

// checked answers a person or program that wants to write a content of the ConfigMap: whether it
// would be refused, and what the path in question is.
func (c *config) checked(msg messages.CheckConfig) messages.ConfigChecked {
	answer := messages.ConfigChecked{Deleted: c.configMap.isDeleted(), LastValid: maps.Clone(c.configMap.inForce.Data)}
	if _, err := c.schemas.Check(msg.Data, c.secret.now.Data); err != nil {
		answer.Refused = err.Error()
	}
	if path, err := values.ParsePath(msg.Path); err == nil && len(path) > 0 {
		answer.Unknown = c.schemas.NoModule(path[0])
		if section := c.schemas.Section(path[0], c.doc); section != nil {
			answer.Marked, answer.InSecret = section.Secrets().Marked(path[1:]), section.Secrets().Stored(path[1:])
		}
	}
	return answer
}

func (c *config) publish(ctx actor.Context) {
	status := view.ConfigStatus{
		Revision: c.configMap.inForce.ResourceVersion, Data: c.configMap.inForce.Data,
		Secret: c.secret.inForce.Data, Warnings: c.warnings,
	}
	if c.refused != nil {
		status.Refused = c.refused.Error()
	}
	c.program.Inspector.Publish(ctx.Self(), status)
}

// addSections takes static values and schemas of new modules, and such that replace others. The latter are checked
// together with what people wrote, and those that fit are used from now on (P8); sections of modules that are off
// are not checked (D37). Owners receive these next, from the caller; the others get their sections here.
func (c *config) addSections(ctx actor.Context, msg addSections) (refused map[string]error) {
	refused = map[string]error{}
	c.schemas.Modules = msg.Modules
	for _, key := range slices.Sorted(maps.Keys(msg.Sections)) {
		i := slices.IndexFunc(msg.Modules, func(m addons.Module) bool { return m.Key == key })
		if msg.Check && (key == values.GlobalKey || i >= 0 && c.schemas.Enabling.Concerns(msg.Modules[i], c.doc.Flags)) {
			if err := plan.Fits(msg.Sections[key], c.doc); err != nil {
				refused[key] = err
				continue
			}
		}
		if c.schemas.Sections[key] = msg.Sections[key]; !msg.Check {
			c.deliver(ctx, key)
		}
	}
	c.inspect(slices.Collect(maps.Keys(msg.Sections))...)
	return refused
}

// inspect looks at what is in force after sections have changed. The texts of secrets are not shown from now on.
// People are told of what looks like a mistake (D12, E16), and of values that a schema marks as secrets but that are
// in the ConfigMap (D41): in the log, as an Event, and on pages while it lasts.
func (c *config) inspect(keys ...string) {
	for _, key := range keys {
		if section := c.schemas.Section(key, c.doc); section != nil { // the others are flags
			c.program.Secrets.Know("config/"+key, section.Secrets().Texts())
			c.misplaced[key] = section.Secrets().Misplaced()
		}
	}
	before := c.warnings
	c.warnings = c.schemas.Unknown(c.doc)
	for _, key := range slices.Sorted(maps.Keys(c.misplaced)) {
		if paths := c.misplaced[key]; len(paths) > 0 && c.secret.store != nil {
			text := "secrets, by their schema, are in the ConfigMap, which more people can read: "
			c.warnings = append(c.warnings, text+messages.Few(maxNamed, paths))
		}
	}
	news := slices.DeleteFunc(slices.Clone(c.warnings), func(text string) bool { return slices.Contains(before, text) })
	if len(news) > 0 {
		text := messages.Few(maxNamed, news)
		c.log.Warn("the values may have mistakes", "about", text) // no failure of which one of each kind is enough
		c.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "ValuesWarning", Message: text})
	}
}

// maxNamed is how many mistakes the log and an Event name.
const maxNamed = 10

// seen handles a content of the ConfigMap or the Secret: of its watch, or of a read after a conflict. The
// watch may show older contents after one that was written or read.
func (c *config) seen(ctx actor.Context, l *layer, content kube.ConfigMap) {
	if kube.Older(content.ResourceVersion, l.now.ResourceVersion) {
		c.log.Debug("an event of the watch of "+l.name+" is older than the known version and is dropped", "resourceVersion", content.ResourceVersion, "known", l.now.ResourceVersion)
		return
	}
	l.now = content
	c.judge(ctx)
	if l == c.configMap && content.Exists() && content.ConfirmPurge != c.confirmed {
		// After the values with which it was written: what it allows may follow from them.
		if c.confirmed = content.ConfirmPurge; c.confirmed != "" {
			ctx.Send(c.program.PID(convergePath), messages.ConfirmPurge{Value: c.confirmed})
		}
	}
}

// judge puts what is in the cluster in force, ConfigMap and Secret together, or refuses it. What the operator wrote
// itself is in force already and triggers nothing (D14). If there was no ConfigMap from the start, its
// absence changes nothing (D13); if it had content, its absence is refused (P1).
func (c *config) judge(ctx actor.Context) {
	before, same := c.doc, c.configMap.isInForce() && c.secret.isInForce()
	for _, l := range []*layer{c.configMap, c.secret} {
		if l.isDeleted() {
			c.refuse(deletedError(l.name))
			return
		}
	}
	if !same {
		doc, err := c.schemas.Check(c.configMap.now.Data, c.secret.now.Data)
		if err != nil {
			c.refuse(err)
			return
		}
		c.doc = doc
	}
	if c.refused != nil {
		c.log.Info("the values are valid again and in force")
		c.program.Notify(kube.Notice{OnConfigMap: true, Reason: "Accepted", Message: "The values are valid again and in force"})
	}
	c.refused, c.configMap.inForce, c.secret.inForce = nil, c.configMap.now, c.secret.now
	if !same {
		c.changed(ctx, before)
	}
}

// refuse keeps the last valid values in force and queues nothing (P1, D16, D36, D40).
func (c *config) refuse(err error) {
	if c.refused != nil && c.refused.Error() == err.Error() {
		return
	}
	c.refused = err
	c.program.Metrics.ConfigRefused.Inc()
	c.log.Error("ConfigMap and Secret are refused as a whole; the last valid values stay in force until they are fixed",
		"err", err)
	text := "The values are refused as a whole; the last valid ones stay in force: " + values.Public(err)
	c.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "Refused", Message: text})
}

// changed gives owners their sections, then converge what that changes. Owners come first: the
// runs that converge queues must see the new values.
func (c *config) changed(ctx actor.Context, before values.Document) {
	keys, change := c.schemas.Change(before, c.doc)
	if c.inspect(keys...); len(keys) == 0 {
		return
	}
	c.log.Info("config values changed", "global", change.Global, "modules", change.Modules,
		"flags", change.FlagsChanged, "revision", c.configMap.inForce.ResourceVersion)
	for _, key := range keys {
		if c.schemas.Sections[key] != nil { // the others are flags
			c.deliver(ctx, key)
		}
	}
	ctx.Send(c.program.PID(convergePath), change)
}

// deliver sends an owner its parts of ConfigMap and Secret.
func (c *config) deliver(ctx actor.Context, key string) {
	owner, now := messages.GlobalHooks, time.Now()
	if key != values.GlobalKey {
		owner = values.NameOf(key)
	}
	ctx.Send(c.program.Owner(owner), messages.SetConfig{
		Section: c.doc.Sections[key], Origin: values.Origin{Revision: c.configMap.inForce.ResourceVersion, Time: now},
		Secret: c.doc.Secrets[key], SecretOrigin: values.Origin{Revision: c.secret.inForce.ResourceVersion, Time: now},
	})
}

// removeConfirmation takes the annotation that confirms a purge off the ConfigMap. Another value, which
// a person has set since, stays.
func (c *config) removeConfirmation(ctx actor.Context, value string) {
	writing, cancel := context.WithTimeout(c.program.WriteContext, writeTimeout)
	defer cancel()
	left, err := c.program.ConfigMap.RemoveConfirmation(writing, value)
	if err != nil {
		c.log.Warn("the confirmation of a purge cannot be removed; remove the annotation manually, or it is evaluated again after a restart", "annotation", kube.ConfirmPurgeAnnotation, "err", err)
		return
	}
	c.seen(ctx, c.configMap, left)
}

// writeTimeout bounds one write to the API server; a hook run waits for it and is
// retried after it. Config handles nothing else meanwhile.
const writeTimeout = 30 * time.Second

// save writes one section and flags. If another writer changed one of these keys meanwhile, its
// change is handled first, as if the watch had shown it. A ConfigMap that was deleted is created
// with all that is known: with the section alone it would be valid, and remove everything else
// (P1).
//
// The Secret is written before the ConfigMap: what a patch moves from the ConfigMap to the Secret
// is there by then, so no failure after it loses a value.
//
// The answer is Conflict when the owner computed the section from another content than that which
// is in force: the owner receives that, and applies the patch again (D24). After an error the run
// of the hook fails.
func (c *config) save(ctx actor.Context, msg messages.SaveConfig) messages.ConfigSaved {
	section := c.schemas.Section(msg.Key, c.doc)
	if msg.Key != "" && (section == nil || section.Stored().Checksum() != msg.Base) {
		return messages.ConfigSaved{Conflict: true}
	}
	inConfig, inSecret, err := patched(section, msg)
	if err != nil {
		return messages.ConfigSaved{Err: err}
	}
	var saved messages.ConfigSaved
	before := c.doc // write replaces it
	if len(inSecret) > 0 {
		saved = c.write(ctx, c.secret, inSecret)
	}
	if len(inConfig) > 0 && saved.Err == nil && !saved.Conflict {
		saved = c.write(ctx, c.configMap, inConfig)
		if len(inSecret) > 0 && (saved.Err != nil || saved.Conflict) {
			c.changed(ctx, before) // the owner does not know yet what is in the Secret
		}
	}
	c.inspect(msg.Key)
	if saved.FlagsChanged {
		ctx.Send(c.program.PID(convergePath), messages.ConfigChanged{Flags: c.doc.Flags, Maintenance: c.doc.Maintenance})
	}
	return saved
}

// write sets keys of one layer (D24).
func (c *config) write(ctx actor.Context, l *layer, set map[string]*string) messages.ConfigSaved {
	texts := plan.WithKeys(l.inForce.Data, set)
	doc, err := plan.Parse(texts, c.secret.inForce.Data)
	if l == c.secret {
		doc, err = plan.Parse(c.configMap.inForce.Data, texts)
	}
	if err != nil {
		return messages.ConfigSaved{Err: fmt.Errorf("%s would not be valid: %w", l.name, err)}
	}
	writing, cancel := context.WithTimeout(c.program.WriteContext, writeTimeout)
	defer cancel()
	left, err := l.store.Write(writing, l.inForce.Data, set)
	switch {
	case errors.Is(err, kube.ErrConflict): // left is what is in the cluster instead
		if c.seen(ctx, l, left); c.refused != nil {
			return messages.ConfigSaved{Err: fmt.Errorf("%s was changed and is not valid: %w", l.name, c.refused)}
		}
		return messages.ConfigSaved{Conflict: true}
	case err != nil:
		return messages.ConfigSaved{Err: err}
	}
	saved := messages.ConfigSaved{FlagsChanged: !maps.Equal(c.doc.Flags, doc.Flags)}
	l.now, l.inForce.Data, c.doc = left, texts, doc
	return saved
}

// patched are the keys of ConfigMap and Secret to write (D10, D41); nil removes a key. Sections that
// are equal are not written, so that the texts of people keep their comments (D24).
func patched(section *values.Section, msg messages.SaveConfig) (inConfig, inSecret map[string]*string, err error) {
	inConfig, inSecret = map[string]*string{}, map[string]*string{}
	if msg.Key != "" {
		stored := section.Stored()
		if values.Checksum(stored.Secret) != values.Checksum(msg.Secret) {
			inSecret[msg.Key], err = asYAML(msg.Secret)
		}
		if err == nil && values.Checksum(stored.InConfigMap()) != values.Checksum(msg.Section) {
			inConfig[msg.Key], err = asYAML(msg.Section)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("section %s: %w", msg.Key, err)
		}
	}
	for _, f := range msg.Flags {
		inConfig[f.Key] = nil
		if f.Value != nil {
			inConfig[f.Key] = new(fmt.Sprint(*f.Value))
		}
	}
	return inConfig, inSecret, nil
}

// asYAML is a section as text; nil for none.
func asYAML(section any) (*string, error) {
	if section == nil {
		return nil, nil
	}
	text, err := values.YAML(section)
	return new(string(text)), err
}

// deletedError is the reason for refusing an absence (P1): what is absent had content, and may be between the two
// halves of 'kubectl replace --force'. A restart forgets it, unless the last valid content is kept (P3).
func deletedError(name string) error {
	return fmt.Errorf("%s is deleted; create it again, or create an empty one to remove all that it held, as a restart does"+
		" unless the last valid values are kept", name)
}

// layer is the ConfigMap, or the Secret with values above it (D40): what config knows of the one.
type layer struct {
	name  string
	store Secret // what both can do; nil for a Secret that is not read
	// inForce has the texts of all keys as owners know them: the last valid ones, and what the operator wrote itself, and
	// the version that was in force last as a whole. now is what is in the cluster, as it was read, written or seen last.
	inForce, now kube.ConfigMap
}

// isDeleted reports whether the layer had content and does not exist now.
func (l *layer) isDeleted() bool { return !l.now.Exists() && len(l.inForce.Data) > 0 }

// isInForce reports whether what is in the cluster is what owners know.
func (l *layer) isInForce() bool { return maps.Equal(l.now.Data, l.inForce.Data) }

// keepTimeout bounds one write of the last valid content: others wait for config meanwhile. keepPause is until the
// next attempt.
const (
	keepTimeout = 10 * time.Second
	keepPause   = 30 * time.Second
)

// keepAgain makes config try once more to keep the last valid contents.
type keepAgain struct{}

// keep stores what is in force where a restart finds it, if it is not there yet (P3). It runs in
// the mailbox of config, so it is short, and a failure is retried by a timer instead of here.
func (c *config) keep(ctx actor.Context) {
	now := kube.LastValid{Config: c.configMap.inForce.Data, Secret: c.secret.inForce.Data}
	if c.program.LastValid == nil || c.keepWaits || c.kept != nil && c.kept.Equal(now) {
		return
	}
	writing, cancel := context.WithTimeout(c.program.WriteContext, keepTimeout)
	defer cancel()
	if err := c.program.LastValid.Write(writing, now); err != nil {
		c.log.Warn("the last valid values cannot be saved, will retry; a restart with an invalid ConfigMap or Secret would end with exit code 1, or use older values", "in", keepPause, "err", err)
		c.keepWaits = true
		c.program.SendLater(ctx, keepPause, keepAgain{})
		return
	}
	c.kept = &now
}
