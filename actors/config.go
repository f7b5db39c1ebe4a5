package actors

import (
	"context"
	"errors"
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
	doc     values.Document

	kept      *kube.LastValid // what is kept over a restart (P3), nil while that is unknown
	keepWaits bool            // the last attempt to keep it has failed, and the next one comes with keepAgain
	confirmed string          // the annotation of the ConfigMap that confirms a purge, as it was seen last
	misplaced []string        // the values that warnMisplaced has reported
}

// newConfig makes config with the contents that boot has read and checked. Watches begin only in
// started, when the actor can receive what they report. What the start took from the kept content
// counts as kept, so that it is not written again.
func newConfig(ctx context.Context, p *program, b *boot) actor.Actor {
	c := &config{
		program: p, log: p.Log, schemas: b.schemas(), doc: b.doc, refused: b.refused, fromKept: b.refused != nil,
		configMap: newLayer("the ConfigMap", errDeleted, b.inForce.configMap, b.inCluster.configMap),
		secret:    newLayer("the Secret with values", errSecretDeleted, b.inForce.secret, b.inCluster.secret),
	}
	if p.LastValid != nil {
		c.configMap.deleted, c.secret.deleted = errDeletedBefore, errSecretDeletedBefore
	}
	if c.fromKept {
		c.kept = &kube.LastValid{Config: c.configMap.known, Secret: c.secret.known}
	}
	c.configMap.store, c.configMap.seen = p.ConfigMap, c.fromKept
	if !b.secretOff && p.Secret != nil {
		c.secret.store, c.secret.seen = p.Secret, c.fromKept
	}
	c.started = func(self *actor.PID) {
		c.noticeRefused()
		c.configMap.store.Watch(ctx, func(content kube.ConfigMap) { p.Send(self, contentSeen{content, false}) })
		if c.secret.store != nil {
			c.secret.store.Watch(ctx, func(content kube.ConfigMap) { p.Send(self, contentSeen{content, true}) })
		}
		c.sectionsKnown()
	}
	return c
}

// contentSeen is the content of the ConfigMap, or of the Secret, as the API server shows it.
type contentSeen struct {
	content kube.ConfigMap
	secret  bool
}

// LogValue keeps it out of logs.
func (contentSeen) LogValue() slog.Value { return slog.StringValue("the ConfigMap or the Secret") }

// Receive implements actor.Actor.
func (c *config) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.started(ctx.Self())
	case contentSeen:
		l := c.configMap
		if msg.secret {
			l = c.secret
		}
		c.seen(ctx, l, msg.content)
	case messages.SaveConfig:
		ctx.Respond(c.save(ctx, msg))
	case messages.RemoveConfirmation:
		c.removeConfirmation(ctx, msg.Value)
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
		c.keepWaits = false
	default:
		unhandled(ctx, c.log)
	}
	// Each message may have changed what is in force, so what depends on it is brought up to date
	// here, in one place.
	c.publish(ctx)
	c.keep(ctx)
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
	// The operator's own write may return before the watch shows the edit before it.
	if kube.Older(content.ResourceVersion, l.ahead) {
		c.log.Debug("an event of the watch of "+l.name+" is older than the known version and is dropped", "resourceVersion", content.ResourceVersion, "known", l.ahead)
		return
	}
	l.now, l.seen = content, true
	c.judge(ctx)
	if l == c.configMap && content.Exists() && content.ConfirmPurge != c.confirmed {
		// After the values with which it was written: what it allows may follow from them.
		if c.confirmed = content.ConfirmPurge; c.confirmed != "" {
			ctx.Send(c.program.PID(convergePath), messages.ConfirmPurge{Value: c.confirmed})
		}
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
		c.program.Notify(kube.Notice{OnConfigMap: true, Reason: "Accepted", Message: "The values are valid again and in force"})
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
	c.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "Refused", Message: what + values.Public(c.refused)})
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
		c.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "UnknownModule", Message: unknown[0].Text + ": " + strings.Join(sentences, "; ")})
	}
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

// warn logs what people should know of a content that is accepted.
func warn(log *slog.Logger, warnings []plan.Warning) {
	for _, w := range warnings {
		log.Warn(w.Text, w.Attrs...)
	}
}

// send gives owners their sections, then converge what that changes. Owners come first: the
// runs that converge queues must see the new values.
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
	c.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "SecretInConfigMap", Message: "The ConfigMap has values that a schema marks as secrets; move them to the Secret with values: " + strings.Join(paths, ", ")})
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
	c.meet(ctx, c.configMap, left)
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
	first := c.doc // write replaces c.doc
	if len(inSecret) > 0 && c.secret.store != nil {
		if saved := c.write(ctx, c.secret, inSecret); saved.Conflict || saved.Err != nil {
			return saved
		}
		c.sectionsKnown()
	}
	if len(inConfig) == 0 {
		return messages.ConfigSaved{}
	}
	moved, before := c.schemas.Change(first, c.doc), c.doc
	saved := c.write(ctx, c.configMap, inConfig)
	switch {
	case saved.Conflict || saved.Err != nil:
		if moved.Any() {
			c.send(ctx, moved, first) // the owner does not know yet what has changed
		}
	default:
		warn(c.log, plan.UnknownKeys(c.doc, before, c.schemas.Sections))
		if saved.FlagsChanged {
			ctx.Send(c.program.PID(convergePath), messages.ConfigFlagsSaved{Flags: c.doc.Flags})
		}
	}
	return saved
}

// write sets keys of one layer (D24).
func (c *config) write(ctx actor.Context, l *layer, set map[string]*string) messages.ConfigSaved {
	known := plan.WithKeys(l.known, set)
	doc, err := plan.Parse(known, c.secret.known)
	if l == c.secret {
		doc, err = plan.Parse(c.configMap.known, known)
	}
	if err != nil {
		return messages.ConfigSaved{Err: fmt.Errorf("%s would not be valid: %w", l.name, err)}
	}
	writing, cancel := context.WithTimeout(c.program.WriteContext, writeTimeout)
	defer cancel()
	left, err := l.store.Write(writing, l.known, set)
	if errors.Is(err, kube.ErrConflict) { // left is what is in the cluster instead
		c.meet(ctx, l, left)
		if c.refused != nil {
			return messages.ConfigSaved{Err: fmt.Errorf("%s was changed and is not valid: %w", l.name, c.refused)}
		}
		return messages.ConfigSaved{Conflict: true}
	}
	if err != nil {
		return messages.ConfigSaved{Err: err}
	}
	l.goAhead(left)
	saved := messages.ConfigSaved{FlagsChanged: !maps.Equal(c.doc.Flags, doc.Flags)}
	l.known, c.doc = known, doc
	return saved
}

// patched are the keys of ConfigMap and Secret to write (D10, D41); nil removes a key. Sections that
// are equal are not written, so that the texts of people keep their comments (D24).
func patched(section *values.Section, msg messages.SaveConfig) (inConfig, inSecret map[string]*string, err error) {
	inConfig, inSecret = map[string]*string{}, map[string]*string{}
	if msg.Key != "" && values.Checksum(section.Stored().Secret) != values.Checksum(msg.Secret) {
		inSecret[msg.Key] = nil
		if msg.Secret != nil {
			if err := putYAML(inSecret, msg.Key, msg.Secret); err != nil {
				return nil, nil, fmt.Errorf("section %s of the Secret: %w", msg.Key, err)
			}
		}
	}
	if msg.Key != "" && values.Checksum(section.Stored().InConfigMap()) != values.Checksum(msg.Section) {
		if err := putYAML(inConfig, msg.Key, msg.Section); err != nil {
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

// putYAML sets a key to a section as text.
func putYAML(set map[string]*string, key string, content any) error {
	text, err := values.YAML(content)
	set[key] = new(string(text))
	return err
}

// These are the reasons for refusing an absence (P1): the ConfigMap had content, and may be between
// the two halves of 'kubectl replace --force'. The last two are for operators that keep the last
// valid content over a restart (P3): there a restart changes nothing.
var (
	errDeleted             = errors.New("the ConfigMap is deleted; create it again before the operator restarts, or create an empty ConfigMap to remove all overrides")
	errSecretDeleted       = errors.New("the Secret is deleted; create it again before the operator restarts, or create an empty Secret to remove all its values")
	errDeletedBefore       = errors.New("the ConfigMap is deleted; create it again, or create an empty ConfigMap to remove all overrides")
	errSecretDeletedBefore = errors.New("the Secret is deleted; create it again, or create an empty Secret to remove all its values")
)

// layer is the ConfigMap, or the Secret with values above it (D40): what config knows of the one.
type layer struct {
	name    string
	store   Secret // what both can do; nil for a Secret that is not read
	deleted error  // why its absence is not in force

	// known are the texts of all keys as owners know them: the last valid ones, and what
	// the operator wrote itself. now is what is in the cluster; before it was seen, it counts as what is known.
	known    map[string]string
	now      kube.ConfigMap
	seen     bool
	revision string
	// ahead is the resourceVersion of the last content that was written, or read outside of the
	// watch: the watch may be behind it.
	ahead string
}

// newLayer is a layer as the start has read it.
func newLayer(name string, deleted error, inForce, now kube.ConfigMap) *layer {
	return &layer{name: name, deleted: deleted, known: inForce.Data, revision: inForce.ResourceVersion, now: now}
}

// goAhead notes a content that came from a write or a read. What the watch shows of an older
// version is late.
func (l *layer) goAhead(content kube.ConfigMap) {
	if l.now = content; content.Exists() {
		l.ahead = content.ResourceVersion
	}
}

// isDeleted reports whether the layer had content and does not exist now.
func (l *layer) isDeleted() bool { return l.seen && !l.now.Exists() && len(l.known) > 0 }

// inForce reports whether what is in the cluster is what owners know.
func (l *layer) inForce() bool { return !l.isDeleted() && maps.Equal(l.now.Data, l.known) }

// keepTimeout bounds one write of the last valid content: others wait for config meanwhile. keepPause is until the next
// attempt.
const (
	keepTimeout = 10 * time.Second
	keepPause   = 30 * time.Second
)

// keepAgain makes config try once more to keep the last valid contents.
type keepAgain struct{}

// keep stores what is in force where a restart finds it, if it is not there yet (P3). It runs in
// the mailbox of config, so it is short, and a failure is retried by a timer instead of here.
func (c *config) keep(ctx actor.Context) {
	now := kube.LastValid{Config: c.configMap.known, Secret: c.secret.known}
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
	c.kept = &kube.LastValid{Config: maps.Clone(now.Config), Secret: maps.Clone(now.Secret)}
}
