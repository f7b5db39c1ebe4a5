package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastValidType is the type of the Secret that keeps the last valid content of a ConfigMap: one
// of another type belongs to another writer.
const lastValidType corev1.SecretType = "addon-operator/last-valid-config"

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
var ErrNotLastValid = errors.New("its type is not " + string(lastValidType))

// LastValidName is the name of the Secret that keeps the last valid content of a ConfigMap (P3).
func LastValidName(configMap string) string { return configMap + "-last-valid" }

// LastValidStore is the Secret that keeps the last valid contents of the ConfigMap and of the
// Secret with values.
type LastValidStore struct {
	client          *Client
	namespace, name string // of the Secret
}

// LastValid returns the store of the last valid contents of the ConfigMap with this name. It makes
// no request.
func (c *Client) LastValid(namespace, configMap string) LastValidStore {
	return LastValidStore{c, namespace, LastValidName(configMap)}
}

// String names the Secret.
func (s LastValidStore) String() string { return fmt.Sprintf("Secret %s/%s", s.namespace, s.name) }

// Read reads the contents that Write has kept; nil when nothing is kept. The error is
// [ErrNotLastValid] for a Secret of another writer.
func (s LastValidStore) Read(ctx context.Context) (*LastValid, error) {
	secret, err := s.secret(ctx)
	if secret == nil || err != nil {
		return nil, err
	}
	return keptIn(secret), nil
}

// Write keeps contents. The Secret is created when there is something to keep. Nothing is written
// when it has these contents. When another writer is faster, it is read again.
func (s LastValidStore) Write(ctx context.Context, v LastValid) error {
	err := retryOnConflict(func() error {
		secret, err := s.secret(ctx)
		absent := secret == nil
		if err != nil || absent && v.Equal(LastValid{}) || !absent && keptIn(secret).Equal(v) {
			return err
		}
		if absent {
			secret = &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: s.namespace, Name: s.name,
					Labels: map[string]string{"app.kubernetes.io/managed-by": "addon-operator", "app.kubernetes.io/component": "last-valid-config"},
				},
				Type: lastValidType,
			}
		}
		secret.Data = make(map[string][]byte, len(v.Config)+len(v.Secret))
		for key, text := range v.Config {
			secret.Data[keptConfig+key] = []byte(text)
		}
		for key, text := range v.Secret {
			secret.Data[keptSecret+key] = []byte(text)
		}
		if absent {
			_, err = s.client.core.Secrets(s.namespace).Create(ctx, secret, metav1.CreateOptions{})
		} else {
			_, err = s.client.core.Secrets(s.namespace).Update(ctx, secret, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", s, err)
	}
	return nil
}

// secret reads the Secret; nil when there is none.
func (s LastValidStore) secret(ctx context.Context) (*corev1.Secret, error) {
	secret, err := s.client.core.Secrets(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", s, err)
	case secret.Type != lastValidType:
		return nil, fmt.Errorf("read %s: %w", s, ErrNotLastValid)
	}
	return secret, nil
}

func keptIn(secret *corev1.Secret) *LastValid {
	kept := &LastValid{Config: map[string]string{}, Secret: map[string]string{}}
	for key, text := range secret.Data {
		if name, ok := strings.CutPrefix(key, keptConfig); ok {
			kept.Config[name] = string(text)
		} else if name, ok := strings.CutPrefix(key, keptSecret); ok {
			kept.Secret[name] = string(text)
		}
	}
	return kept
}
