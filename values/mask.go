package values

import (
	"slices"
	"strconv"
	"strings"
)

// judge reports whether the value at a path is a secret: one in a map m, or in a list if m is nil. above: what is
// around it is one.
type judge func(m map[string]any, path pointer, above bool) bool

// Mask returns a tree with everything hidden that looks like a secret: what is below a key with such a name, or with
// all every text and number in it (D38).
func Mask(tree any, all bool) any {
	return hideBy(func(_ map[string]any, path pointer, above bool) bool {
		return all || secretAt(path, above)
	}, tree, nil, all)
}

// hideBy replaces texts and numbers that are secret, keys in PEM, and inside of texts what hideCredentials finds.
// Booleans, nulls and empty texts stay.
func hideBy(isSecret judge, tree any, path pointer, secret bool) any {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, child := range v {
			at := slices.Concat(path, pointer{key})
			out[key] = hideBy(isSecret, child, at, isSecret(v, at, secret))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			at := slices.Concat(path, pointer{strconv.Itoa(i)})
			out[i] = hideBy(isSecret, child, at, isSecret(nil, at, secret) || i > 0 && asksForCredential(v[i-1]))
		}
		return out
	case nil, bool:
		return tree
	case string:
		if v == "" || !secret && !strings.Contains(v, "-----BEGIN") {
			return hideCredentials(v)
		}
		return Hidden
	}
	if secret {
		return Hidden
	}
	return tree
}

// MaskObject returns a Kubernetes object without what is or looks like a secret: the content of a
// Secret, values below keys that look like those of secrets, the values of environment variables
// with such names, arguments of commands, URLs and lines of texts with passwords, and the copy of
// the object that kubectl keeps in an annotation. References to secrets stay.
func MaskObject(object any) any {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	whole, _ := object.(map[string]any)
	return hideBy(func(m map[string]any, path pointer, above bool) bool {
		key := path[len(path)-1]
		name, _ := m["name"].(string)
		switch path[0] {
		case "kind", "apiVersion", "type":
			return false
		case "metadata": // names and labels are no secrets, even if they look like one
			return len(path) > 2 && path[1] == "annotations" && (path[2] == lastApplied || looksSecret(path[2]))
		}
		return whole["kind"] == "Secret" || key == "value" && looksSecret(name) || secretAt(path, above) && (above || !refers(key, m[key]))
	}, object, nil, false)
}

// Object returns a Kubernetes object masked as MaskObject does, and without the known secrets.
func (h *Hider) Object(object map[string]any) map[string]any {
	masked, _ := h.Tree(MaskObject(object)).(map[string]any)
	return masked
}

// refers recognizes keys that only reference a secret, or merely look like it.
func refers(key string, child any) bool {
	_, text := child.(string)
	return !text && slices.Contains([]string{"secret", "secretRef", "secretKeyRef", "configMapKeyRef", "imagePullSecrets"}, key)
}
