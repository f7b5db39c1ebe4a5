package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// maxConfigMapBytes is the limit of the API server on all keys and texts of
// one ConfigMap.
const maxConfigMapBytes = 1 << 20

// ErrConflict is returned by [ConfigMapStore.Write] when another writer changed one of the keys to
// be written. The caller decides again on the ConfigMap that comes with it (D24).
var ErrConflict = errors.New("another client has changed the ConfigMap in the meantime")

// ConfigMap is the part of a ConfigMap that the operator reads. The zero value
// means that it does not exist (D13). Data belongs to the caller.
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

// ConfigMapOf is what the operator reads of a ConfigMap.
func ConfigMapOf(object *corev1.ConfigMap) ConfigMap {
	return ConfigMap{
		ResourceVersion: object.ResourceVersion, Data: maps.Clone(object.Data),
		ConfirmPurge: object.Annotations[ConfirmPurgeAnnotation],
	}
}

// ConfigMapStore reads and writes one ConfigMap.
type ConfigMapStore struct {
	client          *Client
	namespace, name string
}

// ConfigMap returns the store of a ConfigMap. It makes no request.
func (c *Client) ConfigMap(namespace, name string) ConfigMapStore {
	return ConfigMapStore{c, namespace, name}
}

// String names the ConfigMap.
func (s ConfigMapStore) String() string { return fmt.Sprintf("ConfigMap %s/%s", s.namespace, s.name) }

func (s ConfigMapStore) api() typedcorev1.ConfigMapInterface {
	return s.client.core.ConfigMaps(s.namespace)
}

// Read reads the ConfigMap; the zero value when there is none (D13).
func (s ConfigMapStore) Read(ctx context.Context) (ConfigMap, error) {
	object, err := s.api().Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ConfigMap{}, nil
	}
	if err != nil {
		return ConfigMap{}, fmt.Errorf("read %s: %w", s, err)
	}
	return ConfigMapOf(object), nil
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
// write is repeated on top of them until ctx ends.
func (s ConfigMapStore) Write(ctx context.Context, base map[string]string, set map[string]*string) (ConfigMap, error) {
	return repeatWrite(ctx, s.String(), func() (ConfigMap, error) {
		return s.tryWrite(ctx, base, set)
	})
}

// repeatWrite tries a write again while other writers are faster, until ctx ends. It does not give
// up after some attempts, as retryOnConflict does: many writers of other keys must not fail the run
// of a hook (D24). try returns conflicts of the API server as they are.
func repeatWrite(ctx context.Context, what string, try func() (ConfigMap, error)) (ConfigMap, error) {
	pause := wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: time.Second}
	for {
		written, err := try()
		switch {
		case errors.Is(err, ErrConflict):
			return written, fmt.Errorf("write %s: %w", what, err)
		case err == nil:
			return written, nil
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return ConfigMap{}, fmt.Errorf("write %s: %w", what, err)
		}
		// Another writer was faster: look again at what it left.
		if err := sleep(ctx, pause.Step()); err != nil {
			return ConfigMap{}, fmt.Errorf("write %s: %w", what, err)
		}
	}
}

// tryWrite reads once and writes once. A conflict of the API server is returned as it is; only one
// of the keys in set is ErrConflict, with the ConfigMap that has it.
func (s ConfigMapStore) tryWrite(ctx context.Context, base map[string]string, set map[string]*string) (ConfigMap, error) {
	api := s.api()
	object, err := api.Get(ctx, s.name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	switch {
	case absent:
		object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.namespace}}
	case err != nil:
		return ConfigMap{}, err
	}
	current := object.Data
	if absent {
		current = base // what was in force comes back together with the change (P1)
	}
	next, err := mergeKeys(current, base, set)
	if err != nil {
		return ConfigMapOf(object), err
	}
	if maps.Equal(next, current) {
		return ConfigMapOf(object), nil // also after a write whose answer was lost
	}
	object.Data = next
	if err := writable(object); err != nil {
		return ConfigMap{}, err
	}
	if absent {
		object, err = api.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object, err = api.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return ConfigMap{}, err
	}
	return ConfigMapOf(object), nil
}

// Update replaces the data of the ConfigMap that was read, or creates it when there was none.
// It returns [ErrConflict] if another writer has changed it since it was read. The object is read again
// because read lacks the parts that must stay: labels, annotations and binary data. Its version, which is
// empty for an absent one, must be that of read; the API server checks the time after that. The annotation
// [ConfirmPurgeAnnotation] is set to confirm, unless that is empty.
func (s ConfigMapStore) Update(ctx context.Context, read ConfigMap, data map[string]string, confirm string) (ConfigMap, error) {
	api := s.api()
	object, err := api.Get(ctx, s.name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if absent {
		object, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.namespace}}, nil
	}
	switch {
	case err != nil:
	case object.ResourceVersion != read.ResourceVersion:
		err = ErrConflict
	default:
		object.Data = data
		if confirm != "" {
			setAnnotation(object, ConfirmPurgeAnnotation, confirm)
		}
		if err = writable(object); err == nil && absent {
			object, err = api.Create(ctx, object, metav1.CreateOptions{})
		} else if err == nil {
			object, err = api.Update(ctx, object, metav1.UpdateOptions{})
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = ErrConflict
	}
	if err != nil {
		return ConfigMap{}, fmt.Errorf("write %s: %w", s, err)
	}
	return ConfigMapOf(object), nil
}

// RemoveConfirmation removes the annotation [ConfirmPurgeAnnotation] from the ConfigMap,
// unless it has another value by now. It returns what is there then.
func (s ConfigMapStore) RemoveConfirmation(ctx context.Context, value string) (ConfigMap, error) {
	return s.annotate(ctx, ConfirmPurgeAnnotation, func(was string) string {
		if was == value {
			return ""
		}
		return was
	})
}

// setAnnotation sets an annotation, or removes it for an empty text.
func setAnnotation(object *corev1.ConfigMap, annotation, text string) {
	if text == "" {
		delete(object.Annotations, annotation)
		return
	}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, annotation, text)
}

// annotate replaces the text of an annotation of the ConfigMap; an empty one is removed. change is
// called again after a conflict, with the text that the other writer has left.
func (s ConfigMapStore) annotate(ctx context.Context, annotation string, change func(was string) string) (ConfigMap, error) {
	api := s.api()
	var left ConfigMap
	err := retryOnConflict(func() error {
		object, err := api.Get(ctx, s.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			left = ConfigMap{}
			return nil
		}
		if err != nil {
			return err
		}
		was := object.Annotations[annotation]
		if next := change(was); next != was {
			setAnnotation(object, annotation, next)
			if object, err = api.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		left = ConfigMapOf(object)
		return nil
	})
	if err != nil {
		return left, fmt.Errorf("change annotation %s of %s: %w", annotation, s, err)
	}
	return left, nil
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

// writable checks what the API server would refuse with errors that do not name the fix.
func writable(object *corev1.ConfigMap) error {
	if object.Immutable != nil && *object.Immutable {
		return errors.New("it is immutable: delete it and create it again without 'immutable: true'")
	}
	size := 0
	for key, text := range object.Data {
		size += len(key) + len(text)
	}
	for key, data := range object.BinaryData {
		size += len(key) + len(data)
	}
	if size > maxConfigMapBytes {
		return fmt.Errorf("it would have %d bytes, the limit of a ConfigMap is %d: keep large values in the modules' values.yaml", size, maxConfigMapBytes)
	}
	return nil
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
