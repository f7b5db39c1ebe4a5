package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// errTaken reports that a record changed since it was read.
var errTaken = errors.New("the release record was changed by another client")

// corruptedError reports that the body of a release record cannot be read.
type corruptedError struct {
	secret string
	err    error
}

// Error implements error.
func (e *corruptedError) Error() string {
	return fmt.Sprintf("release record %s is corrupted: %v", e.secret, e.err)
}

// Unwrap returns the cause.
func (e *corruptedError) Unwrap() error { return e.err }

// unlessCorrupted is err, and nil for a record that cannot be read.
func unlessCorrupted(err error) error {
	if _, corrupted := errors.AsType[*corruptedError](err); corrupted {
		return nil
	}
	return err
}

// recordKey is the key of a record's body in its Secret or ConfigMap.
const recordKey = "release"

// store is the storage driver of one operation on one release. It reads and
// writes the records exactly as Helm's own drivers do, except that
//   - the history comes from the state that was just read; only bodies that
//     Helm looks into are fetched, i.e. the newest of each answer;
//   - an update carries the resourceVersion that this operation read or wrote,
//     so of two writers one loses instead of both winning;
//   - a corrupted body is an error with the name of the secret, where Helm's
//     driver skips it without an error, and then fails forever on the existing name;
//   - templates and files of the chart are not stored: no command of Helm reads them,
//     and they are what makes records too large.
type store struct {
	op     *operation
	ctx    context.Context             // never cancelled: "failed" must be recorded after a cancelled operation
	state  State                       // as it was read, with what this operation has written since
	bodies map[string]*release.Release // by name of the secret; Helm changes them in place

	checksum func(*release.Release) string // of a new revision, where it is known only then; or nil
	describe func(*release.Release) string // RenderedAnnotation of a record; nil: none has it
	prunes   bool                          // what is deleted is beyond the limit of the history (H7)
	writing  int                           // the revision that was created last; 0 for none
}

var _ driver.Driver = (*store)(nil)

// Name implements driver.Driver.
func (s *store) Name() string { return string(s.op.home.options.Driver) }

// Get returns one revision with its body.
func (s *store) Get(key string) (*release.Release, error) {
	if i := s.index(key); i >= 0 {
		return s.body(s.state.Revisions[i])
	}
	return nil, driver.ErrReleaseNotFound
}

// List implements driver.Driver; actions on one release never call it.
func (s *store) List(func(*release.Release) bool) ([]*release.Release, error) {
	return nil, errors.New("list releases: not offered by the driver of one release")
}

// Query implements driver.Driver. It returns the revisions with the given labels, oldest first.
// Only the newest has a body: Helm counts, sorts and deletes the others. Update refuses one without
// a body, because it would erase the record.
func (s *store) Query(labels map[string]string) ([]*release.Release, error) {
	var found []Revision
	for _, r := range s.state.Revisions {
		if status, ok := labels["status"]; labels["name"] == s.state.Release && (!ok || status == string(r.Status)) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	out := make([]*release.Release, len(found))
	for i, r := range found {
		out[i] = &release.Release{Name: s.state.Release, Version: r.Version, Labels: customLabels(r.labels), Info: &release.Info{Status: r.Status}}
	}
	newest, err := s.body(found[len(found)-1])
	if err != nil {
		return nil, err
	}
	out[len(out)-1] = newest
	return out, nil
}

// Create implements driver.Driver. It returns driver.ErrReleaseExists when another writer was faster.
func (s *store) Create(key string, rel *release.Release) error {
	if s.checksum != nil {
		rel.Labels = maps.Clone(rel.Labels)
		rel.Labels[ChecksumLabel] = s.checksum(rel)
	}
	s.writing = rel.Version
	secret, err := s.secretOf(key, rel)
	if err != nil {
		return err
	}
	secret.Labels["createdAt"] = now()
	secret.Labels[revisionLabel] = strconv.Itoa(rel.Version)
	created, err := s.op.home.objects.Create(s.ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return driver.ErrReleaseExists
	}
	if err != nil {
		return fmt.Errorf("create release record %s: %w", key, err)
	}
	s.keep(created, rel)
	return nil
}

// Update writes the changed status of a revision.
func (s *store) Update(key string, rel *release.Release) error {
	i := s.index(key)
	if i < 0 {
		return driver.ErrReleaseNotFound
	}
	if rel.Chart == nil {
		return fmt.Errorf("update release record %s: its body was never read", key)
	}
	return s.write(key, s.state.Revisions[i], rel)
}

// write replaces the record of a revision, unless it has changed since it was read.
func (s *store) write(key string, old Revision, rel *release.Release) error {
	secret, err := s.secretOf(key, rel)
	if err != nil {
		return err
	}
	for _, label := range []string{"createdAt", revisionLabel} {
		if v, ok := old.labels[label]; ok {
			secret.Labels[label] = v
		}
	}
	secret.Labels["modifiedAt"] = now()
	secret.ResourceVersion = old.resourceVersion
	return s.update(secret, rel)
}

// Delete implements driver.Driver. It removes a revision that did not change since it was read; one that is gone is no
// error.
func (s *store) Delete(key string) (*release.Release, error) {
	i := s.index(key)
	if i < 0 {
		return nil, driver.ErrReleaseNotFound
	}
	old := s.state.Revisions[i]
	if err := s.op.ctx.Err(); err != nil {
		return nil, err
	}
	seen := &metav1.Preconditions{ResourceVersion: &old.resourceVersion}
	err := s.op.home.objects.Delete(s.ctx, old.secret, metav1.DeleteOptions{Preconditions: seen})
	switch {
	case err != nil && s.prunes && !apierrors.IsNotFound(err): // no reason to stop: the next revision tries again
		s.op.log.Warn("an old release record stays for now", "record", old.secret, "err", err)
		return s.bodies[key], nil
	case apierrors.IsConflict(err):
		return nil, fmt.Errorf("delete release record %s: %w", old.secret, errTaken)
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("delete release record %s: %w", old.secret, err)
	}
	s.state.Revisions = slices.DeleteFunc(slices.Clone(s.state.Revisions), func(r Revision) bool { return r.secret == old.secret })
	s.op.home.records.wrote(s.state.Release, s.state.Revisions)
	return s.bodies[key], nil
}

// drop removes a corrupted record. One that another client has removed meanwhile is as good.
func (s *store) drop(c *corruptedError, then string) error {
	s.op.log.Warn("a corrupted release record is removed; "+then, "record", c.secret, "err", c.err)
	_, err := s.Delete(c.secret)
	return err
}

// keep takes over what the API server has stored, for the next step and for the memory of records.
func (s *store) keep(secret *corev1.Secret, rel *release.Release) {
	_, revision, _ := revisionOf(&secret.ObjectMeta)
	revisions := slices.Clone(s.state.Revisions)
	if i := s.index(secret.Name); i >= 0 {
		revisions[i] = revision
	} else {
		revisions = append(revisions, revision)
	}
	s.state.Revisions = revisions
	s.bodies[secret.Name] = rel
	s.op.home.records.wrote(s.state.Release, revisions)
}

func (s *store) index(key string) int {
	return slices.IndexFunc(s.state.Revisions, func(r Revision) bool { return r.secret == key })
}

// body fetches and decodes the record of one revision, once per operation.
func (s *store) body(r Revision) (*release.Release, error) {
	if rel, ok := s.bodies[r.secret]; ok {
		return rel, nil
	}
	secret, err := s.fetch(r)
	if err != nil {
		return nil, err
	}
	rel, err := decodeRelease(secret.Data[recordKey])
	if err == nil && (rel.Name != s.state.Release || rel.Version != r.Version) {
		err = fmt.Errorf("it contains release %s, revision %d", rel.Name, rel.Version)
	}
	if err != nil {
		return nil, &corruptedError{secret: r.secret, err: err}
	}
	rel.Namespace = s.op.home.options.Namespace // Helm renders for this one; another client may have written another one
	rel.Labels = customLabels(secret.Labels)
	s.bodies[r.secret] = rel
	return rel, nil
}

// customLabels are the labels that are not Helm's own. Helm copies them to the
// next revision; copying its own would make createdAt stick.
func customLabels(all map[string]string) map[string]string {
	custom := maps.Clone(all)
	for _, l := range driver.GetSystemLabels() {
		delete(custom, l)
	}
	delete(custom, revisionLabel)
	return custom
}

func (s *store) secretOf(key string, rel *release.Release) (*corev1.Secret, error) {
	stored := *rel
	if rel.Chart != nil {
		stored.Chart = &chart.Chart{Metadata: rel.Chart.Metadata, Values: rel.Chart.Values}
	}
	data, err := s.op.home.encoder.encode(&stored)
	if err != nil {
		return nil, fmt.Errorf("encode release %s, revision %d: %w", rel.Name, rel.Version, err)
	}
	labels := customLabels(rel.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["name"] = rel.Name
	labels["owner"] = "helm"
	labels["status"] = rel.Info.Status.String()
	labels["version"] = strconv.Itoa(rel.Version)
	var annotations map[string]string
	if s.describe != nil {
		if note := s.describe(rel); note != "" {
			annotations = map[string]string{RenderedAnnotation: note}
		}
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key, Labels: labels, Annotations: annotations},
		Type:       "helm.sh/release.v1",
		Data:       map[string][]byte{recordKey: data},
	}, nil
}

// change changes labels or annotations of the newest record and leaves the rest as it is. A record
// that was written since it was read is errTaken.
func (s *store) change(r Revision, change func(*metav1.ObjectMeta)) error {
	record, err := s.fetch(r)
	if err != nil {
		return err
	}
	change(&record.ObjectMeta)
	return s.update(record, s.bodies[r.secret])
}

func now() string { return strconv.FormatInt(time.Now().Unix(), 10) }

// manifests are what the release may have in the cluster: the manifest of the newest revision, and, if that is not
// deployed, those since the last deployed one. None without a record.
func (s *store) manifests() (all []string, err error) {
	for _, r := range s.state.effective() {
		rel, err := s.body(r)
		if err != nil {
			return nil, err
		}
		all = append(all, rel.Manifest)
	}
	return all, nil
}

// unlock marks an interrupted revision as failed, and does nothing else. The
// write carries the resourceVersion that was read, so only one of two operators
// gets the release.
func (s *store) unlock() error {
	last, _ := s.state.Last()
	rel, err := s.body(last)
	if err != nil {
		return err
	}
	rel.SetStatus(release.StatusFailed, fmt.Sprintf("interrupted in status %q", last.Status))
	return s.Update(last.secret, rel)
}

// Driver is the kind of object that holds the records of releases, one for each revision. Releases
// that one driver wrote do not exist for the other, as in Helm: a change of the driver makes the
// operator install everything again.
type Driver string

// The drivers that are served. The zero value counts as SecretDriver, Helm's default.
const (
	SecretDriver    Driver = "secret"
	ConfigMapDriver Driver = "configmap"
)

// UnmarshalText implements encoding.TextUnmarshaler for the spellings of HELM_DRIVER that Helm
// accepts.
func (d *Driver) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "", "secret", "secrets":
		*d = SecretDriver
	case "configmap", "configmaps":
		*d = ConfigMapDriver
	default: // memory forgets all releases when the process ends, and sql keeps them outside of the cluster
		return fmt.Errorf("the driver %q is not supported; records of releases are kept in Secrets (secret) or ConfigMaps (configmap)", text)
	}
	return nil
}

// Resource is what the records are in the API of Kubernetes.
func (d Driver) Resource() schema.GroupVersionResource {
	if d == ConfigMapDriver {
		return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

// recordObjects reads and writes the records of one namespace in the shape of Secrets, whatever the
// driver, so that store has one implementation. typedcorev1.SecretInterface implements it, too.
type recordObjects interface {
	Create(ctx context.Context, record *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, record *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

func (d Driver) objects(client typedcorev1.CoreV1Interface, namespace string) recordObjects {
	if d == ConfigMapDriver {
		return configMapRecords{client.ConfigMaps(namespace)}
	}
	return client.Secrets(namespace)
}

// configMapRecords are records in ConfigMaps. Both drivers of Helm write the same body and the same
// labels, so only the type of the object is converted.
type configMapRecords struct {
	client typedcorev1.ConfigMapInterface
}

// Create implements recordObjects.
func (c configMapRecords) Create(ctx context.Context, record *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error) {
	stored, err := c.client.Create(ctx, configMapOf(record), o)
	return secretFrom(stored, err)
}

// Update implements recordObjects.
func (c configMapRecords) Update(ctx context.Context, record *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error) {
	stored, err := c.client.Update(ctx, configMapOf(record), o)
	return secretFrom(stored, err)
}

// Get implements recordObjects.
func (c configMapRecords) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error) {
	stored, err := c.client.Get(ctx, name, o)
	return secretFrom(stored, err)
}

// Delete implements recordObjects.
func (c configMapRecords) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return c.client.Delete(ctx, name, o)
}

func configMapOf(record *corev1.Secret) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: record.ObjectMeta, Data: map[string]string{recordKey: string(record.Data[recordKey])}}
}

func secretFrom(stored *corev1.ConfigMap, err error) (*corev1.Secret, error) {
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{ObjectMeta: stored.ObjectMeta, Data: map[string][]byte{recordKey: []byte(stored.Data[recordKey])}}, nil
}

// fetch reads the record of a revision; errTaken if it is not the version that the state lists.
func (s *store) fetch(r Revision) (*corev1.Secret, error) {
	record, err := s.op.home.objects.Get(s.ctx, r.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && record.ResourceVersion != r.resourceVersion {
		err = errTaken
	}
	if err != nil {
		return nil, fmt.Errorf("read release record %s: %w", r.secret, err)
	}
	return record, nil
}

// update writes a record over the version that it carries; errTaken if that is not the current one.
func (s *store) update(record *corev1.Secret, rel *release.Release) error {
	updated, err := s.op.home.objects.Update(s.ctx, record, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = errTaken
	}
	if err != nil {
		return fmt.Errorf("update release record %s: %w", record.Name, err)
	}
	s.keep(updated, rel)
	return nil
}
