package values

import "maps"

// Mask returns a tree with everything hidden that looks like a secret; with all, every text and
// number in it (D38).
func Mask(tree any, all bool) any { return hide(tree, all) }

// MaskObject returns a Kubernetes object without what is or looks like a secret: the content of a
// Secret, values below keys that look like those of secrets, the values of environment variables
// with such names, arguments of commands, URLs and lines of texts with passwords, and the copy of
// the object that kubectl keeps in an annotation. References to secrets stay.
func MaskObject(object any) any {
	o, ok := object.(map[string]any)
	if !ok {
		return hide(object, false)
	}
	out := make(map[string]any, len(o))
	for key, value := range o {
		switch key {
		case "kind", "apiVersion", "type":
			out[key] = value
		case "metadata":
			out[key] = maskMetadata(value)
		default:
			out[key] = maskParts(value, o["kind"] == "Secret")
		}
	}
	return out
}

// Object returns a Kubernetes object masked as MaskObject does, and without the known secrets.
func (h *Hider) Object(object map[string]any) map[string]any {
	masked, _ := h.Tree(MaskObject(object)).(map[string]any)
	return masked
}

// maskMetadata masks annotations only. Names and labels are no secrets, even if they look like one.
func maskMetadata(metadata any) any {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	m, _ := metadata.(map[string]any)
	annotations, ok := m["annotations"].(map[string]any)
	if !ok {
		return metadata
	}
	m, annotations = maps.Clone(m), maps.Clone(annotations)
	for key, value := range annotations {
		annotations[key] = hide(value, key == lastApplied || looksSecret(key))
	}
	m["annotations"] = annotations
	return m
}

// maskParts is hide for parts of objects. It understands lists of names and values, such as
// environment variables, and keeps references.
func maskParts(tree any, secret bool) any {
	return hideWhere(tree, secret, func(m map[string]any, key string, above bool) bool {
		name, _ := m["name"].(string)
		return secret || looksSecret(key) && !refers(key, m[key]) || key == "value" && looksSecret(name) || above && !ownMeaning(key)
	})
}

// refers recognizes keys that only reference a secret, or merely look like it.
func refers(key string, child any) bool {
	switch key {
	case "secret", "secretRef", "secretKeyRef", "configMapKeyRef", "imagePullSecrets":
		_, text := child.(string)
		return !text
	}
	return false
}
