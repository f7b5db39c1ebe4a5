package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"
)

// Labels of ours on the secret of a revision.
const (
	// ChecksumLabel holds the checksum of the rendered manifest (H6). A label
	// value has at most 63 characters.
	ChecksumLabel = "moduleChecksum"
	// revisionLabel repeats the revision the checksum was made for. Helm copies
	// custom labels from revision to revision; without this one, a revision made
	// by a person (helm upgrade, helm rollback) would look like ours.
	revisionLabel = "moduleRevision"
)

// legacyChecksumKey is where older releases keep the checksum: in the values
// stored with the release (H6).
const legacyChecksumKey = "_addonOperatorModuleChecksum"

// Revision is the content of the labels of one release record.
type Revision struct {
	Version  int
	Status   release.Status
	Checksum string // empty: unknown, or not made by us

	secret          string            // name of the Secret or ConfigMap
	resourceVersion string            // as of the read; each write and delete carries it
	labels          map[string]string // all of the record; shared, not changed
	note            string            // RenderedAnnotation
}

// State is the history of one release, oldest revision first. It is a value: a caller that changes
// Revisions makes a new slice, because the memory of records shares the old one.
type State struct {
	Release   string
	Revisions []Revision
}

// surplus returns the oldest revisions that must be deleted so that one more is within a limit; 0
// is no limit. The deployed one stays however old it is: it is what the next upgrade is compared
// with.
func (s State) surplus(limit int) []Revision {
	var out []Revision
	deployed := -1 // index of the newest one
	for i, r := range s.Revisions {
		if r.Status == release.StatusDeployed {
			deployed = i
		}
	}
	for i, r := range s.Revisions {
		if limit == 0 || len(s.Revisions)-len(out) < limit {
			break
		}
		if i != deployed {
			out = append(out, r)
		}
	}
	return out
}

// Last returns the newest revision; false when there is no release.
func (s State) Last() (Revision, bool) {
	if len(s.Revisions) == 0 {
		return Revision{}, false
	}
	return s.Revisions[len(s.Revisions)-1], true
}

// sinceDeployed returns the revisions that Helm ignores when the newest one failed: those after the
// last one that was deployed, and that one itself, newest first. Objects of all of them may exist.
// A superseded revision was deployed, too. It is empty when the newest revision is deployed.
func (s State) sinceDeployed() []Revision {
	var out []Revision
	for _, r := range slices.Backward(s.Revisions) {
		if r.Status == release.StatusDeployed && len(out) == 0 {
			return nil
		}
		out = append(out, r)
		if r.Status == release.StatusDeployed || r.Status == release.StatusSuperseded {
			break
		}
	}
	return out
}

// installs reports whether the newest revision is of an install: there is none before it, or what
// was before was uninstalled.
func (s State) installs() bool {
	n := len(s.Revisions)
	return n == 1 || n > 1 && s.Revisions[n-2].Status == release.StatusUninstalled
}

// replaceLast returns a copy of revisions with a changed last element.
func replaceLast(revisions []Revision, change func(*Revision)) []Revision {
	out := slices.Clone(revisions)
	change(&out[len(out)-1])
	return out
}

// records reads release records of one namespace as metadata only, and remembers them. Reading them
// is the most frequent request of the operator and, as a list, its slowest: a consistent list waits
// up to 100 ms for the watch cache of a busy cluster. So one list fills the memory. With a watch,
// the memory is then the answer. Without one, a remembered state is proven with two requests by
// name: the newest record is unchanged, and the next one does not exist.
type records struct {
	client    metadata.Interface
	driver    Driver
	namespace string

	// With a watch (recordwatch.go); set before its start.
	changed func(release string)
	busy    func(release string) bool

	// mu guards what follows. It is held during no request.
	mu      sync.Mutex
	memory  recordMemory
	ready   chan struct{} // closed when the watch has listed all, or cannot; nil: no watch
	watched bool          // known is the state from the watch and our own writes
}

func (r *records) objects() metadata.ResourceInterface {
	return r.client.Resource(r.driver.Resource()).Namespace(r.namespace)
}

// read returns the state of one release, as far as possible from memory. A state that is too old
// cannot do harm: a new revision is the creation of an object with a fixed name, and every change
// carries the resourceVersion that was read. Either fails as a conflict, and the next attempt reads
// again (doubt).
func (r *records) read(ctx context.Context, name string) (State, error) {
	watched := r.await(ctx)
	r.mu.Lock()
	listed, state, doubted := r.memory.listed, r.memory.stateOf(name), r.memory.doubted[name]
	r.mu.Unlock()
	if listed && doubted {
		return r.reread(ctx, name)
	}
	if watched {
		return state, nil
	}
	if !listed {
		if _, err := r.readAll(ctx); err != nil {
			return State{}, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.memory.stateOf(name), nil
	}
	if last, ok := state.Last(); ok {
		current, err := r.isCurrent(ctx, name, last)
		if err != nil {
			return State{}, err
		}
		if current {
			return state, nil
		}
	} else if found, _, err := r.list(ctx, releaseSelector(name), "0"); err != nil || len(found) == 0 {
		// resourceVersion 0 is answered from memory at once. Should it be too old
		// to show a release, its first revision is refused as existing already.
		return State{Release: name}, err
	}
	return r.reread(ctx, name)
}

// reread lists the records of a release consistently, without trusting the memory.
func (r *records) reread(ctx context.Context, name string) (State, error) {
	states, at, err := r.list(ctx, releaseSelector(name), "")
	if err != nil {
		return State{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, revision := range states[name].Revisions {
		delete(r.memory.removed, revision.secret) // its deletion was answered, but not done
	}
	r.memory.replace(name, states[name].Revisions, at)
	delete(r.memory.doubted, name)
	return r.memory.stateOf(name), nil
}

// readAll lists all releases of the namespace, consistently.
func (r *records) readAll(ctx context.Context) (map[string]State, error) {
	if r.await(ctx) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return maps.Clone(r.memory.known), nil
	}
	all, at, err := r.list(ctx, labels.Set{"owner": "helm"}, "")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory.replaceAll(all, at)
	clear(r.memory.doubted)
	return maps.Clone(r.memory.known), nil
}

// isCurrent reports whether last is still the newest revision, unchanged. An older record that has
// changed is noticed when it is read or deleted, by its resourceVersion.
func (r *records) isCurrent(ctx context.Context, name string, last Revision) (bool, error) {
	live, err := r.objects().Get(ctx, last.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read release record %s: %w", last.secret, err)
	}
	if live.ResourceVersion != last.resourceVersion {
		return false, nil
	}
	next := secretName(name, last.Version+1)
	_, err = r.objects().Get(ctx, next, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		if err != nil {
			err = fmt.Errorf("read release record %s: %w", next, err)
		}
		return false, err
	}
	return true, nil
}

func (r *records) list(ctx context.Context, selector labels.Set, resourceVersion string) (states map[string]State, at string, err error) {
	list, err := r.objects().List(ctx, metav1.ListOptions{LabelSelector: selector.String(), ResourceVersion: resourceVersion})
	if err != nil {
		return nil, "", fmt.Errorf("list release records in namespace %s: %w", r.namespace, err)
	}
	metas := make([]*metav1.ObjectMeta, len(list.Items))
	for i := range list.Items {
		metas[i] = &list.Items[i].ObjectMeta
	}
	return statesOf(metas), list.ResourceVersion, nil
}

// statesOf sorts release records into histories.
func statesOf(secrets []*metav1.ObjectMeta) map[string]State {
	states := map[string]State{}
	for _, secret := range secrets {
		name, revision, err := revisionOf(secret)
		if err != nil {
			continue // a secret that only looks like one of Helm
		}
		states[name] = State{Release: name, Revisions: append(states[name].Revisions, revision)}
	}
	for _, state := range states {
		slices.SortFunc(state.Revisions, byVersion)
	}
	return states
}

func byVersion(a, b Revision) int { return a.Version - b.Version }

// doubt makes the next read of a release a request: an operation failed, and it is unknown
// what it wrote last, because a request may have been done without an answer.
func (r *records) doubt(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory.doubted == nil {
		r.memory.doubted = map[string]bool{}
	}
	r.memory.doubted[name] = true
}

func releaseSelector(name string) labels.Set {
	return labels.Set{"owner": "helm", "name": name}
}

// secretName is Helm's name for the record of one revision.
func secretName(release string, version int) string {
	return "sh.helm.release.v1." + release + ".v" + strconv.Itoa(version)
}

var errNotARecord = errors.New("not a release record")

// revisionOf reads the labels of a release record. A checksum that was copied from another revision
// does not count (revisionLabel).
func revisionOf(m *metav1.ObjectMeta) (name string, r Revision, err error) {
	version, err := strconv.Atoi(m.Labels["version"])
	name = m.Labels["name"]
	if err != nil || name == "" || !strings.HasPrefix(m.Name, "sh.helm.release.v1.") {
		return "", Revision{}, errNotARecord
	}
	r = Revision{
		Version:         version,
		Status:          release.Status(m.Labels["status"]),
		Checksum:        m.Labels[ChecksumLabel],
		secret:          m.Name,
		resourceVersion: m.ResourceVersion,
		labels:          m.Labels,
		note:            m.Annotations[RenderedAnnotation],
	}
	if of, ok := m.Labels[revisionLabel]; ok && of != m.Labels["version"] {
		r.Checksum = ""
	}
	return name, r, nil
}
