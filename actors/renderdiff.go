package actors

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/dryrun"
	"addon-operator/messages"
)

// What happens to an object between two renders.
const (
	objectAdded   = "added"
	objectChanged = "changed"
	objectRemoved = "removed"
)

// diffObjects returns what differs between the objects of two renders, sorted by name. mask hides
// secrets in an object; nil shows them.
func diffObjects(before, after []map[string]any, mask func(map[string]any) map[string]any) ([]messages.ObjectDiff, error) {
	old, now := byName(before), byName(after)
	names := maps.Clone(old)
	maps.Copy(names, now)
	changes := []messages.ObjectDiff{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if reflect.DeepEqual(old[name], now[name]) {
			continue
		}
		text, err := diffObject(old[name], now[name], mask)
		if err != nil {
			return nil, err
		}
		action := objectChanged
		switch {
		case old[name] == nil:
			action = objectAdded
		case now[name] == nil:
			action = objectRemoved
		}
		changes = append(changes, messages.ObjectDiff{Object: name, Action: action, Diff: text})
	}
	return changes, nil
}

// byName is a map from "Kind namespace/name" to the object.
func byName(objects []map[string]any) map[string]map[string]any {
	out := make(map[string]map[string]any, len(objects))
	for _, object := range objects {
		u := unstructured.Unstructured{Object: object}
		name := u.GetName()
		if u.GetNamespace() != "" {
			name = u.GetNamespace() + "/" + name
		}
		out[u.GetKind()+" "+name] = object
	}
	return out
}

// diffObject is the difference of two objects as YAML. A secret that differs is hidden on both
// sides, also where only one of them looks like one, and it is said that it differs.
func diffObject(before, after map[string]any, mask func(map[string]any) map[string]any) (string, error) {
	if mask != nil {
		before, after = dryrun.HideBoth(before, after, mask)
	}
	a, err := lines(before)
	if err != nil {
		return "", err
	}
	b, err := lines(after)
	if err != nil {
		return "", err
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: a, B: b, FromFile: "deployed", ToFile: "now", Context: 3})
	if err == nil && text == "" {
		text = "only hidden values differ; ask with show-secrets\n"
	}
	return text, err
}

func lines(object map[string]any) ([]string, error) {
	if object == nil {
		return nil, nil
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, err
	}
	return difflib.SplitLines(strings.TrimSuffix(string(text), "\n")), nil
}
