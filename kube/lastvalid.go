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

// ErrNotLastValid says that the Secret with the name of [LastValidName] is not the operator's.
var ErrNotLastValid = errors.New("it is of another type than " + string(lastValidType))

// LastValidName is the name of the Secret that keeps the last valid content of a ConfigMap (P3).
func LastValidName(configMap string) string { return configMap + "-last-valid" }

// ReadLastValid reads the last valid contents of the ConfigMap with this name and of the Secret
// with values, which WriteLastValid has kept; nil when nothing is kept. The error is
// [ErrNotLastValid] for a Secret of another writer.
func (c *Client) ReadLastValid(ctx context.Context, namespace, configMap string) (*LastValid, error) {
	secret, err := c.lastValid(ctx, namespace, configMap)
	if secret == nil || err != nil {
		return nil, err
	}
	return keptIn(secret), nil
}

// WriteLastValid keeps the contents of the ConfigMap with this name and of the Secret with values
// in a Secret, which is created when there is something to keep. Nothing is written when the
// Secret has these contents. When another writer is faster, it reads again.
func (c *Client) WriteLastValid(ctx context.Context, namespace, configMap string, v LastValid) error {
	err := retryOnConflict(func() error {
		secret, err := c.lastValid(ctx, namespace, configMap)
		absent := secret == nil
		if err != nil || absent && v.Equal(LastValid{}) || !absent && keptIn(secret).Equal(v) {
			return err
		}
		if absent {
			secret = &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: LastValidName(configMap),
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
			_, err = c.core.Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
		} else {
			_, err = c.core.Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", namespace, LastValidName(configMap), err)
	}
	return nil
}

// lastValid reads the Secret; nil when there is none.
func (c *Client) lastValid(ctx context.Context, namespace, configMap string) (*corev1.Secret, error) {
	name := LastValidName(configMap)
	secret, err := c.core.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, err)
	case secret.Type != lastValidType:
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, ErrNotLastValid)
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
