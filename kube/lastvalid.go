package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
