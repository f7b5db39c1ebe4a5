package testkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm"
)

// Some releases bring the definition of a kind, and others have objects of it. Without the definition
// these objects cannot be, and Helm says so.

// kindsOf are what the charts of modules bring and use.
type kindsOf struct {
	brings map[string]string // by module, a kind
	uses   map[string]string
}

const groupOfKinds = "example.io"

// definitionOf is the definition of a kind, among the objects of a release.
func definitionOf(kind string) helm.Object {
	return helm.Object{GVK: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, Name: strings.ToLower(kind) + "s." + groupOfKinds}
}

// objectOfKind is what a release has of a kind that it uses.
func objectOfKind(release, kind string) helm.Object {
	return helm.Object{GVK: schema.GroupVersionKind{Group: groupOfKinds, Kind: kind}, Namespace: "default", Name: release + "-of"}
}

// objectsOf are those of a release, in a chart of a module that has its name.
func (r *Releases) objectsOf(release string) []helm.Object {
	objects := []helm.Object{objectNamed(release + "-a"), objectNamed(release + "-b")}
	if kind := r.kinds.brings[release]; kind != "" {
		objects = append(objects, definitionOf(kind))
	}
	if kind := r.kinds.uses[release]; kind != "" {
		objects = append(objects, objectOfKind(release, kind))
	}
	return objects
}

// FailedWebhook implements work.Releases: here there are none.
func (r *Releases) FailedWebhook(context.Context, string) string { return "" }

// Objects implements work.Releases.
func (r *Releases) Objects(_ context.Context, m helm.Module) ([]helm.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objectsOf(m.Name), nil
}

// unknownKind is the error of a release that uses a kind without a definition; nil for all others.
func (r *Releases) unknownKind(release string) error {
	kind := r.kinds.uses[release]
	if kind == "" {
		return nil
	}
	if r.knowsKind(kind) {
		return nil
	}
	err := errors.New(`no matches for kind "` + kind + `" in version "` + groupOfKinds + `/v1"`)
	return &helm.Error{Kind: helm.Invalid, Release: release, Err: err}
}

func (r *Releases) knowsKind(kind string) bool {
	for name, brought := range r.kinds.brings {
		if _, exists := r.deployed[name]; exists && brought == kind {
			return !r.absent[definitionOf(kind)]
		}
	}
	return false
}

// loseKind returns what happens to the objects of a kind whose definition goes: they go before it. It returns the
// news of it, for when the lock is free.
func (r *Releases) loseKind(kind string) (tell func()) {
	var lost []helm.Object
	for name, used := range r.kinds.uses {
		if _, exists := r.deployed[name]; exists && used == kind {
			lost = append(lost, objectOfKind(name, kind))
		}
	}
	slices.SortFunc(lost, func(a, b helm.Object) int { return strings.Compare(b.Name, a.Name) })
	lost = append(lost, definitionOf(kind))
	for _, o := range lost {
		r.absent[o] = true
		delete(r.reported, o)
	}
	gone := r.news.Gone
	return func() {
		for _, o := range lost {
			if gone != nil {
				gone(o)
			}
		}
	}
}

// stepBrings and stepUses say which kind the chart of a module brings, or uses: RELEASE KIND.
func stepBrings(p *player, rest string) error { return p.setKindOf(p.releases.kinds.brings, rest) }

func stepUses(p *player, rest string) error { return p.setKindOf(p.releases.kinds.uses, rest) }

func (p *player) setKindOf(of map[string]string, rest string) error {
	release, kind, ok := strings.Cut(rest, " ")
	if !ok {
		return fmt.Errorf("%q is not RELEASE KIND", rest)
	}
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	of[release] = kind
	return nil
}

// stepDeleteKind deletes the definition of a kind, as a person does by mistake.
func stepDeleteKind(p *player, kind string) error {
	tell := func() {}
	p.releases.mu.Lock()
	if p.releases.knowsKind(kind) {
		tell = p.releases.loseKind(kind)
	}
	p.releases.mu.Unlock()
	tell()
	return nil
}
