package helm_test

import (
	"errors"
	"fmt"
	"testing"

	"addon-operator/helm"
)

// F6: what the API server says when something is not there, as Helm passes it on.
func TestNeedsOf(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "{[] [] [] [] []}"},
		{`unable to build kubernetes objects from release manifest: Rule a: no matches for kind "Rule" in version "a.io/v1"; Box b: no matches for kind "Box" in version "b.io/v1"; install the CRD`, "{[Rule.a.io Box.b.io] [] [] [] []}"},
		{`failed to create resource: the server could not find the requested resource (post rules.a.io)`, "{[] [rules.a.io] [] [] []}"},
		{`failed to create resource: namespaces "apps" not found`, "{[] [] [apps] [] []}"},
		{`failed to create resource: Internal error occurred: failed calling webhook "validate.nginx.ingress.kubernetes.io": failed to call webhook: Post "https://ingress-nginx-controller-admission.ingress-nginx.svc:443/networking/v1/ingresses?timeout=10s": no endpoints available for service "ingress-nginx-controller-admission"`, "{[] [] [] [ingress-nginx/ingress-nginx-controller-admission] []}"},
		{`Internal error occurred: failed calling webhook "w.a.io": failed to call webhook: Post "https://hook.n.svc:443/?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused`, "{[] [] [] [n/hook] []}"},
		{`admission webhook "w.a.io" denied the request: see "https://docs.a.svc/"`, "{[] [] [] [] []}"},
	} {
		err := errors.New(c.text)
		if got := fmt.Sprint(helm.NeedsOf(fmt.Errorf("helm: %w", err))); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
	if got := fmt.Sprint(helm.NeedsOf(nil)); got != "{[] [] [] [] []}" {
		t.Errorf("no error: %s", got)
	}
}
