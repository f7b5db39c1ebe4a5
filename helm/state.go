package helm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	uid             types.UID         // of that object
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

// id names a record in the version that was read.
func (r Revision) id() string { return string(r.uid) + "@" + r.resourceVersion }

// Last returns the newest revision; false when there is no release.
func (s State) Last() (Revision, bool) {
	if len(s.Revisions) == 0 {
		return Revision{}, false
	}
	return s.Revisions[len(s.Revisions)-1], true
}

// effective returns the revisions whose objects may exist, newest first: the newest one, and if that is not deployed,
// those before it, up to the last one that was. Helm ignores those in between. A superseded revision was deployed,
// too.
func (s State) effective() (all []Revision) {
	for _, r := range slices.Backward(s.Revisions) {
		all = append(all, r)
		if r.Status == release.StatusDeployed || r.Status == release.StatusSuperseded {
			break
		}
	}
	return all
}

// installs reports whether the newest revision is of an install: there is none before it, or what
// was before was uninstalled.
func (s State) installs() bool {
	n := len(s.Revisions)
	return n == 1 || n > 1 && s.Revisions[n-2].Status == release.StatusUninstalled
}

// records reads release records of one namespace as metadata only. A reload lists them all with one request (readAll).
// The first read of a release after that is from memory, and each other one asks the API server: a run that no reload
// has begun sees what a person has done since. A state that is too old cannot do harm: a new revision is the creation
// of an object with a fixed name, and every change carries the resourceVersion that was read. Either fails as a
// conflict, and the next attempt reads again.
type records struct {
	client    metadata.Interface
	driver    Driver
	namespace string

	mu     sync.Mutex // held during no request
	known  map[string]State
	listed time.Time       // when all records were listed: a release that was not known then did not exist
	used   map[string]bool // releases that were read since the last list, or whose last operation failed
	writes int             // how often a record was written: a list that began before the last time may be older
}

func newRecords(client metadata.Interface, driver Driver, namespace string) *records {
	return &records{client: client, driver: driver, namespace: namespace, known: map[string]State{}, used: map[string]bool{}}
}

// listAge is how long a list may serve runs. After that each run reads its own records, to see what a person has done.
const listAge = time.Minute

// read returns the state of one release, for an operation on it.
func (r *records) read(ctx context.Context, name string) (State, error) {
	state, err := r.look(ctx, name)
	r.doubt(name)
	return state, err
}

// look is read for somebody who only looks: the operation that follows may use the same list.
func (r *records) look(ctx context.Context, name string) (State, error) {
	r.mu.Lock()
	state, fresh := r.stateOf(name), time.Since(r.listed) < listAge && !r.used[name]
	r.mu.Unlock()
	if fresh {
		return state, nil
	}
	return r.reread(ctx, name)
}

// remembered is the state of a release as far as it is known without a request. It may be out of date.
func (r *records) remembered(name string) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stateOf(name)
}

func (r *records) stateOf(name string) State {
	return State{Release: name, Revisions: r.known[name].Revisions}
}

// reread lists the records of a release consistently, without trusting the memory.
func (r *records) reread(ctx context.Context, name string) (State, error) {
	found, err := r.list(ctx, "owner=helm,name="+name, func(states map[string]State) { r.known[name] = states[name] })
	return State{Release: name, Revisions: found.states[name].Revisions}, err
}

// readAll lists all releases of the namespace, consistently.
func (r *records) readAll(ctx context.Context) (listing, error) {
	r.mu.Lock()
	r.listed = time.Time{} // until this one is here
	r.mu.Unlock()
	began := time.Now()
	return r.list(ctx, "owner in (helm, "+pointerOwner+")", func(states map[string]State) {
		r.known, r.listed, r.used = maps.Clone(states), began, map[string]bool{}
	})
}

// wrote remembers the revisions of a release after one was written or deleted by us.
func (r *records) wrote(name string, revisions []Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[name] = State{Release: name, Revisions: revisions}
	r.writes++
}

// doubt makes the next read of a release a request: an operation failed, and it is unknown
// what it wrote last, because a request may have been done without an answer.
func (r *records) doubt(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used[name] = true
}

// listing is what a list of records has.
type listing struct {
	states   map[string]State   // by release
	pointers map[string]string  // by release, its namespace
	inputs   *metav1.ObjectMeta // of the object of this name; nil: there is none
}

// list reads records. Nothing is remembered of a list during which one was written.
func (r *records) list(ctx context.Context, selector string, remember func(map[string]State)) (listing, error) {
	r.mu.Lock()
	before := r.writes
	r.mu.Unlock()
	list, err := r.client.Resource(r.driver.Resource()).Namespace(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return listing{}, fmt.Errorf("list release records in namespace %s: %w", r.namespace, err)
	}
	found := listingOf(list.Items)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes == before {
		remember(found.states)
	}
	return found, nil
}

// listingOf sorts release records into histories.
func listingOf(records []metav1.PartialObjectMetadata) listing {
	found := listing{states: map[string]State{}, pointers: map[string]string{}}
	for i := range records {
		m := &records[i].ObjectMeta
		if m.Name == inputsName {
			found.inputs = m
		}
		if m.Labels["owner"] == pointerOwner && m.Labels["name"] != "" && m.Labels[pointerNamespace] != "" {
			found.pointers[m.Labels["name"]] = m.Labels[pointerNamespace]
		}
		if name, revision, ok := revisionOf(m); ok { // else it only looks like one of Helm
			found.states[name] = State{Release: name, Revisions: append(found.states[name].Revisions, revision)}
		}
	}
	for _, state := range found.states {
		slices.SortFunc(state.Revisions, func(a, b Revision) int { return a.Version - b.Version })
	}
	return found
}

// revisionOf reads the labels of an object, if it is a release record. A checksum that was copied from another
// revision does not count (revisionLabel).
func revisionOf(m *metav1.ObjectMeta) (name string, r Revision, ok bool) {
	version, err := strconv.Atoi(m.Labels["version"])
	name = m.Labels["name"]
	if err != nil || name == "" || !strings.HasPrefix(m.Name, "sh.helm.release.v1.") {
		return "", Revision{}, false
	}
	r = Revision{
		Version:         version,
		Status:          release.Status(m.Labels["status"]),
		Checksum:        m.Labels[ChecksumLabel],
		secret:          m.Name,
		uid:             m.UID,
		resourceVersion: m.ResourceVersion,
		labels:          m.Labels,
		note:            m.Annotations[RenderedAnnotation],
	}
	if of, ok := m.Labels[revisionLabel]; ok && of != m.Labels["version"] {
		r.Checksum = ""
	}
	return name, r, true
}

// Step is what Apply does next with a release. After a step that does not end the Apply, the next
// one is decided from the new state, so no step depends on the step that follows it.
type Step string

// Steps, in the order of the rules that choose them.
const (
	StepInstall   Step = "install"   // there is no release (H5.1), or only the records of an uninstalled one
	StepUnlock    Step = "unlock"    // the last operation was interrupted: mark its revision failed (H8)
	StepReinstall Step = "reinstall" // the only revision failed: forget it and install over what it left (H9)
	StepUpgrade   Step = "upgrade"   // the release differs from what the module wants (H5.2–H5.4)
	StepSkip      Step = "skip"      // nothing to do (H5.5)
)

// Decide chooses the next step from the state of the release, the checksum of
// the rendered manifest and the rendered objects that are absent in the
// cluster. The reason is a sentence for people. Decide is pure: its table test
// is the specification.
func Decide(state State, checksum string, absent []Object) (step Step, reason string) {
	last, ok := state.Last()
	if !ok {
		return StepInstall, "there is no release"
	}
	switch last.Status {
	case release.StatusDeployed:
		return decideDeployed(last, checksum, absent)
	case release.StatusFailed:
		if len(state.Revisions) == 1 {
			return StepReinstall, fmt.Sprintf("the only revision (%d) failed", last.Version)
		}
		return StepUpgrade, fmt.Sprintf("revision %d failed", last.Version)
	case release.StatusSuperseded:
		return StepUpgrade, fmt.Sprintf("revision %d is superseded and its successor is gone", last.Version)
	case release.StatusUninstalled:
		return StepInstall, fmt.Sprintf("revision %d was uninstalled", last.Version)
	}
	// pending-install, pending-upgrade, pending-rollback, uninstalling, and
	// whatever else was left there.
	return StepUnlock, fmt.Sprintf("revision %d was interrupted in status %q", last.Version, last.Status)
}

// decideDeployed compares a deployed revision with what is wanted. The first difference is the
// reason (H5.3, H5.4).
func decideDeployed(last Revision, checksum string, absent []Object) (Step, string) {
	switch {
	case last.Checksum == "":
		return StepUpgrade, fmt.Sprintf("revision %d has no checksum of the operator", last.Version)
	case last.Checksum != checksum:
		return StepUpgrade, "the rendered manifest changed"
	case len(absent) == 1:
		return StepUpgrade, absent[0].String() + " is absent"
	case len(absent) > 1:
		return StepUpgrade, fmt.Sprintf("%s and %d more objects are absent", absent[0], len(absent)-1)
	}
	return StepSkip, "the rendered manifest is unchanged and all its objects exist"
}
