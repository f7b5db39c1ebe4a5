package configmap

import (
	"context"
	"fmt"
	"strings"

	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/values"
)

// written is what config knows of the values that hooks wrote into the ConfigMap and the Secret. A
// person who replaces the text of a section may remove a key that a hook had written, such as a
// password that it made once; the hook then makes another one. Config remembers who wrote what,
// over a restart by an annotation of the ConfigMap, and warns (D24).
type written struct {
	report *reporter
	paths  values.Written
	// noted is the annotation as it was seen or written last.
	noted string
}

// before reads what an earlier process has noted.
func (w *written) before(annotation string) {
	paths, err := values.ParseWritten(annotation)
	if err != nil {
		w.report.log.Warn("the annotation that records which values hooks wrote cannot be parsed; it is written again", "annotation", kube.WrittenAnnotation, "err", err)
	}
	w.paths, w.noted = paths, annotation
}

// seen notes the annotation of the ConfigMap. A follower takes it over from the leader. The leader
// knows better, and writes it again if another client has changed it.
func (w *written) seen(annotation string) {
	if w.report.standby && annotation != w.noted {
		w.before(annotation)
	}
	w.noted = annotation
}

// wrote adds what a hook saves. before and after are the contents of ConfigMap and Secret.
func wrote(paths values.Written, msg messages.SaveConfig, before, after values.Document) values.Written {
	if msg.Key != "" {
		paths = paths.Wrote(msg.Hook, msg.Key, before.Stored(msg.Key), after.Stored(msg.Key))
	}
	for _, f := range msg.Flags {
		var value any
		if f.Value != nil {
			value = *f.Value
		}
		paths = paths.Wrote(msg.Hook, f.Key, nil, value)
	}
	return paths
}

// shownLost is how many values one warning names.
const shownLost = 10

// compare warns once of values that hooks wrote and that are gone. before is the zero value where
// it is not known, as for edits that no process saw.
func (w *written) compare(before, after values.Document) {
	if w.report.standby { // the leader warns
		return
	}
	lost, rest := w.paths.Compare(before, after)
	w.paths = rest
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
		w.report.log.Warn("an edit of the ConfigMap or the Secret removed what a hook had written; the hook may now compute another value", "keys", names, "hook", hook)
		w.report.notify(kube.Notice{Warning: true, Reason: "HookValueRemoved", Message: fmt.Sprintf(
			"An edit removed %s, written by hook %s, which may now compute another value; restore it if that was not intended", names, hook)})
	}
}

// note writes the annotation if it differs from what config knows: a write of the ConfigMap carries
// it, but one of the Secret does not, and an edit may have removed values. A ConfigMap that is
// refused or does not exist is left alone. It returns what it has written.
func (w *written) note(configMap *layer) (left kube.ConfigMap, ok bool) {
	text := w.paths.Text()
	if w.report.standby || configMap.refused != "" || configMap.revision == "" || text == w.noted {
		return kube.ConfigMap{}, false
	}
	writing, cancel := context.WithTimeout(w.report.program.WriteContext, keepTimeout)
	defer cancel()
	w.noted = text // also after a failure: the next change writes all
	left, err := w.report.program.ConfigMap.NoteWritten(writing, text)
	if err != nil {
		w.report.log.Warn("the values that hooks wrote could not be recorded in an annotation of the ConfigMap; the operator remembers them until it restarts", "annotation", kube.WrittenAnnotation, "err", err)
	}
	return left, err == nil
}
