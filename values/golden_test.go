package values

import (
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/testkit/golden"

	"golang.org/x/tools/txtar"
)

// D5: every archive in testdata/layers is one sentence, the layers as files, and what they give: the ConfigMap layer,
// the merged values, the saved patches and all violations. go test -update rewrites the results.
//
//	key                           the section
//	modules/values.yaml           layer 1 (several: modules-2/values.yaml …)
//	module/values.yaml            layer 2
//	openapi/config-values.yaml    schema, layer 3
//	configmap                     layer 4, the text of the section
//	openapi/values.yaml           schema, layer 5
//	patch-1.json …                layer 6, in order
//	config-patch-1.json …         patches of the ConfigMap, applied before those
//	configmap-2                   replaces layer 4 after all patches
func TestLayers(t *testing.T) {
	archives, err := filepath.Glob("testdata/layers/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			wantError(t, err)
			golden.File(t, name, string(txtar.Format(playLayers(t, archive))))
		})
	}
}

// playLayers gives the archive with its results recomputed.
func playLayers(t *testing.T, archive *txtar.Archive) *txtar.Archive {
	files := map[string]string{}
	out := &txtar.Archive{Comment: archive.Comment}
	for _, file := range archive.Files {
		files[file.Name] = string(file.Data)
		if !strings.HasPrefix(file.Name, "want/") {
			out.Files = append(out.Files, file)
		}
	}
	result := func(name, text string) {
		if text != "" {
			out.Files = append(out.Files, txtar.File{Name: "want/" + name, Data: []byte(text)})
		}
	}
	section, err := playSection(t, archive, files)
	if err != nil {
		result("error", err.Error()+"\n")
		return out
	}
	result("config.yaml", yamlText(t, section.Config()))
	result("merged.yaml", yamlText(t, section.Merged()))
	result("saved", strings.Join(append(operations(section.saved), ""), "\n"))
	var invalid strings.Builder
	for _, err := range []error{section.ValidateConfig(), section.ValidateValues(), section.ValidateForHelm()} {
		if err != nil {
			invalid.WriteString(err.Error() + "\n")
		}
	}
	result("violations", invalid.String())
	return out
}

func yamlText(t *testing.T, tree any) string {
	text, err := YAML(tree)
	wantError(t, err)
	return string(text)
}

func playSection(t *testing.T, archive *txtar.Archive, files map[string]string) (*Section, error) {
	key := strings.TrimSpace(files["key"])
	schemas, err := CompileSchemas(
		schemaFile("openapi/config-values.yaml", files["openapi/config-values.yaml"]), schemaFile("openapi/values.yaml", files["openapi/values.yaml"]))
	if err != nil {
		return nil, err
	}
	var layers []Layer
	for _, file := range archive.Files {
		if !strings.HasSuffix(file.Name, "/values.yaml") || strings.HasPrefix(file.Name, "openapi/") {
			continue
		}
		var only []string
		if strings.HasPrefix(file.Name, "module/") {
			only = []string{key}
		}
		document, err := ParseFile(file.Name, file.Data, only...)
		if err != nil {
			return nil, err
		}
		layers = append(layers, Layer{file.Name, document.Sections[key]})
	}
	section, err := NewSection(key, schemas, layers...)
	if err != nil {
		return nil, err
	}
	for _, step := range archive.Files {
		if section, err = playStep(section, key, step); err != nil {
			return nil, err
		}
	}
	return section, nil
}

// playStep makes the change that a file stands for.
func playStep(section *Section, key string, step txtar.File) (*Section, error) {
	if strings.HasPrefix(step.Name, "configmap") {
		document, err := ParseConfigMap(map[string]string{key: string(step.Data)})
		if err != nil {
			return nil, err
		}
		return section.WithConfig(document.Sections[key], Origin{})
	}
	if !strings.HasSuffix(step.Name, ".json") {
		return section, nil
	}
	patch, _, err := ParsePatch(step.Data)
	if err == nil && key == GlobalKey {
		patch, _, err = patch.ForGlobal()
	}
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(step.Name, "config-patch") {
		return section.PatchConfig(patch, Origin{}, true)
	}
	return section.Patch(patch, Origin{})
}
