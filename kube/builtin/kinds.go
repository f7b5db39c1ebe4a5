package builtin

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// Newest is the version of Kubernetes of the libraries: nothing is known of later ones.
const Newest = "v1.36.3"

// Release is a minor release of Kubernetes.
type Release struct{ Major, Minor int }

// String is as v1.36.
func (r Release) String() string { return fmt.Sprintf("v%d.%d", r.Major, r.Minor) }

// Before reports whether r is older.
func (r Release) Before(other Release) bool {
	return cmp.Or(cmp.Compare(r.Major, other.Major), cmp.Compare(r.Minor, other.Minor)) < 0
}

// ParseRelease reads texts such as 1.31, v1.31 and v1.31.4; the patch version is not kept. A
// release after Newest is an error: to answer for it would be a guess.
func ParseRelease(text string) (Release, error) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	var numbers []int
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			break
		}
		numbers = append(numbers, n)
	}
	if len(parts) < 2 || len(parts) > 3 || len(numbers) != len(parts) {
		return Release{}, fmt.Errorf("%q is not a version of Kubernetes; write it as v1.31", text)
	}
	r := Release{numbers[0], numbers[1]}
	if text == Newest { // ends the recursion below
		return r, nil
	}
	if newest, _ := ParseRelease(Newest); newest.Before(r) {
		return Release{}, fmt.Errorf("this program supports Kubernetes up to %s, not %s", newest, r)
	}
	return r, nil
}

// Kinds are those of one release of Kubernetes. They do not change after New.
type Kinds struct {
	release Release
	types   map[schema.GroupVersionKind]reflect.Type // of all releases; nil: no type, so in every release
}

// New returns the kinds of a release. Lists, options and internal types are in the scheme of the
// library, too; a kind is what has metadata of an object.
func New(release Release) *Kinds {
	k := &Kinds{release: release, types: map[schema.GroupVersionKind]reflect.Type{}}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if _, isObject := reflect.New(t).Interface().(metav1.Object); isObject && gvk.Version != runtime.APIVersionInternal {
			k.types[gvk] = t
		}
	}
	k.types[apiextensions.SchemeGroupVersion.WithKind("CustomResourceDefinition")] = reflect.TypeFor[apiextensions.CustomResourceDefinition]()
	// These two have no types in the libraries that are linked.
	k.types[schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}] = nil
	k.types[schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1beta1", Kind: "CustomResourceDefinition"}] = reflect.TypeFor[removedDefinition]()
	return k
}

// removedDefinition replaces a type that has no lifecycle in its library.
type removedDefinition struct{ metav1.ObjectMeta }

// APILifecycleIntroduced and APILifecycleRemoved are as in the types of k8s.io/api.
func (*removedDefinition) APILifecycleIntroduced() (major, minor int) { return 1, 7 }

// APILifecycleRemoved is described with APILifecycleIntroduced.
func (*removedDefinition) APILifecycleRemoved() (major, minor int) { return 1, 22 }

// Verdict is what is known of a kind in a version of its API.
type Verdict struct {
	// Served: the release has the kind in this version, though an API server may have a beta API
	// switched off.
	Served bool
	// Reason is why it is not served, such as "was removed in v1.16"; empty for a kind that never existed.
	Reason string
	// Instead are versions in which the release serves a kind of this name, the best first.
	Instead []string
}

// Find looks for a kind, in the given apiVersion or, without one, in any.
func (k *Kinds) Find(apiVersion, kind string) Verdict {
	asked, err := schema.ParseGroupVersion(apiVersion)
	v := Verdict{Instead: k.versions(kind, asked)}
	switch gvk := asked.WithKind(kind); {
	case apiVersion == "":
		v.Served = len(v.Instead) > 0
	case err == nil:
		t, known := k.types[gvk]
		if known {
			v.Served, v.Reason = k.serves(t)
		}
	}
	return v
}

// serves reports whether the release has a type, or why not. A type without a lifecycle is in every
// release.
func (k *Kinds) serves(t reflect.Type) (served bool, reason string) {
	if t == nil {
		return true, ""
	}
	object := reflect.New(t).Interface()
	if o, ok := object.(interface{ APILifecycleIntroduced() (int, int) }); ok {
		major, minor := o.APILifecycleIntroduced()
		if since := (Release{major, minor}); k.release.Before(since) {
			return false, "was introduced in " + since.String()
		}
	}
	if o, ok := object.(interface{ APILifecycleRemoved() (int, int) }); ok {
		major, minor := o.APILifecycleRemoved()
		if until := (Release{major, minor}); !k.release.Before(until) {
			return false, "was removed in " + until.String()
		}
	}
	return true, ""
}

// versions are those in which a kind is served, those of the asked group first, stable ones before
// others.
func (k *Kinds) versions(kind string, asked schema.GroupVersion) (all []string) {
	var found []schema.GroupVersion
	for gvk, t := range k.types {
		if served, _ := k.serves(t); served && gvk.Kind == kind {
			found = append(found, gvk.GroupVersion())
		}
	}
	foreign := func(gv schema.GroupVersion) int {
		if gv.Group == asked.Group {
			return 0
		}
		return 1
	}
	slices.SortFunc(found, func(a, b schema.GroupVersion) int {
		return cmp.Or(cmp.Compare(foreign(a), foreign(b)), -version.CompareKubeAwareVersionStrings(a.Version, b.Version), cmp.Compare(a.Group, b.Group))
	})
	for _, gv := range found {
		all = append(all, gv.String())
	}
	return all
}

// Names are all kinds that the release serves, in any version, sorted.
func (k *Kinds) Names() []string {
	names := map[string]bool{}
	for gvk, t := range k.types {
		if served, _ := k.serves(t); served {
			names[gvk.Kind] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Owns reports whether a group is one of Kubernetes itself: no definition of other authors brings
// kinds of it.
func (k *Kinds) Owns(apiVersion string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || !strings.Contains(gv.Group, ".") {
		return true
	}
	for gvk := range k.types {
		if gvk.Group == gv.Group {
			return true
		}
	}
	return false
}
