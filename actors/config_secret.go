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
	"github.com/cenkalti/backoff/v4"

	"addon-operator/actors/decide"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// The Secret with values is a layer right above the ConfigMap (D40): config watches it, validates both together, and writes what
// hooks patch at paths that a schema marks with x-secret (D41).

// Secret is the Secret that holds confidential values. It has the form of the ConfigMap. Package kube implements
// it; Read fails with kube.ErrForbidden when the operator may not read it.
type Secret interface {
	Read(ctx context.Context) (kube.ConfigMap, error)
	Watch(ctx context.Context, notify func(kube.ConfigMap))
	Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error)
}

// initialSecret is the Secret as it was read at the start. off: there is none to be read or written.
type initialSecret struct {
	data     map[string]string
	revision string
	off      bool
}

// secretState is the part of config that is about the Secret.
type secretState struct {
	known    map[string]string // as in config, and so are the others
	revision string
	ahead    string
	refused  string
	fromKept bool
	// candidate is a content that was refused; it may be valid together with a new ConfigMap. configCandidate is one of the
	// ConfigMap.
	candidate, configCandidate *kube.ConfigMap
	misplaced                  map[string]bool // paths that were reported
}

// secretSeen is the content of the Secret as the API server shows it.
type secretSeen struct{ content kube.ConfigMap }

// LogValue keeps it out of logs.
func (secretSeen) LogValue() slog.Value { return slog.StringValue("the Secret") }

// errSecretDeleted refuses the absence of a Secret that had content (P1). errSecretDeletedBefore is
// the same where the last valid content is kept over a restart (P3).
var (
	errSecretDeleted       = errors.New("the Secret is deleted; create it again before the operator restarts, or create an empty Secret to remove all its values")
	errSecretDeletedBefore = errors.New("the Secret is deleted; create it again, or create an empty Secret to remove all its values")
)

// exists reports whether the Secret was there, or is not watched.
func (s initialSecret) exists() bool { return s.off || s.revision != "" }

// readSecret reads the Secret at the start, and waits for the API server like readConfigMap.
func readSecret(ctx context.Context, w World, waits func(string)) (initialSecret, error) {
	if w.Secret == nil {
		return initialSecret{off: true}, nil
	}
	var content kube.ConfigMap
	read := func() (err error) {
		content, err = w.Secret.Read(ctx)
		if errors.Is(err, kube.ErrForbidden) {
			return backoff.Permanent(err)
		}
		return err
	}
	tell := func(err error, in time.Duration) {
		w.Log.Error("the Secret with values cannot be read, will retry; check that the API server is up", "in", in, "err", err)
		waits(fmt.Sprintf("the Secret with values cannot be read: %v", err))
	}
	err := backoff.RetryNotify(read, backoff.WithContext(supervisor.Backoff(), ctx), tell)
	if errors.Is(err, kube.ErrForbidden) {
		w.Log.Warn("there are no values from a Secret: the operator may not read it; config values that schemas mark with x-secret are written to the ConfigMap; let the role get, list, watch, create and update it, and restart", "err", err)
		return initialSecret{off: true}, nil
	}
	if err != nil {
		return initialSecret{}, fmt.Errorf("read the Secret with values: %w", err)
	}
	waits("")
	return initialSecret{data: content.Data, revision: content.ResourceVersion}, nil
}

// secretKnown notes the texts of all sections that must not be shown.
func (c *config) secretKnown() {
	doc, err := c.document()
	if err != nil {
		return // known is valid by definition
	}
	for key, section := range c.sections {
		if next, err := decide.Stored(section, doc, values.Origin{}, values.Origin{}); err == nil {
			c.program.Secrets.Know("config/"+key, next.SecretTexts())
		}
	}
}

// document is what is in force of ConfigMap and Secret.
func (c *config) document() (values.Document, error) {
	return decide.Parse(c.known, c.secret.known)
}

// secretOrigin is that of what people wrote into the Secret.
func (c *config) secretOrigin() values.Origin {
	return values.Origin{Revision: c.secret.revision, Time: time.Now()}
}

// secretSeen handles a content of the Secret that may be new, as seen does for the ConfigMap.
func (c *config) secretSeen(ctx actor.Context, content kube.ConfigMap) {
	s := &c.secret
	if content.WentBack {
		s.ahead = ""
	}
	if older(content.ResourceVersion, s.ahead) {
		c.log.Debug("news of the Secret with values is older than what is known, so it is dropped", "resourceVersion", content.ResourceVersion, "known", s.ahead)
		return // late news
	}
	if !content.Exists() && len(s.known) > 0 {
		s.candidate = nil
		if c.program.LastValid != nil {
			c.refuseSecret(errSecretDeletedBefore)
		} else {
			c.refuseSecret(errSecretDeleted)
		}
		return
	}
	if maps.Equal(content.Data, s.known) {
		c.secretAccepted(content.ResourceVersion)
		return
	}
	before, err := c.document()
	if err != nil { // what is known was valid when it became known
		c.log.Error("bug: the known values are not valid", "err", err)
	}
	doc, config := values.Document{}, s.configCandidate
	if config != nil {
		doc, err = decide.Check(config.Data, content.Data, c.sections, c.modules, c.rules())
	}
	if config == nil || err != nil {
		config = nil
		doc, err = decide.Check(c.known, content.Data, c.sections, c.modules, c.rules())
	}
	if err != nil {
		s.candidate = &content
		c.refuseSecret(err)
		return
	}
	c.warnLost(before, doc)
	c.secretAccepted(content.ResourceVersion)
	if config != nil {
		c.configAccepted(config.ResourceVersion)
	}
	c.changed(ctx, before, doc)
	s.known = maps.Clone(content.Data)
	if config != nil {
		c.known = maps.Clone(config.Data)
	}
	c.tellMisplaced()
	c.secretKnown()
}

// withCandidate looks whether a new ConfigMap is valid together with the Secret that was refused before it: who moves a value
// changes both, one after the other.
func (c *config) withCandidate(data map[string]string) (values.Document, bool) {
	if c.secret.candidate == nil {
		return values.Document{}, false
	}
	doc, err := decide.Check(data, c.secret.candidate.Data, c.sections, c.modules, c.rules())
	return doc, err == nil
}

// takeCandidate puts that Secret in force.
func (c *config) takeCandidate() {
	candidate := c.secret.candidate
	c.secretAccepted(candidate.ResourceVersion)
	c.secret.known = maps.Clone(candidate.Data)
}

// changed notifies the actors concerned of what is new.
func (c *config) changed(ctx actor.Context, before, after values.Document) {
	warnUnknownKeys(c.log, after, before, c.sections)
	c.warnOff(before, after)
	if c.standby {
		ctx.Send(c.program.PID(standbyPath), flagsMoved{after.Flags})
		return
	}
	c.announce(ctx, before, after)
}

func (c *config) secretAccepted(revision string) {
	if c.secret.refused != "" {
		c.log.Info("the Secret with values is valid again and in force")
		c.notify(kube.Notice{OnConfigMap: true, Reason: "Accepted", Message: "The Secret with values is valid again and in force"})
	}
	c.secret.refused, c.secret.revision, c.secret.candidate, c.secret.fromKept = "", revision, nil, false
}

func (c *config) configAccepted(revision string) {
	if c.refused != "" {
		c.noticeAccepted()
	}
	c.inForce(revision)
}

// refuseSecret keeps the last valid values in force; nothing is queued (P1, D40).
func (c *config) refuseSecret(err error) {
	c.program.Metrics.Converge.ConfigRefused.Inc()
	if c.secret.refused == err.Error() {
		return
	}
	c.log.Error("the Secret with values is refused as a whole; its last valid values stay in force", "err", err)
	c.noticeSecretRefused(err.Error())
	c.secret.refused = err.Error()
}

func (c *config) noticeSecretRefused(why string) {
	what := "The Secret with values is refused as a whole, its last valid values stay in force: "
	if c.secret.fromKept {
		what = fmt.Sprintf("The Secret with values is refused; the operator has started with the last valid values, from %s, they stay in force: ", c.program.LastValid)
	}
	c.notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "Refused", Message: what + why})
}

// meetSecret handles a content that was not shown by the watch.
func (c *config) meetSecret(ctx actor.Context, content kube.ConfigMap) {
	c.secretSeen(ctx, content)
	c.secretAhead(content)
}

func (c *config) secretAhead(content kube.ConfigMap) {
	if content.Exists() {
		c.secret.ahead = content.ResourceVersion
	}
}

// currentSecret looks once more before this replica takes over.
func (c *config) currentSecret(ctx actor.Context) {
	if c.program.secretOff.Load() {
		return
	}
	reading, cancel := context.WithTimeout(c.program.Writes, writeTimeout)
	defer cancel()
	if content, err := c.program.Secret.Read(reading); err != nil {
		c.log.Warn("the Secret with values cannot be read now; this replica begins with what it saw last", "err", err)
	} else if !older(content.ResourceVersion, c.secret.revision) {
		c.meetSecret(ctx, content)
	}
}

// saveSecret writes the part of a section that belongs into the Secret. It comes before the ConfigMap: what a patch moves out of
// there is in the Secret by then, so whatever fails after this, no value is lost. wrote says that there was something to write;
// answer is not nil when the save ends here.
func (c *config) saveSecret(ctx actor.Context, msg messages.SaveConfig) (wrote bool, answer *messages.ConfigSaved) {
	known := c.knownSection(msg.Key)
	if known == nil || c.program.secretOff.Load() || values.Checksum(known.SecretPart()) == values.Checksum(msg.Secret) {
		return false, nil
	}
	set := map[string]*string{msg.Key: nil}
	if msg.Secret != nil {
		text, err := values.YAML(msg.Secret)
		if err != nil {
			return false, &messages.ConfigSaved{Err: fmt.Errorf("section %s of the Secret: %w", msg.Key, err)}
		}
		s := string(text)
		set[msg.Key] = &s
	}
	writing, cancel := context.WithTimeout(c.program.Writes, writeTimeout)
	defer cancel()
	s := &c.secret
	written, err := c.program.Secret.Write(writing, s.known, set)
	if errors.Is(err, kube.ErrConflict) {
		c.meetSecret(ctx, written)
		if s.refused != "" {
			return false, &messages.ConfigSaved{Err: fmt.Errorf("the Secret with values was changed and is not valid: %s", s.refused)}
		}
		return false, &messages.ConfigSaved{Conflict: true}
	}
	if err != nil {
		return false, &messages.ConfigSaved{Err: err}
	}
	c.secretAhead(written)
	before, errBefore := c.document()
	s.known = maps.Clone(s.known)
	if s.known == nil {
		s.known = map[string]string{}
	}
	if delete(s.known, msg.Key); set[msg.Key] != nil {
		s.known[msg.Key] = *set[msg.Key]
	}
	if after, err := c.document(); errors.Join(errBefore, err) == nil { // known is valid by definition
		c.written.paths = wroteSection(c.written.paths, msg, before, after)
	}
	c.secretKnown()
	return true, nil
}

// knownSection is a section as its owner knows it; nil when there is none.
func (c *config) knownSection(key string) *values.Section {
	doc, err := c.document()
	section := c.sections[key]
	if err != nil || section == nil {
		return section
	}
	if known, err := decide.Stored(section, doc, values.Origin{}, values.Origin{}); err == nil {
		return known
	}
	return section
}

// tellMisplaced names the values that a schema marks as secrets while they lie in the ConfigMap, once each (D41).
func (c *config) tellMisplaced() {
	if c.program.secretOff.Load() {
		return // there is nowhere to move them, which the log has said
	}
	var paths []string
	for _, key := range slices.Sorted(maps.Keys(c.sections)) {
		section := c.knownSection(key)
		for _, path := range section.Misplaced() {
			if !c.secret.misplaced[path] {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		return
	}
	if c.secret.misplaced == nil {
		c.secret.misplaced = map[string]bool{}
	}
	for _, path := range paths {
		c.secret.misplaced[path] = true
	}
	c.log.Warn("values that a schema marks as secrets lie in the ConfigMap, where more people can read them; move them to the Secret", "paths", paths)
	c.notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "SecretInConfigMap", Message: "The ConfigMap has values that a schema marks as secrets; move them to the Secret with values: " + strings.Join(paths, ", ")})
}

// setConfig gives an owner its part of both.
func (c *config) setConfig(doc values.Document, key string) messages.SetConfig {
	return messages.SetConfig{Section: doc.Sections[key], Origin: c.origin(), Secret: doc.Secrets[key], SecretOrigin: c.secretOrigin()}
}

// refusedAll says why the ConfigMap or the Secret in the cluster is not in force.
func (c *config) refusedAll() string {
	if c.secret.refused == "" {
		return c.refused
	}
	text := view.AboutSecret + c.secret.refused
	if c.refused != "" {
		text = c.refused + "; " + text
	}
	return text
}

// layerSecret gives all sections their parts of the Secret as it is now. Of one that would be refused nothing is taken.
func (b *boot) layerSecret(ctx context.Context, w World) error {
	if w.Secret == nil {
		return nil
	}
	content, err := w.Secret.Read(ctx)
	if errors.Is(err, kube.ErrForbidden) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the Secret with values: %w", err)
	}
	sections, err := values.ParseSecret(content.Data)
	if err != nil {
		return fmt.Errorf("the Secret with values would be refused: %w", err)
	}
	for key, section := range b.sections {
		next, err := section.WithSecret(sections[key], values.Origin{Revision: content.ResourceVersion})
		if err != nil {
			return fmt.Errorf("the Secret with values would be refused: %w", err)
		}
		b.sections[key] = next
	}
	return nil
}
