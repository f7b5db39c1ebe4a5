package bring

import (
	"fmt"

	"addon-operator/helm/fetch"
)

// ModuleFile is the text of module.yaml: where the chart is from, and the namespace of the release.
func ModuleFile(o fetch.Origin, namespace string) string {
	return moduleFile(o) + fmt.Sprintf("namespace: %s\n", quoted(namespace))
}
