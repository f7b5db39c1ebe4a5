package configmap

import (
	"errors"
	"maps"

	"addon-operator/actors/shared"
	"addon-operator/kube"
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

// InitialSecret is the Secret as it was read at the start. Off: there is none to be read or
// written, until the end of the process: a right that is given later takes effect after a restart.
type InitialSecret struct {
	Data     map[string]string
	Revision string
	Off      bool
}

// Exists reports whether the Secret was there, or is not watched.
func (s InitialSecret) Exists() bool { return s.Off || s.Revision != "" }

// layer is the ConfigMap, or the Secret with values above it (D40): what config knows of the one.
type layer struct {
	name    string
	store   shared.Secret // what both can do; nil for a Secret that is not read
	deleted error         // why its absence is not in force

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
func newLayer(name string, deleted error, data map[string]string, revision string) *layer {
	return &layer{
		name: name, deleted: deleted, known: data, revision: revision,
		now: kube.ConfigMap{Data: data, ResourceVersion: revision},
	}
}

// late reports whether the watch shows something older than what is known: the operator's own write
// may return before the watch shows the edit before it.
func (l *layer) late(content kube.ConfigMap) bool {
	return kube.Older(content.ResourceVersion, l.ahead)
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
