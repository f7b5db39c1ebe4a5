package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// ErrForbidden is returned by [SecretStore.Read] when the operator may not read it: then there is
// no such layer of values (D40).
var ErrForbidden = errors.New("the operator may not read it")

// SecretOf reads a Secret as if it were a ConfigMap: its values are texts. It has no annotations of
// the operator, so the fields for these stay empty.
func SecretOf(object *corev1.Secret) ConfigMap {
	out := ConfigMap{ResourceVersion: object.ResourceVersion, Data: make(map[string]string, len(object.Data))}
	for key, value := range object.Data {
		out.Data[key] = string(value)
	}
	return out
}

// SecretStore reads and writes one Secret with values (D40). It treats it as a ConfigMapStore
// treats its ConfigMap, but for errors: none may hold what is in the Secret (J9).
type SecretStore struct {
	client          *Client
	namespace, name string
}

// Secret returns the store of a Secret with values. It makes no request.
func (c *Client) Secret(namespace, name string) SecretStore { return SecretStore{c, namespace, name} }

// String names the Secret.
func (s SecretStore) String() string { return fmt.Sprintf("Secret %s/%s", s.namespace, s.name) }

// Read reads the Secret with values; the zero value when there is none (D40).
func (s SecretStore) Read(ctx context.Context) (ConfigMap, error) {
	object, err := s.client.core.Secrets(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return ConfigMap{}, nil
	case apierrors.IsForbidden(err):
		return ConfigMap{}, fmt.Errorf("read %s: %w", s, ErrForbidden)
	case err != nil:
		return ConfigMap{}, fmt.Errorf("read %s: %w", s, err)
	}
	return SecretOf(object), nil
}

// Write is [ConfigMapStore.Write] for the Secret with values. Its errors hold nothing of its
// content.
func (s SecretStore) Write(ctx context.Context, base map[string]string, set map[string]*string) (ConfigMap, error) {
	return repeatWrite(ctx, s.String(), func() (ConfigMap, error) {
		return s.tryWrite(ctx, base, set)
	})
}

// tryWrite reads once and writes once, as that of ConfigMapStore.
func (s SecretStore) tryWrite(ctx context.Context, base map[string]string, set map[string]*string) (ConfigMap, error) {
	api := s.client.core.Secrets(s.namespace)
	object, err := api.Get(ctx, s.name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	switch {
	case absent:
		object = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.namespace}}
	case err != nil:
		return ConfigMap{}, err
	}
	current := SecretOf(object).Data
	if absent {
		current = base
	}
	next, err := mergeKeys(current, base, set)
	if err != nil {
		return SecretOf(object), err
	}
	if maps.Equal(next, current) && (!absent || len(next) == 0) {
		return SecretOf(object), nil
	}
	if err := writableSecret(object, next); err != nil {
		return ConfigMap{}, err
	}
	object.Data = make(map[string][]byte, len(next))
	for key, text := range next {
		object.Data[key] = []byte(text)
	}
	if absent {
		object, err = api.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object, err = api.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return ConfigMap{}, withoutObject(err)
	}
	return SecretOf(object), nil
}

// withoutObject reduces a refusal to its reason: the text may quote the secret that was written.
// Other errors, conflicts among them, stay: repeatWrite needs them, and they quote nothing.
func withoutObject(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return fmt.Errorf("the API server refuses it: %s", apierrors.ReasonForError(err))
	}
	return err
}

// writableSecret predicts refusals of the API server whose texts lack the fix.
func writableSecret(object *corev1.Secret, data map[string]string) error {
	if object.Immutable != nil && *object.Immutable {
		return errors.New("it is immutable: delete it and create it again without 'immutable: true'")
	}
	size := 0
	for key, text := range data {
		size += len(key) + len(text)
	}
	if size > maxConfigMapBytes {
		return fmt.Errorf("it would have %d bytes, the limit of a Secret is %d", size, maxConfigMapBytes)
	}
	return nil
}

// Watch is [ConfigMapStore.Watch] for the Secret with values.
func (s SecretStore) Watch(ctx context.Context, notify func(ConfigMap)) {
	api := s.client.core.Secrets(s.namespace)
	s.client.watchOne(ctx, s.String(), "secrets", s.namespace, s.name, notify, cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return api.Watch(ctx, o) },
	})
}
