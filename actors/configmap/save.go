package configmap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/work"
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
		Warn(c.log, decide.UnknownKeys(c.doc, before, c.schemas.Sections))
		if saved.FlagsChanged {
			ctx.Send(c.program.PID(work.ConvergePath), messages.ConfigFlagsSaved{Flags: c.doc.Flags})
		}
	}
	return saved
}

// write sets keys of one layer (D24).
func (c *config) write(ctx actor.Context, l *layer, set map[string]*string) messages.ConfigSaved {
	known, flagsChanged := c.schemas.WithKeys(l.known, set)
	doc, err := decide.Parse(c.texts(l, known))
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
	l.known, c.doc = known, doc
	return messages.ConfigSaved{FlagsChanged: flagsChanged && l == c.configMap}
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
