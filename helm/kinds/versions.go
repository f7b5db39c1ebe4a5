package kinds

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Asked is .Capabilities of a render that must not be answered for APIs whose kinds are
// unknown. It has what templates know of chartutil.Capabilities.
type Asked struct {
	KubeVersion chartutil.KubeVersion
	HelmVersion any

	versions versions
	unknown  []schema.GroupVersion

	mu          sync.Mutex
	lists, asks int
	about       []schema.GroupVersion
	answers     map[string]bool
}

// NewAsked makes the capabilities of one render.
func NewAsked(c *chartutil.Capabilities, unknown []schema.GroupVersion) *Asked {
	a := &Asked{KubeVersion: c.KubeVersion, HelmVersion: c.HelmVersion, unknown: unknown, answers: map[string]bool{}}
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
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists++
	return a.versions
}

// Unanswered are the APIs that the render has asked about, and whose kinds are unknown:
// all, when it did something else with the list than to ask Has.
func (a *Asked) Unanswered() []schema.GroupVersion {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lists > a.asks {
		return a.unknown
	}
	return a.about
}

// Answers are what the render has asked, and was answered. all: it did something else with the list than to ask Has.
func (a *Asked) Answers() (answers map[string]bool, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.answers), a.lists > a.asks
}

// Same reports whether the questions of another render would be answered as they were, and can be.
func (a *Asked) Same(answers map[string]bool) bool {
	for version, answer := range answers {
		a.lists++
		if a.versions.Has(version) != answer {
			return false
		}
	}
	return len(a.Unanswered()) == 0
}

func (a *Asked) ask(version string, answer bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asks++
	a.answers[version] = answer
	for _, gv := range a.unknown {
		if strings.HasPrefix(version, gv.String()+"/") && !slices.Contains(a.about, gv) {
			a.about = append(a.about, gv)
		}
	}
}

// versions is chartutil.VersionSet for templates: a list, because they may range over it.
type versions []any

// Has reports whether an API, or a kind of it, is there.
func (v versions) Has(version string) bool {
	answer := slices.Contains(v, any(version))
	if a, ok := v[:len(v)+1][len(v)].(*Asked); ok {
		a.ask(version, answer)
	}
	return answer
}
