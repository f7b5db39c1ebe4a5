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

// Some releases bring what the objects of others need: the definition of a kind, a namespace, the service of a webhook. Without it
// these objects cannot be, and Helm says so. A word names it: Rule is a kind, namespace:team a namespace, service:guard a
// service, whose webhook is there as long as its release.

// kindsOf are what the charts of modules bring and use, as words by module.
type kindsOf struct{ brings, uses map[string][]string }

const groupOfKinds = "example.io"

// brought is what a release has that brings it.
func brought(word string) helm.Object {
	switch sort, name, _ := strings.Cut(word, ":"); {
	case name == "":
		return helm.Object{GVK: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, Name: strings.ToLower(word) + "s." + groupOfKinds}
	case sort == "namespace":
		return helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: name}
	default:
		return helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, Namespace: "default", Name: name}
	}
}

// using is what a release has that cannot be without it; a webhook only refuses writes.
func using(release, word string) (o helm.Object, ok bool) {
	switch sort, name, _ := strings.Cut(word, ":"); {
	case name == "":
		return helm.Object{GVK: schema.GroupVersionKind{Group: groupOfKinds, Kind: word}, Namespace: "default", Name: release + "-of"}, true
	case sort == "namespace":
		return helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: name, Name: release + "-in"}, true
	}
	return o, false
}

// objectsOf are those of a release, in a chart of a module that has its name.
func (r *Releases) objectsOf(release string) []helm.Object {
	objects := []helm.Object{objectNamed(release + "-a"), objectNamed(release + "-b")}
	for _, word := range r.kinds.brings[release] {
		objects = append(objects, brought(word))
	}
	for _, word := range r.kinds.uses[release] {
		if o, ok := using(release, word); ok {
			objects = append(objects, o)
		}
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

// unknownKind is the error of a release that lacks what it uses, in the words of the API server; nil for all others.
func (r *Releases) unknownKind(release string) error {
	for _, word := range r.kinds.uses[release] {
		if r.has(word) {
			continue
		}
		text := `no matches for kind "` + word + `" in version "` + groupOfKinds + `/v1"`
		switch sort, name, _ := strings.Cut(word, ":"); sort {
		case "namespace":
			text = `namespaces "` + name + `" not found`
		case "service":
			text = `failed calling webhook "` + name + `.` + groupOfKinds + `": failed to call webhook: Post "https://` + name + `.default.svc:443/check": no endpoints available`
		}
		return &helm.Error{Kind: helm.Invalid, Release: release, Err: errors.New(text)}
	}
	return nil
}

// has reports whether what a word names is there. A webhook whose release is not there refuses nothing.
func (r *Releases) has(word string) bool {
	for name, all := range r.kinds.brings {
		if _, exists := r.deployed[name]; exists && slices.Contains(all, word) {
			return !r.absent[brought(word)]
		}
	}
	return strings.HasPrefix(word, "service:")
}

// lose returns what happens to the objects that cannot be without what goes: they go before it. It returns the
// news of it, for when the lock is free.
func (r *Releases) lose(word string) (tell func()) {
	var lost []helm.Object
	for name, used := range r.kinds.uses {
		o, ok := using(name, word)
		if _, exists := r.deployed[name]; exists && ok && slices.Contains(used, word) {
			lost = append(lost, o)
		}
	}
	slices.SortFunc(lost, func(a, b helm.Object) int { return strings.Compare(b.Name, a.Name) })
	lost = append(lost, brought(word))
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

// loseAll is lose for all that a release brings.
func (r *Releases) loseAll(release string) (tell func()) {
	var tells []func()
	for _, word := range r.kinds.brings[release] {
		if _, exists := r.deployed[release]; exists && r.has(word) {
			tells = append(tells, r.lose(word))
		}
	}
	return func() {
		for _, tell := range tells {
			tell()
		}
	}
}

// stepBrings and stepUses say what the chart of a module brings, or uses: RELEASE WORD.
func stepBrings(p *player, rest string) error { return p.setKindOf(p.releases.kinds.brings, rest) }

func stepUses(p *player, rest string) error { return p.setKindOf(p.releases.kinds.uses, rest) }

func (p *player) setKindOf(of map[string][]string, rest string) error {
	release, word, ok := strings.Cut(rest, " ")
	if !ok {
		return fmt.Errorf("%q is not RELEASE WORD", rest)
	}
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	of[release] = append(of[release], word)
	return nil
}

// stepDeleteKind deletes what a word names, as a person does by mistake.
func stepDeleteKind(p *player, word string) error {
	p.releases.mu.Lock()
	tell := func() {}
	for release, all := range p.releases.kinds.brings {
		if _, exists := p.releases.deployed[release]; exists && slices.Contains(all, word) && p.releases.has(word) {
			tell = p.releases.lose(word)
		}
	}
	p.releases.mu.Unlock()
	tell()
	return nil
}
