package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/values"
)

// writeTimeout bounds one write to the API server; a hook run waits for it and is
// retried after it.
const writeTimeout = 30 * time.Second

// save writes one section and flags. When another writer changed one of these keys
// meanwhile, the change is handled first, as if the watch had shown it. A ConfigMap that was
// deleted comes back with all that is known: with the section alone it would be valid, and
// take away everything else (P1).
func (c *config) save(ctx actor.Context, msg messages.SaveConfig) messages.ConfigSaved {
	if msg.Key != "" && c.checksum(msg.Key) != msg.Base {
		return messages.ConfigSaved{Conflict: true}
	}
	wroteSecret, answer := c.saveSecret(ctx, msg)
	if answer != nil {
		return *answer
	}
	saved := c.saveConfigMap(ctx, msg)
	if wroteSecret && (saved.Err != nil || saved.Conflict) {
		c.announceSection(ctx, msg.Key) // the owner does not know yet what has changed
	}
	return saved
}

// saveConfigMap writes what belongs into the ConfigMap.
func (c *config) saveConfigMap(ctx actor.Context, msg messages.SaveConfig) messages.ConfigSaved {
	set, err := c.texts(msg)
	if err != nil || len(set) == 0 {
		return messages.ConfigSaved{Err: err}
	}
	writeCtx, cancel := context.WithTimeout(c.program.Writes, writeTimeout)
	defer cancel()
	known, flagsChanged := c.withOwnWrite(set)
	before, errBefore := c.document()
	after, errAfter := decide.Parse(known, c.secret.known)
	paths := c.written.paths
	if errors.Join(errBefore, errAfter) == nil { // known is valid by definition
		paths = wrote(paths, msg, before, after)
	}
	left, err := c.program.ConfigMap.Write(kube.WithWrittenNote(writeCtx, paths.Text()), c.known, set)
	if errors.Is(err, kube.ErrConflict) {
		c.meet(ctx, left)
		if c.refused != "" {
			return messages.ConfigSaved{Err: fmt.Errorf("the ConfigMap was changed and is not valid: %s", c.refused)}
		}
		return messages.ConfigSaved{Conflict: true}
	}
	if err != nil {
		return messages.ConfigSaved{Err: err}
	}
	c.goAhead(left)
	c.known, c.written = known, written{paths: paths, noted: left.Written}
	if errAfter == nil {
		warnUnknownKeys(c.log, after, before, c.sections)
	}
	if flagsChanged && errAfter == nil {
		ctx.Send(c.program.PID(convergePath), messages.ConfigFlagsSaved{Flags: after.Flags})
	}
	return messages.ConfigSaved{FlagsChanged: flagsChanged}
}

// checksum is that of a section as its owner knows it.
func (c *config) checksum(key string) string {
	if known := c.knownSection(key); known != nil {
		return known.StoredChecksum()
	}
	return ""
}

// texts are the keys to write, in their form for the ConfigMap (D10).
func (c *config) texts(msg messages.SaveConfig) (map[string]*string, error) {
	set := map[string]*string{}
	if msg.Key != "" && values.Checksum(msg.Section) != values.Checksum(c.knownSection(msg.Key).ConfigPart()) {
		text, err := values.YAML(msg.Section)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", msg.Key, err)
		}
		s := string(text)
		set[msg.Key] = &s
	}
	for _, f := range msg.Flags {
		set[f.Key] = nil
		if f.Value != nil {
			s := fmt.Sprint(*f.Value)
			set[f.Key] = &s
		}
	}
	return set, nil
}

// withOwnWrite is what will be known when it is written, so that the watch shows nothing new.
func (c *config) withOwnWrite(set map[string]*string) (known map[string]string, flagsChanged bool) {
	known = maps.Clone(c.known)
	if known == nil {
		known = map[string]string{}
	}
	for key, text := range set {
		old, had := known[key]
		_, isSection := c.sections[key]
		if text == nil {
			delete(known, key)
			flagsChanged = flagsChanged || had && !isSection
			continue
		}
		known[key] = *text
		flagsChanged = flagsChanged || !isSection && (!had || old != *text)
	}
	return known, flagsChanged
}
