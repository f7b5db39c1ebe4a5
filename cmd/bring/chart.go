package bring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/plan"
	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/fetch"
	"addon-operator/helm/manifest"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/fields"

	"addon-operator/values"
)

// Files of the test of a module.
const (
	testFile   = "tests/objects.yaml"
	goldenFile = "tests/objects.golden.yaml"
)

// fromChart are the flags for a module that is made of a chart.
type fromChart struct {
	fetch.Request
	values string // file with values for helm install -f, which become those of the module; may be empty
}

// newModule is a module that is being made of a chart.
type newModule struct {
	*stage
	base  string // of its directory
	name  string
	key   string
	chart *fetch.Chart
}

// make makes the module on a stage, and returns the name of its directory; without one it is that of
// the chart, with the next number.
func (o fromChart) make(ctx context.Context, s *stage, base string) (string, error) {
	var given []byte
	err := s.share(filepath.Join(s.dir, "..", "global-hooks"))
	if err == nil && o.values != "" {
		given, err = os.ReadFile(o.values)
	}
	if err != nil {
		return "", err
	}
	arrived := filepath.Join(s.root, chartDir)
	c, err := fetch.Get(o.Request, arrived)
	if err != nil {
		return "", err
	}
	if c.Loaded.Metadata.Type == "library" {
		return "", fmt.Errorf("%s is a library for other charts, and installs nothing", c.Origin)
	}
	n := &newModule{stage: s, name: c.Name, chart: c}
	if base != "" {
		_, n.name = addons.SplitNumber(base, 0)
	}
	// Charts may have names that modules cannot have, such as Web-2.
	if n.key, err = values.Key(n.name); err != nil {
		return "", fmt.Errorf("the name of the chart, %s, cannot be that of a module; specify one before --from-chart: %w", c.Name, err)
	}
	if n.base, err = place([]string{s.dir}, base, n.name); err != nil {
		return "", err
	}
	if err := os.Mkdir(s.path(n.base, "."), 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(arrived, s.path(n.base, chartDir)); err != nil {
		return "", err
	}
	return n.base, n.complete(ctx, string(given))
}

// complete writes everything of the module but chart/, which is there.
func (n *newModule) complete(ctx context.Context, given string) error {
	own, err := valuesFile(n.chart.Name, n.key, given)
	if err != nil {
		return fmt.Errorf("values: %w", err)
	}
	module, err := moduleFile(n.chart.Origin, "")
	data := map[string]any{"Name": n.name, "Key": n.key, "Chart": n.chart}
	for name, text := range map[string][]byte{
		"values.yaml": []byte(own), schemaFile: configSchema(n.chart, n.key), "module.yaml": module, testSchema: scenario.Schema(),
	} {
		err = errors.Join(err, n.write(n.base, name, text))
	}
	if err := errors.Join(err, n.fill(n.base, "third-party", data)); err != nil {
		return err
	}
	return n.writeTest(ctx)
}

// writeTest writes a test that passes. It expects all objects of the chart, from a golden file, or, if
// plays show that a part of them is random, only that the module is ready. If that fails, because the
// chart needs values, it expects the module to fail, and a note says so.
func (n *newModule) writeTest(ctx context.Context) error {
	stubs, err := n.stubs(ctx)
	if err == nil {
		expect := map[string]any{"modules": map[string]any{n.name: "ready"}, "rendered": filepath.Base(goldenFile)}
		if err := n.writeScenario("The chart renders the objects of "+filepath.Base(goldenFile), stubs, expect); err != nil {
			return err
		}
		var first, second string
		if first, err = n.play(ctx); err == nil {
			second, err = n.play(ctx)
		}
		if err == nil && first == second {
			return nil
		}
		if delete(expect, "rendered"); err == nil {
			err = os.Remove(n.path(n.base, goldenFile))
			return errors.Join(err, n.writeScenario("The chart is installed; its objects differ at each render", stubs, expect))
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(&n.out, "Note: the chart does not install with these values, and its test expects that; set what is missing in values.yaml, or correct what is wrong, and expect the module to be ready:\n  %s\n",
		strings.ReplaceAll(n.placed(err.Error()), "\n", "\n  "))
	_ = os.Remove(n.path(n.base, goldenFile)) // there may be none
	return n.writeScenario("The chart does not install as it is; set what is missing in values.yaml, or correct what is wrong, and expect modules and rendered here",
		nil, map[string]any{"failing": map[string]any{n.name: ""}})
}

// writeScenario writes the test. Its first line makes editors check it and complete its keys.
func (n *newModule) writeScenario(description string, stubs []any, expect map[string]any) error {
	content := map[string]any{"description": description, "expect": expect}
	if len(stubs) > 0 {
		content["given"] = map[string]any{"objects": stubs}
	}
	text, err := values.YAML(content)
	head := []byte("# yaml-language-server: $schema=" + filepath.Base(testSchema) + "\n")
	return errors.Join(err, n.write(n.base, testFile, append(head, text...)))
}

// play plays the test, writes its golden file, and returns it. The error is also that of a test that
// fails.
func (n *newModule) play(ctx context.Context) (golden string, err error) {
	scenarios, err := scenario.Find(n.path(n.base, testFile))
	if err != nil {
		return "", err
	}
	results := scenario.Play(ctx, scenarios, scenario.Options{Update: true}, func(scenario.Result) {})
	if !results[0].Passed() {
		return "", errors.New(strings.Join(results[0].Problems, "\n"))
	}
	text, err := os.ReadFile(n.path(n.base, goldenFile))
	return string(text), err
}

// render renders the chart of a module on the stage with the values of its files, against a cluster in
// memory that holds nothing. crds are the definitions in subcharts. The version is that of scenarios, so that a test
// of the module renders the same.
func (s *stage) render(ctx context.Context, base string) (objects, crds []*unstructured.Unstructured, err error) {
	tree, m, err := s.load(base)
	if err != nil {
		return nil, nil, err
	}
	sections, err := plan.Sections(tree)
	if err != nil {
		return nil, nil, err
	}
	config := apiserver.New(scenario.DefaultVersion).RESTConfig()
	client, err := helm.New(helm.Options{Config: config, Namespace: scenario.Namespace})
	if err != nil {
		return nil, nil, err
	}
	merged := map[string]any{values.GlobalKey: sections[values.GlobalKey].Merged(), m.Key: sections[m.Key].Merged()}
	module := plan.HelmModule(m, merged)
	for _, f := range client.SubchartCRDs(module) { // of those that are enabled
		found, _ := manifest.Parse(string(f.Data)) // the test shows a mistake
		crds = append(crds, found...)
	}
	objects, err = plan.Objects(ctx, client, module)
	return objects, crds, err
}

// stubs are what the objects of the chart need in a cluster and neither Kubernetes nor the chart
// itself has: namespaces, and definitions of kinds, which accept any object. The test gives them, as
// another module or an administrator would.
func (n *newModule) stubs(ctx context.Context) (stubs []any, err error) {
	objects, crds, err := n.render(ctx, n.base)
	if err != nil {
		return nil, err
	}
	made := slices.Concat(objects, crds)
	alone := *n.chart.Loaded
	alone.SetDependencies()
	for _, crd := range alone.CRDObjects() { // the operator installs definitions before the release (M2)
		found, _ := manifest.Parse(string(crd.File.Data)) // the test shows a mistake
		made = append(made, found...)
	}
	// Of the scenario, and of objects without one.
	namespaces, kinds := map[string]bool{"": true, scenario.Namespace: true}, map[schema.GroupKind]bool{}
	for _, o := range made {
		switch o.GetKind() {
		case "Namespace":
			namespaces[o.GetName()] = true
		case "CustomResourceDefinition":
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	for _, o := range objects {
		if name := o.GetNamespace(); !namespaces[name] {
			namespaces[name] = true
			metadata := map[string]any{"name": name}
			stubs = append([]any{map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}}, stubs...)
		}
		gvk := o.GroupVersionKind()
		// An unknown kind without a group is a mistake in the chart.
		if gvk.Group != "" && !kinds[gvk.GroupKind()] && !fields.Has(gvk) {
			stubs = append(stubs, stub(gvk))
		}
		kinds[gvk.GroupKind()] = true
	}
	return stubs, nil
}

// stub is a definition. Plural and scope are guesses, good enough for the test of a chart: kinds whose
// names begin with Cluster are cluster-wide.
func stub(gvk schema.GroupVersionKind) map[string]any {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	scope := "Namespaced"
	if strings.HasPrefix(gvk.Kind, "Cluster") {
		scope = "Cluster"
	}
	openapi := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	schema := map[string]any{"openAPIV3Schema": openapi}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural.Resource + "." + gvk.Group},
		"spec": map[string]any{
			"group": gvk.Group, "scope": scope, "names": map[string]any{"kind": gvk.Kind, "plural": plural.Resource},
			"versions": []any{map[string]any{"name": gvk.Version, "served": true, "storage": true, "schema": schema}},
		},
	}
}

// schemaFile is the schema that people's values must fit (D29), below the module.
const schemaFile = "openapi/config-values.yaml"

// valuesFile is the values.yaml of a new module: what the user gave, below the key of the module.
func valuesFile(chart, key, given string) (string, error) {
	taken, err := values.ParseYAML([]byte(given))
	if err != nil {
		return "", err
	}
	own, isMap := taken.(map[string]any)
	if !isMap && taken != nil {
		return "", errors.New("they must be a map")
	}
	text := fmt.Sprintf("# Values of the chart %s that are not those of chart/values.yaml, which lists all.\n# %s: true   # enables the module\n%s:\n", chart, values.FlagKey(key), key)
	if len(own) > 0 {
		// Indenting the text keeps comments. That is right only if it parses to the same values, which
		// multi-line texts and flow style may break; the values are written again otherwise.
		block := prefixed("  ", strings.TrimPrefix(strings.TrimSpace(given), "---\n")+"\n")
		moved, err := values.ParseYAML([]byte(key + ":\n" + block))
		if err != nil || !reflect.DeepEqual(moved, map[string]any{key: own}) {
			again, _ := values.YAML(own) // it was parsed from YAML
			block = prefixed("  ", string(again))
		}
		text += block
	}
	return text, nil
}

// prefixed puts a prefix before each line that is not empty.
func prefixed(prefix, text string) string {
	return regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(text, prefix+"$1")
}

// configSchema makes the schema of a module's section from the defaults of the chart. It refuses nothing
// that the chart takes: Helm checks the chart's own schema when it renders. The text depends on nothing
// else than the arguments: an upgrade makes it again, to find out whether it was edited.
func configSchema(c *fetch.Chart, key string) []byte {
	schema := inferred(c.Loaded.Values)
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range append(slices.Clone(c.Subcharts), values.GlobalKey) { // defaults here are only a part of theirs
		if _, there := properties[name]; there {
			properties[name] = anyMap()
		}
	}
	delete(schema, "nullable")
	text, _ := values.YAML(schema) // its keys were parsed from YAML
	return append(fmt.Appendf(nil, `# What people may write under %q: in values.yaml, in the ConfigMap and in the Secret.
# Made from the default values of the chart. Edit it as you like:
# 'module upgrade-chart' makes it again unless it was edited.
`, key), text...)
}

// anyMap is the schema of any map. A value that is null removes a default of the chart.
func anyMap() map[string]any {
	return map[string]any{"type": "object", "nullable": true, "additionalProperties": true}
}

// inferred is the schema for a map of defaults. A default shows what a value may look like, but charts
// look at values in many ways: text is often a template of anything, and null or an empty map or list
// shows nothing at all. So it refuses only something else in the place of a map with content.
func inferred(defaults map[string]any) map[string]any {
	properties := make(map[string]any, len(defaults))
	for name, value := range defaults {
		properties[name] = map[string]any{}
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			properties[name] = inferred(below)
		}
	}
	schema := anyMap()
	schema["properties"] = properties
	return schema
}
