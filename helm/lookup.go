package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"helm.sh/helm/v3/pkg/engine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"addon-operator/helm/kinds"
)

// LookupsLabel holds the checksum of what the templates of a chart have found in the cluster. It is
// an input of the manifest (H6), apart from InputsLabel, because it may change all the time.
const LookupsLabel = "moduleLookups"

// lookupClients serves the lookup function of templates from the shared connections, and notes what
// templates asked the cluster. One is for one render, or for the attempts to make one; templates
// run in one goroutine.
type lookupClients struct {
	op      *operation
	used    bool              // also by a lookup that has failed
	asked   *kinds.Asked      // .Capabilities
	answers map[string]string // to lookups
}

var _ engine.ClientProvider = (*lookupClients)(nil)

// GetClientFor implements engine.ClientProvider.
func (l *lookupClients) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	l.used = true
	m, err := l.op.home.kinds.Mapping(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return nil, false, fmt.Errorf("lookup %s %s: %w", apiVersion, kind, err)
	}
	client, err := dynamic.NewForConfig(l.op.config())
	if err != nil {
		return nil, false, err
	}
	all := client.Resource(m.Resource)
	return lookups{lookup{all, m.Resource.GroupResource().String(), l}, all}, kinds.Namespaced(m), nil
}

// sum is the checksum of all answers.
func (l *lookupClients) sum() string {
	sum := sha256.New()
	for _, at := range sortedKeys(l.answers) {
		fmt.Fprintf(sum, "%s\x00%s\x00", at, l.answers[at])
	}
	return hex.EncodeToString(sum.Sum(nil)[:checksumBytes])
}

// note keeps an answer. Of an object of the release itself counts only that it is there: its
// content comes from the chart, as a rule a password that the chart must keep. Fields that change
// with each write do not count either.
func (l *lookupClients) note(at string, found ...unstructured.Unstructured) {
	sum := sha256.New()
	for _, o := range found {
		if a := o.GetAnnotations(); a[ownerName] == l.op.release && a[ownerNamespace] == l.op.home.options.Namespace {
			fmt.Fprintf(sum, "%s/%s\x00", o.GetNamespace(), o.GetName())
			continue
		}
		o = *o.DeepCopy()
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
		_ = json.NewEncoder(sum).Encode(o.Object) // it was JSON
	}
	if l.answers == nil {
		l.answers = map[string]string{}
	}
	l.answers[at] = fmt.Sprintf("%d %x", len(found), sum.Sum(nil))
}

// lookups reads objects of one kind. The engine calls Namespace only for a lookup that names one.
type lookups struct {
	lookup
	all dynamic.NamespaceableResourceInterface
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (l lookups) Namespace(name string) dynamic.ResourceInterface {
	return lookup{l.all.Namespace(name), l.at + " " + name, l.by}
}

// lookup notes what is found, or that there is nothing, under at: the resource, and the namespace
// after a space. Other errors are not noted: they end the render.
type lookup struct {
	dynamic.ResourceInterface
	at string
	by *lookupClients
}

// Get implements dynamic.ResourceInterface.
func (l lookup) Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error) {
	found, err := l.ResourceInterface.Get(ctx, name, o, subresources...)
	switch {
	case err == nil:
		l.by.note(l.at+"/"+name, *found)
	case apierrors.IsNotFound(err):
		l.by.note(l.at + "/" + name)
	}
	return found, err
}

// List implements dynamic.ResourceInterface.
func (l lookup) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	found, err := l.ResourceInterface.List(ctx, o)
	if err == nil {
		l.by.note(l.at+"/", found.Items...)
	}
	return found, err
}
