package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/values"
)

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
