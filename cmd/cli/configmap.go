package cli

import (
	"errors"
	"fmt"
	"os"

	"addon-operator/values"
)

// ReadConfigMap reads the data of a ConfigMap from a manifest, or from a file that holds only the
// data. An empty path, and a manifest without data, give nil.
func ReadConfigMap(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the proposed ConfigMap: %w", err)
	}
	tree, err := values.ParseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	content, ok := tree.(map[string]any)
	if _, isMap := content["data"].(map[string]any); isMap && content["kind"] == nil {
		return nil, fmt.Errorf("%s: it looks like a manifest without kind; add \"kind: ConfigMap\", or write only what is below data", path)
	}
	if kind, isManifest := content["kind"]; ok && isManifest {
		if kind != "ConfigMap" {
			return nil, fmt.Errorf("%s: kind is %v, not ConfigMap", path, kind)
		}
		data := content["data"]
		if data == nil {
			return nil, nil
		}
		content, ok = data.(map[string]any)
	}
	if !ok {
		return nil, fmt.Errorf("%s: it must be the manifest of a ConfigMap, or its data: a map of keys to strings", path)
	}
	// YAML makes numbers and maps of texts that look like them, which the API server would refuse, too.
	data := make(map[string]string, len(content))
	var errs []error
	for key, value := range content {
		text, ok := value.(string)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: data.%s is not a string; write a vertical bar after the colon (%s: |) or quotes", path, key, key))
			continue
		}
		data[key] = text
	}
	return data, errors.Join(errs...)
}
