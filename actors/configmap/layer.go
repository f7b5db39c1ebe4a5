package configmap

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"addon-operator/actors/shared"
	"addon-operator/kube"
	"addon-operator/values"
)

// These are the reasons for refusing an absence (P1): the ConfigMap had content, and may be between
// the two halves of 'kubectl replace --force'. The last two are for operators that keep the last
// valid content over a restart (P3): there a restart changes nothing.
var (
	errDeleted             = errors.New("the ConfigMap is deleted; create it again before the operator restarts, or create an empty ConfigMap to remove all overrides")
	errSecretDeleted       = errors.New("the Secret is deleted; create it again before the operator restarts, or create an empty Secret to remove all its values")
	ErrDeletedBefore       = errors.New("the ConfigMap is deleted; create it again, or create an empty ConfigMap to remove all overrides")
	ErrSecretDeletedBefore = errors.New("the Secret is deleted; create it again, or create an empty Secret to remove all its values")
)

// reporter shows people in the cluster what config has found out.
type reporter struct {
	program *shared.Program
	log     *slog.Logger
}

// notify records an Event on the ConfigMap.
func (r *reporter) notify(n kube.Notice) {
	n.OnConfigMap = true
	r.program.Notify(n)
}

// layer is the ConfigMap, or the Secret with values above it (D40): what config knows of the one, and when its
// content is in force.
type layer struct {
	*layerWords
	report  *reporter
	store   shared.Secret // what both can do; nil for a Secret that is not read
	deleted error         // why its absence is not in force

	// known are the texts of all keys as owners know them: the last valid ones, and what
	// the operator wrote itself.
	known    map[string]string
	revision string
	// ahead is the resourceVersion of the last content that was written, or read outside of the
	// watch: the watch may be behind it.
	ahead   string
	refused string // why the content in the cluster, or its absence, is not in force
	public  string // the same without values, for an Event
	// fromKept: known is the last valid content that an earlier process has kept (P3).
	fromKept bool
	// candidate is the content that is refused; it may be valid with another content of the other layer, or when something
	// else is enabled.
	candidate *kube.ConfigMap
}

// layerWords is how the reports about a layer begin.
type layerWords struct {
	name     string
	refusal  string // log
	refusing string // Event
	absent   string // of an absence, log and Event; empty: as any other refusal
	kept     string
	accepted string
}

func configMapWords() *layerWords {
	return &layerWords{
		name:     "the ConfigMap",
		refusal:  "the ConfigMap is refused as a whole; the last valid values stay in force until it is fixed",
		refusing: "The values are refused as a whole; the last valid ones stay in force: ",
		absent:   "the last valid values stay in force",
		kept:     "The operator has started with the last valid values, from %s, which stay in force: ",
		accepted: "The values are valid again and in force",
	}
}

func secretWords() *layerWords {
	return &layerWords{
		name:     "the Secret with values",
		refusal:  "the Secret with values is refused as a whole; its last valid values stay in force",
		refusing: "The Secret with values is refused as a whole; its last valid values stay in force: ",
		kept:     "The Secret with values is refused; the operator has started with the last valid values, from %s, which stay in force: ",
		accepted: "The Secret with values is valid again and in force",
	}
}

// late reports whether the watch shows something older than what is known: the operator's own write
// may return before the watch shows the edit before it.
func (l *layer) late(content kube.ConfigMap) bool {
	if !kube.Older(content.ResourceVersion, l.ahead) {
		return false
	}
	l.report.log.Debug("an event of the watch of "+l.name+" is older than the known version and is dropped", "resourceVersion", content.ResourceVersion, "known", l.ahead)
	return true
}

// goAhead notes a content that came from a write or a read. What the watch shows of an older
// version is late.
func (l *layer) goAhead(content kube.ConfigMap) {
	if content.Exists() {
		l.ahead = content.ResourceVersion
	}
}

// isDeleted reports whether the layer had content and does not exist now.
func (l *layer) isDeleted() bool { return l.refused == l.deleted.Error() }

// refuse keeps the last valid values in force and queues nothing (P1, D16, D36, D40). content is
// nil for an absence. The same reason is logged once, but counted each time.
func (l *layer) refuse(content *kube.ConfigMap, err error) {
	l.candidate = content
	l.report.program.Metrics.Converge.ConfigRefused.Inc()
	if l.refused == err.Error() {
		return
	}
	l.why(err)
	if l.isDeleted() && l.absent != "" {
		l.report.log.Warn(l.absent, "err", err)
	} else {
		l.report.log.Error(l.refusal, "err", err)
	}
	l.noticeRefused()
}

// why notes why the layer is not in force; nil: it is.
func (l *layer) why(err error) {
	l.refused, l.public = "", ""
	if err != nil {
		l.refused, l.public = err.Error(), values.Public(err)
	}
}

// noticeRefused records why the layer is not in force, if it is not.
func (l *layer) noticeRefused() {
	what := l.refusing
	switch {
	case l.refused == "":
		return
	case l.fromKept:
		what = fmt.Sprintf(l.kept, l.report.program.LastValid)
	case l.isDeleted() && l.absent != "":
		what = "T" + l.absent[1:] + ": "
	}
	l.report.notify(kube.Notice{Warning: true, Reason: "Refused", Message: what + l.public})
}

// accept puts a content in force. Config does the rest: owners get it from there.
func (l *layer) accept(content kube.ConfigMap) {
	if l.refused != "" {
		how := " is valid again and in force"
		if maps.Equal(content.Data, l.known) {
			how = " has its last valid content again"
		}
		l.report.log.Info(l.name + how)
		l.report.notify(kube.Notice{Reason: "Accepted", Message: l.accepted})
	}
	l.why(nil)
	l.candidate, l.fromKept = nil, false
	l.known, l.revision = maps.Clone(content.Data), content.ResourceVersion
}
