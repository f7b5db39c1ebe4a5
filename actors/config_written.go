package actors

import (
	"context"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/values"
)

// A person who replaces the text of a section, in the ConfigMap or the Secret, may take away a key
// that a hook had written, such as a password that it made once; the hook then makes another one.
// Config remembers who wrote what, over a restart by an annotation of the ConfigMap, and warns (D24).

// written is what config knows of the values that hooks wrote into the ConfigMap and the Secret.
type written struct {
	paths values.Written
	// noted is the annotation as it was seen or written last.
	noted string
}

// writtenBefore reads what an earlier process has noted.
func (c *config) writtenBefore(annotation string) {
	paths, err := values.ParseWritten(annotation)
	if err != nil {
		c.log.Warn("what hooks wrote before is not known: the annotation cannot be read; it is written again", "annotation", kube.WrittenAnnotation, "err", err)
	}
	c.written = written{paths: paths, noted: annotation}
}

// writtenSeen notes the annotation of the ConfigMap. A follower has it from the leader; who
// leads knows better, and writes it again when it is another.
func (c *config) writtenSeen(annotation string) {
	if c.standby && annotation != c.written.noted {
		c.writtenBefore(annotation)
	}
	c.written.noted = annotation
}

// wrote adds what a hook saves. before and after are the contents of ConfigMap and Secret.
func wrote(paths values.Written, msg messages.SaveConfig, before, after values.Document) values.Written {
	paths = wroteSection(paths, msg, before, after)
	for _, f := range msg.Flags {
		var value any
		if f.Value != nil {
			value = *f.Value
		}
		paths = paths.Wrote(msg.Hook, f.Key, nil, value)
	}
	return paths
}

// wroteSection is wrote without the flags.
func wroteSection(paths values.Written, msg messages.SaveConfig, before, after values.Document) values.Written {
	if msg.Key == "" {
		return paths
	}
	return paths.Wrote(msg.Hook, msg.Key, before.Stored(msg.Key), after.Stored(msg.Key))
}

// shownLost is how many values one warning names.
const shownLost = 10

// warnLost warns of values that hooks wrote and that are gone by now, once.
func (c *config) warnLost(before, after values.Document) {
	if c.standby { // the leader warns
		return
	}
	lost, rest := c.written.paths.Compare(before, after)
	c.written.paths = rest
	byHook := map[string][]string{}
	var hooks []string
	for _, l := range lost {
		if byHook[l.Hook] == nil {
			hooks = append(hooks, l.Hook)
		}
		byHook[l.Hook] = append(byHook[l.Hook], l.Path)
	}
	for _, hook := range hooks {
		paths := byHook[hook]
		names := strings.Join(paths[:min(len(paths), shownLost)], ", ")
		if more := len(paths) - shownLost; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		c.log.Warn("an edit of the ConfigMap or the Secret removed what a hook had written; the hook may make another value now", "keys", names, "hook", hook)
		c.notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "HookValueRemoved", Message: fmt.Sprintf(
			"An edit removed %s, written by hook %s, which may make another value now; put it back if that was not wanted", names, hook)})
	}
}

// warnLostBefore is warnLost for edits that no process saw, or another replica.
func (c *config) warnLostBefore() {
	if doc, err := c.document(); err == nil { // known is valid by definition
		c.warnLost(values.Document{}, doc)
	}
}

// noteWritten writes the annotation when it says something else than config knows: a write of the ConfigMap brings its own,
// but one of the Secret does not, and an edit may have removed values. A ConfigMap
// that is refused is left alone, and one that does not exist.
func (c *config) noteWritten(ctx actor.Context) {
	w := &c.written
	text := w.paths.Text()
	if c.standby || c.refused != "" || c.revision == "" || text == w.noted {
		return
	}
	writing, cancel := context.WithTimeout(c.program.Writes, keepTimeout)
	defer cancel()
	w.noted = text // also after a failure: the next change writes all
	left, err := c.program.ConfigMap.NoteWritten(writing, text)
	if err != nil {
		c.log.Warn("which values hooks wrote could not be noted at the ConfigMap; it is known until the operator restarts", "annotation", kube.WrittenAnnotation, "err", err)
		return
	}
	c.meet(ctx, left)
}
