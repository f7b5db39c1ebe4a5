package templates

import (
	"encoding/base64"
	"path"
	"strings"

	"github.com/gobwas/glob"
	"helm.sh/helm/v3/pkg/chart"
)

// files is .Files: those of a chart that are no templates, by name. Helm's has the same methods.
type files map[string][]byte

func filesOf(from []*chart.File) files {
	f := files{}
	for _, one := range from {
		f[one.Name] = one.Data
	}
	return f
}

// GetBytes returns the content of a file; nothing when there is none.
func (f files) GetBytes(name string) []byte {
	if data, ok := f[name]; ok {
		return data
	}
	return []byte{}
}

// Get is GetBytes as text.
func (f files) Get(name string) string { return string(f.GetBytes(name)) }

// Glob are the files whose names match; a pattern that cannot be read matches all.
func (f files) Glob(pattern string) files {
	g, err := glob.Compile(pattern, '/')
	found := files{}
	for name, data := range f {
		if err != nil || g.Match(name) {
			found[name] = data
		}
	}
	return found
}

// AsConfig is the data of a ConfigMap with these files.
func (f files) AsConfig() string {
	return f.asData(func(data []byte) string { return string(data) })
}

// AsSecrets is the data of a Secret with these files.
func (f files) AsSecrets() string { return f.asData(base64.StdEncoding.EncodeToString) }

func (f files) asData(text func([]byte) string) string {
	if f == nil {
		return ""
	}
	data := map[string]string{}
	for name, content := range f {
		data[path.Base(name)] = text(content)
	}
	return toYAML(data)
}

// Lines are the lines of a file.
func (f files) Lines(name string) []string {
	if len(f[name]) == 0 {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(string(f[name]), "\n"), "\n")
}
