package helm

import (
	"errors"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/helm/kinds"
)

// serviceHost matches the name and the namespace of a service in a URL.
const serviceHost = `([a-z0-9-]+)\.([a-z0-9-]+)\.svc[:/.]`

// Needs is what the cluster lacks, so that an Apply has failed. Another release may provide it
// (F6.4).
type Needs struct {
	// Kinds that the API server does not serve, and Resources, as it calls them.
	Kinds      []schema.GroupKind
	Resources  []schema.GroupResource
	Namespaces []string
	// Services of webhooks that do not answer.
	Services []types.NamespacedName
	// APIs whose servers do not answer (P13).
	APIs []schema.GroupVersion
}

// NeedsOf reads them from an error of Apply. Helm joins errors as text, so it looks for the words
// of the API server and of client-go. What it does not recognise is not in the result.
func NeedsOf(err error) (n Needs) {
	if err == nil {
		return n
	}
	if away, ok := errors.AsType[*kinds.AwayError](err); ok {
		n.APIs = append(n.APIs, away.Version)
	}
	text := err.Error()
	for _, found := range regexp.MustCompile(`no matches for kind "([^"]+)" in version "([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if gv, err := schema.ParseGroupVersion(found[2]); err == nil {
			n.Kinds = append(n.Kinds, gv.WithKind(found[1]).GroupKind())
		}
	}
	for _, found := range regexp.MustCompile(`could not find the requested resource \(\w+ ([a-z0-9.-]+)`).FindAllStringSubmatch(text, -1) {
		n.Resources = append(n.Resources, schema.ParseGroupResource(found[1]))
	}
	for _, found := range regexp.MustCompile(`namespaces "([^"]+)" not found`).FindAllStringSubmatch(text, -1) {
		n.Namespaces = append(n.Namespaces, found[1])
	}
	for _, found := range regexp.MustCompile(`(?:failed calling webhook "[^"]*"|conversion webhook for [^ ]+ Kind=\w+ failed):.{0,60}? "https://`+serviceHost).FindAllStringSubmatch(text, -1) {
		n.Services = append(n.Services, types.NamespacedName{Namespace: found[2], Name: found[1]})
	}
	return n
}
