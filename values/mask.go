package values

import "maps"

// Mask gives a tree with everything hidden that looks like a secret; with all, every text and number in it (D38).
func Mask(tree any, all bool) any { return hide(tree, all) }

// MaskObject gives a Kubernetes object without what is or looks like a secret: the content of a Secret, what stands below keys
// that look like those of secrets, the values of environment variables whose names do, arguments of commands, URLs and lines of
// texts with passwords, and the copy of the object that kubectl keeps in an annotation. What only says where a secret lies stays.
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

// Object gives a Kubernetes object as MaskObject does, and without the known secrets.
func (h *Hider) Object(object map[string]any) map[string]any {
	masked, _ := h.Tree(MaskObject(object)).(map[string]any)
	return masked
}

// maskMetadata looks at annotations only: names are no secrets, whatever they look like.
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

// maskParts is hide for parts of objects: lists of names and values are understood, as those of environment variables, and
// references are left alone.
func maskParts(tree any, secret bool) any {
	switch v := tree.(type) {
	case map[string]any:
		name, _ := v["name"].(string)
		out := make(map[string]any, len(v))
		for key, child := range v {
			hidden := looksSecret(key) && !refers(key, child) || key == "value" && looksSecret(name)
			out[key] = maskParts(child, secret || hidden)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = maskParts(child, secret || i > 0 && asksForCredential(v[i-1]))
		}
		return out
	}
	return hide(tree, secret)
}

// refers recognizes what only says where a secret lies, or only sounds like one.
func refers(key string, child any) bool {
	switch key {
	case "secretName", "topologyKey":
		return true
	case "secret", "secretRef", "secretKeyRef", "configMapKeyRef", "imagePullSecrets":
		_, text := child.(string)
		return !text
	}
	return false
}
