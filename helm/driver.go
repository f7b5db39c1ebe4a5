package helm

import (
	"context"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

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
