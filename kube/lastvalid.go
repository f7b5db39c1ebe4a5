package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastValidType is the type of the Secret that keeps the last valid content of a ConfigMap: one
// of another type belongs to somebody else.
const lastValidType corev1.SecretType = "addon-operator/last-valid-config"

// ErrNotLastValid says that the Secret with the name of [LastValidName] is not the operator's.
var ErrNotLastValid = errors.New("it is of another type than " + string(lastValidType))

// LastValidName is the name of the Secret that keeps the last valid content of a ConfigMap (P3).
func LastValidName(configMap string) string { return configMap + "-last-valid" }

// ReadLastValid reads the last valid content of the ConfigMap with this name, which
// WriteLastValid has kept; nil when nothing is kept. The error is [ErrNotLastValid] for a Secret
// of somebody else.
func (c *Client) ReadLastValid(ctx context.Context, namespace, configMap string) (map[string]string, error) {
	secret, err := c.lastValid(ctx, namespace, configMap)
	if secret == nil || err != nil {
		return nil, err
	}
	return textsOf(secret), nil
}

// WriteLastValid keeps a content of the ConfigMap with this name in a Secret, which is created
// when there is something to keep. Nothing is written when the Secret has this content. When
// another writer is faster, it reads again.
func (c *Client) WriteLastValid(ctx context.Context, namespace, configMap string, data map[string]string) error {
	err := retryOnConflict(func() error {
		secret, err := c.lastValid(ctx, namespace, configMap)
		absent := secret == nil
		if err != nil || absent && len(data) == 0 || !absent && maps.Equal(textsOf(secret), data) {
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
		secret.Data = make(map[string][]byte, len(data))
		for key, text := range data {
			secret.Data[key] = []byte(text)
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

func textsOf(secret *corev1.Secret) map[string]string {
	texts := make(map[string]string, len(secret.Data))
	for key, text := range secret.Data {
		texts[key] = string(text)
	}
	return texts
}
