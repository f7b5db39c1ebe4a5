package kinds

import (
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Asked is .Capabilities of one render. It has what templates use of chartutil.Capabilities, and
// notes what they ask about kinds: those are inputs of the manifest (H6), and a question about an
// API whose kinds are unknown must not be answered (P13). All questions come from one goroutine.
type Asked struct {
	KubeVersion chartutil.KubeVersion
	HelmVersion any

	versions versions
	lists    int             // how often templates took the list
	asks     int             // how often they called Has; less than lists: they did something else with it
	answers  map[string]bool // by what Has was called with
}

// NewAsked makes the capabilities of one render.
func NewAsked(c *chartutil.Capabilities) *Asked {
	a := &Asked{KubeVersion: c.KubeVersion, HelmVersion: c.HelmVersion, answers: map[string]bool{}}
	all := make([]any, 0, len(c.APIVersions)+1)
	for _, v := range c.APIVersions {
		all = append(all, v)
	}
	// Behind the end of the list, where no template sees it.
	a.versions = versions(append(all, a)[:len(all)])
	return a
}

// APIVersions is what templates call.
func (a *Asked) APIVersions() any {
	a.lists++
	return a.versions
}

// About reports whether the render has asked about an API whose kinds are unknown, so that it has got no true answer,
// or has done something else with the list than to ask Has.
func (a *Asked) About(unknown schema.GroupVersion) bool {
	for version, answer := range a.answers {
		if !answer && version == unknown.String() || strings.HasPrefix(version, unknown.String()+"/") {
			return true
		}
	}
	return a.lists > a.asks
}

// Answers are what the render has asked, and was answered. all: it did something else with the list
// than to ask Has.
func (a *Asked) Answers() (answers map[string]bool, all bool) { return a.answers, a.lists > a.asks }

// versions is chartutil.VersionSet for templates: a list, because they may range over it. A list
// has no room for its Asked, so that is an element behind its end; a part of the list, which a
// template may cut out, has another element there, and its questions are not noted. As the list was
// taken without a question, they still count as something else than Has.
type versions []any

// Has reports whether an API, or a kind of it, is there.
func (v versions) Has(version string) bool {
	answer := slices.Contains(v, any(version))
	if a, ok := v[:len(v)+1][len(v)].(*Asked); ok {
		a.asks++
		a.answers[version] = answer
	}
	return answer
}
