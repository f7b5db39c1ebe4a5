package testkit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm"
	"addon-operator/kube"
)

// Here every release has two objects, ConfigMaps that have its name and end in -a and -b.

func objectNamed(name string) helm.Object {
	return helm.Object{GVK: schema.GroupVersionKind{Kind: "ConfigMap"}, Namespace: "default", Name: name}
}

// heal applies what is absent, or what the operator says is.
func (r *Releases) heal(m helm.Module, old deployed) (helm.Outcome, bool) {
	var healed []helm.Object
	for _, o := range r.objectsOf(m.Name) {
		if r.absent[o] || slices.Contains(m.Gone, o) {
			healed = append(healed, o)
			delete(r.absent, o)
		}
	}
	if len(healed) == 0 {
		return helm.Outcome{}, false
	}
	old.revision++
	r.deployed[m.Name] = old
	slices.SortFunc(healed, func(a, b helm.Object) int { return cmp.Compare(a.Name, b.Name) })
	r.trace.Add("helm heals %s: %s", m.Name, namesOf(healed))
	return helm.Outcome{Action: helm.Upgraded, Revision: old.revision, Reason: "absent", Objects: r.objectsOf(m.Name), Healed: healed}, true
}

func namesOf(objects []helm.Object) string {
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return strings.Join(names, " ")
}

// Watch implements actors.ReleaseWatch.
func (r *Releases) Watch(ctx context.Context, news helm.News) (assess func([]helm.Object)) {
	r.mu.Lock()
	r.news = news
	clear(r.reported)
	r.mu.Unlock()
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.news = helm.News{}
	})
	return func(written []helm.Object) {
		r.mu.Lock()
		for _, o := range written {
			delete(r.reported, o)
		}
		r.mu.Unlock()
		r.reportHealth(written...)
	}
}

// Present implements actors.ReleaseWatch.
func (r *Releases) Present(o helm.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.absent[o]
}

// WatchedKinds implements actors.ReleaseWatch.
func (r *Releases) WatchedKinds() []kube.WatchedKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []kube.WatchedKind{{Resource: "configmaps", Objects: 2*len(r.deployed) - len(slices.Collect(maps.Keys(r.absent)))}}
}

// vanish deletes objects of releases; back says that another client creates them again at once.
func (r *Releases) vanish(back bool, names ...string) {
	r.mu.Lock()
	news := r.news
	for _, name := range names {
		delete(r.reported, objectNamed(name))
		if !back {
			r.absent[objectNamed(name)] = true
		}
	}
	r.mu.Unlock()
	for _, name := range names {
		if news.Gone != nil {
			news.Gone(objectNamed(name))
		}
	}
}

// tamper changes the records of a release, as the helm command line does.
func (r *Releases) tamper(name string) {
	r.mu.Lock()
	old := r.deployed[name]
	old.revision++
	old.checksum = ""
	r.deployed[name] = old
	news := r.news
	r.mu.Unlock()
	if news.Changed != nil {
		news.Changed(name)
	}
}

func stepVanish(p *player, rest string) error {
	names := strings.Fields(rest)
	if len(names) == 0 {
		return fmt.Errorf("no object is named")
	}
	p.releases.vanish(false, names...)
	return nil
}
