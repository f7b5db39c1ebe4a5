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

// kindsOf are what the charts of modules bring and use, by module; guarded by the lock of the
// releases. Some releases bring what the objects of others need: the definition of a kind, a
// namespace, the service of a webhook. Without it, these objects cannot exist, and Helm fails. A
// word names it: Rule is a kind, namespace:team a namespace, service:guard a service, whose webhook
// exists as long as its release.
type kindsOf struct {
	releases     *Releases
	brings, uses map[string][]string
}

// groupOfKinds is the API group of the kinds that releases bring.
const groupOfKinds = "example.io"

// brought is the object of a release that brings what a word names.
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

// using is the object of a release that cannot exist without what a word names. There is none for a
// service: its webhook only refuses writes, and what was written stays.
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
func (k *kindsOf) objectsOf(release string) []helm.Object {
	objects := []helm.Object{objectNamed(release + "-a"), objectNamed(release + "-b")}
	for _, word := range k.brings[release] {
		objects = append(objects, brought(word))
	}
	for _, word := range k.uses[release] {
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
	return r.kinds.objectsOf(m.Name), nil
}

// unknownKind is the error of a release that lacks what it uses, in the words of the API server;
// nil for all others.
func (k *kindsOf) unknownKind(release string) error {
	for _, word := range k.uses[release] {
		if k.has(word) {
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

// has reports whether what a word names is there. A webhook whose release is not there refuses
// nothing.
func (k *kindsOf) has(word string) bool {
	for name, all := range k.brings {
		if _, exists := k.releases.deployed[name]; exists && slices.Contains(all, word) {
			return !k.releases.watched.absent[brought(word)]
		}
	}
	return strings.HasPrefix(word, "service:")
}

// lose deletes what a word names, and before it the objects of all releases that cannot exist
// without it, as the garbage collection of the API server does. It returns the notification of the
// operator, for when the lock is free.
func (k *kindsOf) lose(word string) (notify func()) {
	var lost []helm.Object
	for name, used := range k.uses {
		o, ok := using(name, word)
		if _, exists := k.releases.deployed[name]; exists && ok && slices.Contains(used, word) {
			lost = append(lost, o)
		}
	}
	slices.SortFunc(lost, func(a, b helm.Object) int { return strings.Compare(b.Name, a.Name) })
	lost = append(lost, brought(word))
	w := &k.releases.watched
	for _, o := range lost {
		w.absent[o] = true
		delete(w.reported, o)
	}
	gone := w.news.Gone
	return func() {
		for _, o := range lost {
			if gone != nil {
				gone(o)
			}
		}
	}
}

// loseAll is lose for all that a release brings.
func (k *kindsOf) loseAll(release string) (notify func()) {
	var all []func()
	for _, word := range k.brings[release] {
		if _, exists := k.releases.deployed[release]; exists && k.has(word) {
			all = append(all, k.lose(word))
		}
	}
	return func() {
		for _, notify := range all {
			notify()
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
	notify := func() {}
	for release, all := range p.releases.kinds.brings {
		if _, exists := p.releases.deployed[release]; exists && slices.Contains(all, word) && p.releases.kinds.has(word) {
			notify = p.releases.kinds.lose(word)
		}
	}
	p.releases.mu.Unlock()
	notify()
	return nil
}
