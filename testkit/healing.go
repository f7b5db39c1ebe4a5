package testkit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm"
	"addon-operator/kube"
)

// watched are the objects of releases, as the operator watches them. The lock of the releases
// guards them, too. Every release has two objects, ConfigMaps in the namespace default that have
// its name and end in -a and -b; most of them exist only here, not in the cluster. An object of a
// deployed release is there unless it is in absent.
type watched struct {
	releases *Releases
	absent   map[helm.Object]bool
	// unhealthy has the objects that are not current (health.go), reported what the operator has
	// received of each: a watch reports changes only.
	unhealthy, reported map[helm.Object]helm.Health
	news                helm.News // of the running operator; empty while none watches
}

// objectNamed is the object of a release by its name, as steps write it. Its GVK has no version, as
// helm.News names objects.
func objectNamed(name string) helm.Object {
	return helm.Object{GVK: schema.GroupVersionKind{Kind: "ConfigMap"}, Namespace: "default", Name: name}
}

// heal creates what is absent, or what the operator says is, in a new revision. It reports false
// when there is nothing to heal.
func (r *Releases) heal(m helm.Module, old deployed) (helm.Outcome, bool) {
	var healed []helm.Object
	for _, o := range r.kinds.objectsOf(m.Name) {
		if r.watched.absent[o] || slices.Contains(m.Gone, o) {
			healed = append(healed, o)
			delete(r.watched.absent, o)
		}
	}
	if len(healed) == 0 {
		return helm.Outcome{}, false
	}
	old.revision++
	r.deployed[m.Name] = old
	slices.SortFunc(healed, func(a, b helm.Object) int { return cmp.Compare(a.Name, b.Name) })
	r.trace.Add("helm heals %s: %s", m.Name, namesOf(healed))
	return helm.Outcome{Action: helm.Upgraded, Revision: old.revision, Reason: "absent", Objects: r.kinds.objectsOf(m.Name), Healed: healed}, true
}

func namesOf(objects []helm.Object) string {
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return strings.Join(names, " ")
}

// Watch implements shared.ReleaseWatch. A new operator knows no health, so each is reported to it
// again.
func (w *watched) Watch(ctx context.Context, news helm.News) (assess func([]helm.Object)) {
	w.releases.mu.Lock()
	w.news = news
	clear(w.reported)
	w.releases.mu.Unlock()
	context.AfterFunc(ctx, func() {
		w.releases.mu.Lock()
		defer w.releases.mu.Unlock()
		w.news = helm.News{}
	})
	return func(written []helm.Object) {
		w.releases.mu.Lock()
		for _, o := range written {
			delete(w.reported, o)
		}
		w.releases.mu.Unlock()
		w.report(written...)
	}
}

// Present implements shared.ReleaseWatch.
func (w *watched) Present(o helm.Object) bool {
	w.releases.mu.Lock()
	defer w.releases.mu.Unlock()
	return !w.absent[o]
}

// WatchedKinds implements shared.ReleaseWatch.
func (w *watched) WatchedKinds() []kube.WatchedKind {
	w.releases.mu.Lock()
	defer w.releases.mu.Unlock()
	return []kube.WatchedKind{{Resource: "configmaps", Objects: 2*len(w.releases.deployed) - len(w.absent)}}
}

// vanish deletes objects of releases; back says that another client creates them again at once, so
// that the operator is notified of a deletion and then finds the object.
func (w *watched) vanish(back bool, names ...string) {
	w.releases.mu.Lock()
	news := w.news
	for _, name := range names {
		delete(w.reported, objectNamed(name))
		if !back {
			w.absent[objectNamed(name)] = true
		}
	}
	w.releases.mu.Unlock()
	for _, name := range names {
		if news.Gone != nil {
			news.Gone(objectNamed(name))
		}
	}
}

// tamper changes the records of a release, as the helm command line does. The next run upgrades it,
// because no values have the checksum "".
func (r *Releases) tamper(name string) {
	r.mu.Lock()
	old := r.deployed[name]
	old.revision++
	old.checksum = ""
	r.deployed[name] = old
	news := r.watched.news
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
	p.releases.watched.vanish(false, names...)
	return nil
}
