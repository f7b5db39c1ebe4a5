package kube

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
)

var (
	// ErrConflict is returned by [ConfigMapStore.Write] when another writer changed one of the keys to
	// be written. The caller decides again on the content that comes with it (D24).
	ErrConflict = errors.New("another client has changed the ConfigMap in the meantime")
	// ErrForbidden is returned by [ConfigMapStore.Read] when the operator may not read a Secret: then there is
	// no such layer of values (D40).
	ErrForbidden = errors.New("the operator may not read it")
)

// ConfigMap is the part of a ConfigMap that the operator reads, or of a Secret with values, whose values are texts
// (D40). The zero value means that it does not exist (D13). Data belongs to the caller.
type ConfigMap struct {
	ResourceVersion string
	Data            map[string]string
	// ConfirmPurge is the annotation [ConfirmPurgeAnnotation].
	ConfirmPurge string
}

// ConfirmPurgeAnnotation is the annotation by which a person allows a purge that the
// operator holds back (P1). The operator removes it when it has read it.
const ConfirmPurgeAnnotation = "addon-operator/confirm-purge"

// Exists distinguishes an empty ConfigMap from an absent one.
func (c ConfigMap) Exists() bool { return c.ResourceVersion != "" }

// Older reports whether the resourceVersion a is from before b. Versions that cannot be compared, such as the empty
// one of an object that does not exist, are not older.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ContentOf is what the operator reads of a ConfigMap or Secret; the zero value for one that was not stored. What has
// another type counts as absent.
func ContentOf(object map[string]any) ConfigMap {
	u := unstructured.Unstructured{Object: object}
	if u.GetResourceVersion() == "" {
		return ConfigMap{}
	}
	c := ConfigMap{ResourceVersion: u.GetResourceVersion(), Data: map[string]string{}, ConfirmPurge: u.GetAnnotations()[ConfirmPurgeAnnotation]}
	data, _, _ := unstructured.NestedStringMap(object, "data")
	for key, text := range data {
		if u.GetKind() == "Secret" {
			decoded, _ := base64.StdEncoding.DecodeString(text) // the API server accepts no other text
			text = string(decoded)
		}
		c.Data[key] = text
	}
	return c
}

// Content is that of a ConfigMap or Secret after a change; the Watch has KeepObjects.
func (c Change) Content() ConfigMap {
	var object map[string]any
	if c.Type != Deleted {
		_ = json.Unmarshal(c.Object.Object, &object) // kube has written it
	}
	return ContentOf(object)
}

// ConfigMapStore reads and writes one ConfigMap, or one Secret with values (D40), whose errors hold nothing of its
// content (J9).
type ConfigMapStore struct {
	client          *Client
	kind            kind
	namespace, name string
}

// ConfigMap returns the store of a ConfigMap. It makes no request.
func (c *Client) ConfigMap(namespace, name string) ConfigMapStore {
	return c.store("ConfigMap", "configmaps", namespace, name)
}

// Secret returns the store of a Secret with values. It makes no request.
func (c *Client) Secret(namespace, name string) ConfigMapStore {
	return c.store("Secret", "secrets", namespace, name)
}

func (c *Client) store(name, resource, namespace, object string) ConfigMapStore {
	return ConfigMapStore{c, kind{resource: corev1.SchemeGroupVersion.WithResource(resource), name: name, namespaced: true, watchable: true}, namespace, object}
}

// String names the object.
func (s ConfigMapStore) String() string {
	return fmt.Sprintf("%s %s/%s", s.kind.name, s.namespace, s.name)
}

func (s ConfigMapStore) api() dynamic.ResourceInterface {
	return s.client.dynamic.Resource(s.kind.resource).Namespace(s.namespace)
}

// get reads the object; one that is absent has nothing but its name.
func (s ConfigMapStore) get(ctx context.Context) (object *unstructured.Unstructured, err error) {
	object, err = s.api().Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		metadata := map[string]any{"namespace": s.namespace, "name": s.name}
		content := map[string]any{"apiVersion": "v1", "kind": s.kind.name, "metadata": metadata}
		return &unstructured.Unstructured{Object: content}, nil
	}
	return object, err
}

// put writes an object of get with other data.
func (s ConfigMapStore) put(ctx context.Context, object *unstructured.Unstructured, data map[string]string) (ConfigMap, error) {
	texts := make(map[string]any, len(data))
	for key, text := range data {
		if s.kind.name == "Secret" {
			text = base64.StdEncoding.EncodeToString([]byte(text))
		}
		texts[key] = text
	}
	object.Object["data"] = texts
	var err error
	if object.GetResourceVersion() == "" {
		object, err = s.api().Create(ctx, object, metav1.CreateOptions{})
	} else {
		object, err = s.api().Update(ctx, object, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		return ContentOf(object.Object), nil
	case s.kind.name == "Secret" && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)): // its text may quote the secret
		err = fmt.Errorf("the API server refuses it: %s", apierrors.ReasonForError(err))
	}
	return ConfigMap{}, err
}

// Read reads the object; the zero value when there is none (D13).
func (s ConfigMapStore) Read(ctx context.Context) (ConfigMap, error) {
	object, err := s.get(ctx)
	if s.kind.name == "Secret" && apierrors.IsForbidden(err) {
		err = ErrForbidden
	}
	if err != nil {
		return ConfigMap{}, fmt.Errorf("read %s: %w", s, err)
	}
	return ContentOf(object.Object), nil
}

// change writes what edit makes of the object, with other data; nil is nothing to write. It does both again while
// other writers are faster. It returns the content as written or, with an error of edit, as read.
func (s ConfigMapStore) change(ctx context.Context, edit func(object *unstructured.Unstructured, read ConfigMap) (data map[string]string, err error)) (content ConfigMap, err error) {
	err = retryOnConflict(func() error {
		object, err := s.get(ctx)
		if err != nil {
			return err
		}
		content = ContentOf(object.Object)
		data, err := edit(object, content)
		if err != nil || data == nil {
			return err
		}
		written, err := s.put(ctx, object, data)
		if err == nil {
			content = written
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("write %s: %w", s, err)
	}
	return content, err
}

// Write sets the keys of set (nil deletes the key) and leaves
// everything else of the ConfigMap as it is, to the letter: other keys, binary
// data, labels, annotations (D24). When there is none and there is something to
// write, it creates the ConfigMap (D13) with everything in base: another client deleted
// it, and that is no order to drop what the caller has in force (P1).
//
// base is what the caller decided on. When a key of set no longer has the text
// of base, nothing is written and the ConfigMap as read is returned with
// ErrConflict – unless the key has the wanted text already, as after a write
// whose answer was lost. Changes of other keys by others are no conflict: the
// write is repeated on top of them.
func (s ConfigMapStore) Write(ctx context.Context, base map[string]string, set map[string]*string) (ConfigMap, error) {
	return s.change(ctx, func(_ *unstructured.Unstructured, read ConfigMap) (map[string]string, error) {
		current := read.Data
		if !read.Exists() {
			current = base // what was in force comes back together with the change (P1)
		}
		next, err := mergeKeys(current, base, set)
		if err != nil || maps.Equal(next, current) { // also after a write whose answer was lost
			return nil, err
		}
		return next, nil
	})
}

// Update replaces the data of the ConfigMap that was read, or creates it when there was none.
// It returns [ErrConflict] if another writer has changed it since it was read. The annotation
// [ConfirmPurgeAnnotation] is set to confirm, unless that is empty.
func (s ConfigMapStore) Update(ctx context.Context, read ConfigMap, data map[string]string, confirm string) (ConfigMap, error) {
	return s.change(ctx, func(object *unstructured.Unstructured, now ConfigMap) (map[string]string, error) {
		if now.ResourceVersion != read.ResourceVersion {
			return nil, ErrConflict
		}
		if confirm != "" {
			_ = unstructured.SetNestedField(object.Object, confirm, "metadata", "annotations", ConfirmPurgeAnnotation)
		}
		return data, nil
	})
}

// RemoveConfirmation removes the annotation [ConfirmPurgeAnnotation] from the ConfigMap,
// unless it has another value by now. It returns what is there then.
func (s ConfigMapStore) RemoveConfirmation(ctx context.Context, value string) (left ConfigMap, err error) {
	return s.change(ctx, func(object *unstructured.Unstructured, read ConfigMap) (map[string]string, error) {
		if !read.Exists() || read.ConfirmPurge != value {
			return nil, nil
		}
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", ConfirmPurgeAnnotation)
		return read.Data, nil
	})
}

// Watch calls notify with the object as it is first seen, and then
// each time its data differ from what was notified last; with the zero value
// when it does not exist (D14, P1). It returns at once and watches until ctx
// ends, also while the API server is away: after that only the state then
// current is notified, if it differs. notify is called from one goroutine.
//
// It selects the object by its name, because a role may allow to read this name only (L6). Only what others may
// change is a difference: not the version, which every new label changes.
func (s ConfigMapStore) Watch(ctx context.Context, notify func(ConfigMap)) {
	spec := Spec{
		APIVersion: "v1", Kind: s.kind.name, Namespaces: []string{s.namespace}, Names: []string{s.name}, known: s.kind, loud: true, KeepObjects: true,
		Filter: func(object map[string]any) (json.RawMessage, error) {
			content := ContentOf(object)
			return json.Marshal([]any{content.Data, content.ConfirmPurge})
		},
	}
	told := false
	_, _ = s.client.watcher.Watch(ctx, spec, func(change Change) { // nothing is wrong with the spec
		told = true
		notify(change.Content())
	}, func() {
		if !told {
			told = true
			notify(ConfigMap{})
		}
	})
}

// mergeKeys returns the new data, or ErrConflict naming the keys that are neither as in base nor as
// wanted. current and base stay as they are; an absent key differs from an empty text.
func mergeKeys(current, base map[string]string, set map[string]*string) (map[string]string, error) {
	next := maps.Clone(current)
	if next == nil {
		next = map[string]string{}
	}
	var conflicts []string
	for key, want := range set {
		now, has := current[key]
		was, had := base[key]
		unchanged := has == had && now == was
		done := has == (want != nil) && (want == nil || now == *want)
		if !unchanged && !done {
			conflicts = append(conflicts, key)
			continue
		}
		if want == nil {
			delete(next, key)
		} else {
			next[key] = *want
		}
	}
	if len(conflicts) > 0 {
		slices.Sort(conflicts)
		return nil, fmt.Errorf("keys %q: %w", conflicts, ErrConflict)
	}
	return next, nil
}

// sleep waits for d and returns nil, or at the end of ctx its cause.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// lastValidType is the type of the Secret that keeps the last valid content of a ConfigMap: one
// of another type belongs to another writer.
const lastValidType = "addon-operator/last-valid-config"

// LastValid is what was in force together: the contents of the ConfigMap and of the Secret with
// values (P3).
type LastValid struct{ Config, Secret map[string]string }

// Equal compares contents; none is an empty one.
func (v LastValid) Equal(other LastValid) bool {
	return maps.Equal(v.Config, other.Config) && maps.Equal(v.Secret, other.Secret)
}

// The keys of both contents are kept with a prefix each, so that none can be taken for another.
const (
	keptConfig = "config."
	keptSecret = "secret."
)

// ErrNotLastValid reports that the Secret with the name of [LastValidName] is not the operator's.
var ErrNotLastValid = errors.New("its type is not " + lastValidType)

// LastValidName is the name of the Secret that keeps the last valid content of a ConfigMap (P3).
func LastValidName(configMap string) string { return configMap + "-last-valid" }

// LastValidStore is the Secret that keeps the last valid contents of the ConfigMap and of the
// Secret with values.
type LastValidStore struct{ secret ConfigMapStore }

// LastValid returns the store of the last valid contents of the ConfigMap with this name. It makes
// no request.
func (c *Client) LastValid(namespace, configMap string) LastValidStore {
	return LastValidStore{c.Secret(namespace, LastValidName(configMap))}
}

// String names the Secret.
func (s LastValidStore) String() string { return s.secret.String() }

// Read reads the contents that Write has kept; nil when nothing is kept. The error is
// [ErrNotLastValid] for a Secret of another writer.
func (s LastValidStore) Read(ctx context.Context) (*LastValid, error) {
	object, err := s.secret.get(ctx)
	if err == nil {
		err = ours(object)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s, err)
	}
	if object.GetResourceVersion() == "" {
		return nil, nil
	}
	return keptIn(ContentOf(object.Object)), nil
}

// Write keeps contents. The Secret is created when there is something to keep. Nothing is written
// when it has these contents. When another writer is faster, it is read again.
func (s LastValidStore) Write(ctx context.Context, v LastValid) error {
	_, err := s.secret.change(ctx, func(object *unstructured.Unstructured, read ConfigMap) (map[string]string, error) {
		if err := ours(object); err != nil || keptIn(read).Equal(v) {
			return nil, err
		}
		if !read.Exists() {
			object.Object["type"] = lastValidType
			object.SetLabels(map[string]string{managedByLabel: managedBy, "app.kubernetes.io/component": "last-valid-config"})
		}
		data := make(map[string]string, len(v.Config)+len(v.Secret))
		for key, text := range v.Config {
			data[keptConfig+key] = text
		}
		for key, text := range v.Secret {
			data[keptSecret+key] = text
		}
		return data, nil
	})
	return err
}

// ours refuses a Secret of another writer.
func ours(object *unstructured.Unstructured) error {
	if object.GetResourceVersion() != "" && object.Object["type"] != lastValidType {
		return ErrNotLastValid
	}
	return nil
}

func keptIn(secret ConfigMap) *LastValid {
	kept := &LastValid{Config: map[string]string{}, Secret: map[string]string{}}
	for key, text := range secret.Data {
		if name, ok := strings.CutPrefix(key, keptConfig); ok {
			kept.Config[name] = text
		} else if name, ok := strings.CutPrefix(key, keptSecret); ok {
			kept.Secret[name] = text
		}
	}
	return kept
}
