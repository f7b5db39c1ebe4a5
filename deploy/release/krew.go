package main

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// krewPlugin is a manifest of krew, the package manager of kubectl's plugins, as its API krew.googlecontainertools.github.com/v1alpha2
// has it. Krew links kubectl-addon to the program, which then calls itself kubectl addon.
type krewPlugin struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   krewMetadata `json:"metadata"`
	Spec       krewSpec     `json:"spec"`
}

type krewMetadata struct {
	Name string `json:"name"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage,omitempty"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string     `json:"uri"`
	SHA256 string     `json:"sha256"`
	Bin    string     `json:"bin"`
	Files  []krewFile `json:"files"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func (r release) writeKrew() error {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewMetadata{"addon"},
		Spec: krewSpec{
			Version:          r.version,
			ShortDescription: "Inspect and control addon-operator",
			Description: `Shows what addon-operator does in a cluster: which modules work, what fails and why, and
what to try next. Changes values, runs, retries and suspends modules.
`,
		},
	}
	for _, p := range r.platforms {
		name := r.name(p) + ".tar.gz"
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		k := krewPlatform{
			URI: fmt.Sprintf("%s/%s/%s", r.downloads, r.version, name), SHA256: sum, Bin: program,
			Files: []krewFile{{program, "."}, {"LICENSE", "."}, {licencesFile, "."}},
		}
		k.Selector.MatchLabels = map[string]string{"os": p.os, "arch": p.arch}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, k)
	}
	text, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return r.write("addon.yaml", text)
}
