package lint

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/builtin"
	"addon-operator/values"
)

// kinds are the kinds that exist where the modules will run: those of the release of Kubernetes,
// and those that the modules bring. They only grow, in definitions and renderAll.
type kinds struct {
	release builtin.Release
	builtin *builtin.Kinds
	// brought has the apiVersions of the kinds that modules bring, by the kind in lower case, since
	// a hook may write it so.
	brought map[string][]string
	crds    []map[string]any
	// server has all these kinds. Charts are rendered against it, and it decides about other words
	// for a kind, such as plurals, as a cluster would.
	server *apiserver.Server
	sum    [sha256.Size]byte // of all that modules bring, in its order
}

func newKinds(release builtin.Release) *kinds {
	return &kinds{release: release, builtin: builtin.New(release), brought: map[string][]string{}, server: apiserver.New(release.String() + ".0")}
}

// know adds the kinds of a CustomResourceDefinition. All of its versions count, also those that are
// not served. The error is that of the API server, for a definition that it does not accept.
func (k *kinds) know(crd map[string]any) error {
	group, _, _ := unstructured.NestedString(crd, "spec", "group")
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	kind := strings.ToLower(kindOf(crd))
	for _, v := range versions {
		version, _ := v.(map[string]any)
		k.brought[kind] = append(k.brought[kind], fmt.Sprintf("%s/%v", group, version["name"]))
	}
	k.crds = append(k.crds, crd)
	// The sum is a chain, so that it costs the same for each definition; modules come in one order.
	text, err := json.Marshal(crd)
	if err != nil {
		return err
	}
	k.sum = sha256.Sum256(append(text, k.sum[:]...))
	return k.server.Apply(crd)
}

// kindOf is the kind that a CustomResourceDefinition defines; "" when it names none.
func kindOf(crd map[string]any) string {
	kind, _, _ := unstructured.NestedString(crd, "spec", "names", "kind")
	return kind
}

// unknown returns the problem of a kind; none when it exists, or when a hook may use this name. It
// is an error when nothing outside of the tree can bring the kind: its group is one of Kubernetes
// or of a definition in the tree. Otherwise it is a warning, for bindings. apiVersion is "" when a
// binding leaves it out.
//
// The order of the cases matters: exact matches are first, then similar names; isWord, which
// asks the API server in memory, is before any refusal because of a similar
// name.
func (k *kinds) unknown(apiVersion, kind string) (problem, severity string) {
	verdict := k.builtin.Find(apiVersion, kind)
	brought := k.brought[strings.ToLower(kind)]
	name := strings.TrimSpace(apiVersion + " " + kind)
	meant := values.Nearest(kind, k.names())
	switch {
	case verdict.Served || apiVersion == "" && len(brought) > 0 || slices.Contains(brought, apiVersion):
		return "", ""
	case len(verdict.Instead) > 0 && (k.builtin.Owns(apiVersion) || verdict.Reason != ""):
		return k.served(name, verdict.Reason, verdict.Instead), Error
	case len(brought) > 0 && ofGroup(apiVersion, brought):
		return fmt.Sprintf("the CRD in this tree has no %s; it is served as %s", name, strings.Join(brought, ", ")), Error
	case verdict.Reason == "" && k.isWord(apiVersion, kind):
		return "", "" // a plural, a short name, or the kind in another case
	case meant != "" && k.ofTree(apiVersion):
		return fmt.Sprintf("no CRD in this tree has %s; did you mean %s?", name, meant), Error
	case k.builtin.Owns(apiVersion):
		return k.unknownHere(apiVersion, name, meant)
	}
	return k.unknownThere(name)
}

// unknownHere is about a kind of a group of Kubernetes itself, which no one else can bring, or of
// no group. meant is a similar kind, or "".
func (k *kinds) unknownHere(apiVersion, name, meant string) (problem, severity string) {
	switch {
	case meant != "":
		return fmt.Sprintf("Kubernetes %s has no %s; did you mean %s?", k.release, name, meant), Error
	case apiVersion == "":
		return k.unknownThere(name)
	}
	return fmt.Sprintf("Kubernetes %s has no %s; correct the kind or the apiVersion", k.release, name), Error
}

// unknownThere is about a kind that something outside of the tree may bring.
func (k *kinds) unknownThere(name string) (problem, severity string) {
	return fmt.Sprintf("neither Kubernetes %s nor a CRD in this tree has %s, so the hook receives nothing until something else installs it; add the CRD to crds/ of a module, or correct the name", k.release, name), Warning
}

// isWord reports whether hooks may write a kind so: as a plural, a short name, or in another case.
func (k *kinds) isWord(apiVersion, word string) bool {
	// QPS -1: nothing limits requests to a server in memory.
	client, err := kube.Connect(kube.Options{Config: k.server.RESTConfig(), QPS: -1})
	if err != nil {
		return false
	}
	_, _, err = client.FindKind(context.Background(), apiVersion, word)
	return err == nil
}

// served is about a kind that exists in other versions; reason is "" when this version never
// existed.
func (k *kinds) served(name, reason string, instead []string) string {
	if reason != "" {
		return fmt.Sprintf("%s %s; it is served as %s", name, reason, strings.Join(instead, ", "))
	}
	return fmt.Sprintf("Kubernetes %s has no %s; it is served as %s", k.release, name, strings.Join(instead, ", "))
}

// names are all kinds, to propose one for a misspelt name.
func (k *kinds) names() []string {
	names := k.builtin.Names()
	for _, crd := range k.crds {
		names = append(names, kindOf(crd))
	}
	return names
}

// ofTree reports whether a module brings kinds of the group of an apiVersion, so that the whole
// group is known.
func (k *kinds) ofTree(apiVersion string) bool {
	for _, versions := range k.brought {
		if apiVersion != "" && ofGroup(apiVersion, versions) {
			return true
		}
	}
	return false
}

// ofGroup reports whether one of other apiVersions has the same group.
func ofGroup(apiVersion string, others []string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(other, group+"/") })
}
