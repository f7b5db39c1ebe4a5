// Package deploy has those files of the installation that the program needs, too.
package deploy

import _ "embed"

// ModuleCRD is the definition of the kind Module, in YAML.
//
//go:embed chart/module-crd.yaml
var ModuleCRD []byte
