package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/manifest"
	"addon-operator/messages/view"
	"addon-operator/testkit/devclustertest"
	"addon-operator/values"
)

// foreignChart is a chart of another author, and the module that holds it.
type foreignChart struct {
	name      string         // of the module and its release
	key       string         // of its values
	dir       string         // of the chart
	namespace string         // of the release
	values    map[string]any // from NAME.values.yaml
	version   string
	rendered  string // what Helm makes of it without a cluster
	provides  []string
	edit      map[string]any // values that change objects; nil: none were found
	edited    string         // their path

	before   [2]string // what Helm makes of it before it is installed, twice
	refused  string    // why Helm refuses it; empty when it does not
	problems []string  // differences from Helm, and what did not come about
	notes    []string  // what a person must know
	manifest string    // of the last release
	revision int
	byChance bool // it renders something else each time
}

// with are the values of a chart after a change.
func (c *foreignChart) with(change map[string]any) map[string]any {
	return chartutil.CoalesceTables(chartutil.CoalesceTables(map[string]any{}, change), c.values)
}

func (c *foreignChart) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *foreignChart) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// newForeignChart loads a chart and the values next to it.
func newForeignChart(t testing.TB, name, dir string) *foreignChart {
	t.Helper()
	c := &foreignChart{name: name, dir: dir}
	var err error
	c.key, err = values.Key(name)
	must(t, err)
	if base := filepath.Base(dir); base != name {
		c.note("the name %s cannot be that of a module: it is called %s here", base, name)
	}
	text, err := os.ReadFile(dir + ".values.yaml")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &c.values); err != nil {
		t.Fatalf("%s.values.yaml: %v", dir, err)
	}
	if c.values == nil {
		c.values = map[string]any{}
	}
	ch, err := loader.LoadDir(dir)
	if err == nil {
		c.version = ch.Metadata.Version
		err = action.CheckDependencies(ch, ch.Metadata.Dependencies) // as the helm command does
	}
	if err != nil {
		c.refused = err.Error()
		return c
	}
	c.rendered, _ = renderAlone(c) // a chart may need a cluster for that
	// Definitions of subcharts that are off are none.
	if err := chartutil.ProcessDependenciesWithMerge(ch, chartutil.CoalesceTables(map[string]any{}, c.values)); err != nil {
		return c // Helm says why
	}
	for _, crd := range ch.CRDObjects() {
		c.provides = append(c.provides, kindsDefined(string(crd.File.Data))...)
	}
	c.provides = append(c.provides, kindsDefined(c.rendered)...)
	return c
}

// renderAlone renders a chart with Helm and without a cluster.
func renderAlone(c *foreignChart) (string, error) {
	ch, err := loader.LoadDir(c.dir)
	if err != nil {
		return "", err
	}
	version, err := chartutil.ParseKubeVersion("v1.36.0")
	if err != nil {
		return "", err
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName, install.Namespace = c.name, cmp.Or(c.namespace, "default")
	install.DryRun, install.ClientOnly, install.KubeVersion = true, true, version
	rel, err := install.Run(ch, chartutil.CoalesceTables(map[string]any{}, c.values))
	if err != nil {
		return "", err
	}
	return rel.Manifest, nil
}

// kindsDefined are the names of the CustomResourceDefinitions in a text.
func kindsDefined(text string) (names []string) {
	for _, o := range objectsOf(text) {
		if o.GetKind() == "CustomResourceDefinition" {
			names = append(names, o.GetName())
		}
	}
	return names
}

// objectsOf are the objects of a manifest that Helm has rendered; what is none counts as nothing.
func objectsOf(text string) []*unstructured.Unstructured {
	objects, err := manifest.Parse(text)
	if err != nil {
		return nil
	}
	return objects
}

// idsOf are the names of objects.
func idsOf(text string) []string {
	var ids []string
	for _, o := range objectsOf(text) {
		ids = append(ids, manifest.Of(o).String())
	}
	slices.Sort(ids)
	return ids
}

// stockHelm is the Helm library on the cluster of a test.
type stockHelm struct {
	*fixture
	*stockShared
	capabilities *chartutil.Capabilities
}

// takes reports whether Helm renders a chart, and looks for a value that a person may change: one that changes
// objects, and makes and removes none.
func (s *stockHelm) takes(c *foreignChart) bool {
	s.t.Helper()
	if c.refused != "" {
		return false
	}
	first, err := s.install(c, c.values)
	if err != nil {
		c.refused = err.Error()
		return false
	}
	second, err := s.install(c, c.values)
	must(s.t, err)
	c.before = [2]string{first, second}
	ch, err := loader.LoadDir(c.dir)
	must(s.t, err)
	const most = 60 // values that are tried
	candidates := candidatesIn(chartutil.CoalesceTables(chartutil.CoalesceTables(map[string]any{}, c.values), ch.Values), nil)
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) })
	for _, try := range candidates[:min(most, len(candidates))] {
		changed, err := s.install(c, c.with(try.value()))
		if err == nil && slices.Equal(idsOf(changed), idsOf(first)) && len(lineDifferences(second, first, changed)) > 0 {
			c.edit, c.edited = try.value(), strings.Join(try.path, ".")
			break
		}
	}
	return true
}

// candidate is a value that could be changed.
type candidate struct {
	path []string
	to   any
	rank int // low for what is changed most often and does the least harm
}

// value is the change as values.
func (c candidate) value() map[string]any {
	result := c.to
	for _, name := range slices.Backward(c.path) {
		result = map[string]any{name: result}
	}
	return result.(map[string]any)
}

func candidatesIn(tree map[string]any, path []string) (found []candidate) {
	const depth = 4
	if len(path) == depth {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		below := append(slices.Clone(path), name)
		lower := strings.ToLower(name)
		switch v := tree[name].(type) {
		case map[string]any:
			if strings.HasSuffix(lower, "annotations") {
				found = append(found, candidate{below, map[string]any{"example.com/edited": "yes"}, 1 + len(path)})
				continue
			}
			found = append(found, candidatesIn(v, below)...)
		case string:
			if lower == "tag" {
				found = append(found, candidate{below, "edited", 2 + len(path)})
			}
			if lower == "text" {
				found = append(found, candidate{below, "edited", 0})
			}
		case float64, int64:
			if lower == "replicas" || lower == "replicacount" {
				found = append(found, candidate{below, int64(3), 2 + len(path)})
			}
		}
	}
	return found
}

// lineDifferences compares two manifests, but for the lines that chance makes: those in which two renders of
// the first differ.
func lineDifferences(again, want, got string) (found []string) {
	third, first, second := strings.Split(again, "\n"), strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(first) != len(second) {
		return []string{fmt.Sprintf("%d lines, want %d", len(second), len(first))}
	}
	for i := range first {
		if first[i] != second[i] && (i >= len(third) || first[i] == third[i]) {
			found = append(found, fmt.Sprintf("line %d is %q, want %q", i+1, second[i], first[i]))
		}
	}
	return found
}

// stockShared is what all actions of the Helm library share.
type stockShared struct {
	rest   *rest.Config
	cached discovery.CachedDiscoveryInterface
	mapper meta.RESTMapper
}

func newStockShared(config *rest.Config) (*stockShared, error) {
	config.QPS = -1
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(client)
	return &stockShared{rest: config, cached: cached, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
}

func newStockHelm(h *fixture, config *rest.Config) *stockHelm {
	h.t.Helper()
	shared, err := newStockShared(config)
	must(h.t, err)
	return &stockHelm{fixture: h, stockShared: shared}
}

// stockGetter gives Helm what it needs for one namespace.
type stockGetter struct {
	*stockShared
	namespace string
}

func (g stockGetter) ToRESTConfig() (*rest.Config, error) { return g.rest, nil }
func (g stockGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.cached, nil
}
func (g stockGetter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }
func (g stockGetter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}

// configuration is what Helm's actions work with. A blind one takes no look at the objects of a
// manifest, which saves a request for each.
func (s *stockHelm) configuration(namespace string, blind bool) *action.Configuration {
	s.t.Helper()
	cfg := &action.Configuration{}
	must(s.t, cfg.Init(stockGetter{s.stockShared, namespace}, namespace, "secret", func(string, ...any) {}))
	if cfg.Capabilities = s.capabilities; blind {
		cfg.KubeClient = &fake.PrintingKubeClient{Out: io.Discard}
	}
	return cfg
}

// discover asks the API server for its kinds.
func (s *stockHelm) discover() {
	s.t.Helper()
	s.cached.Invalidate()
	s.capabilities = nil
	cfg := s.configuration(s.namespace, true)
	install := action.NewInstall(cfg) // the library offers no other way
	install.ReleaseName, install.Namespace, install.DryRun, install.DryRunOption = "nothing", s.namespace, true, "server"
	must(s.t, second(install.Run(&chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "nothing", Version: "1.0.0"}}, nil)))
	s.capabilities = cfg.Capabilities
}

// install is the manifest of helm install --dry-run=server.
func (s *stockHelm) install(c *foreignChart, with map[string]any) (string, error) {
	s.t.Helper()
	rel, err := s.dryRun(c, with, true)
	if err != nil {
		return "", err
	}
	return rel.Manifest, nil
}

func (s *stockHelm) dryRun(c *foreignChart, with map[string]any, blind bool) (*release.Release, error) {
	s.t.Helper()
	install := action.NewInstall(s.configuration(c.namespace, blind))
	install.ReleaseName, install.Namespace, install.DryRun, install.DryRunOption = c.name, c.namespace, true, "server"
	install.TakeOwnership = true
	ch, err := loader.LoadDir(c.dir)
	if err != nil {
		return nil, err
	}
	return install.Run(ch, chartutil.CoalesceTables(map[string]any{}, with))
}

// upgrade is helm upgrade --dry-run=server with other values.
func (s *stockHelm) upgrade(c *foreignChart, with map[string]any) (*release.Release, error) {
	s.t.Helper()
	upgrade := action.NewUpgrade(s.configuration(c.namespace, true))
	upgrade.Namespace, upgrade.DryRun, upgrade.DryRunOption, upgrade.ResetValues = c.namespace, true, "server", true
	ch, err := loader.LoadDir(c.dir)
	if err != nil {
		return nil, err
	}
	return upgrade.Run(c.name, ch, with)
}

// recorded is the newest record of a release.
func (s *stockHelm) recorded(c *foreignChart) (*release.Release, error) {
	s.t.Helper()
	client, err := kubernetes.NewForConfig(s.rest)
	must(s.t, err)
	return storage.Init(driver.NewSecrets(client.CoreV1().Secrets(c.namespace))).Last(c.name)
}

// compare notes where our record differs from what Helm renders, each time twice: one of the renders must be ours.
func (s *stockHelm) compare(c *foreignChart, what string, renders ...[2]string) {
	s.t.Helper()
	ours, err := s.recorded(c)
	if err != nil {
		c.problem("%s: no record: %v", what, err)
		return
	}
	c.manifest = ours.Manifest
	var found []string
	for _, render := range renders {
		if found = lineDifferences(render[1], render[0], ours.Manifest); len(found) == 0 {
			return
		}
	}
	const most = 5
	for i, text := range found {
		if i == most {
			c.problem("%s: and more lines", what)
			break
		}
		c.problem("%s: the manifest differs from that of Helm: %s", what, text)
	}
}

// foreignCharts are those of a directory: DIR/NAME and DIR/NAME.tgz.
func foreignCharts(t testing.TB, dir string) (all []*foreignChart) {
	t.Helper()
	for _, chart := range chartsIn(t, dir) {
		all = append(all, newForeignChart(t, moduleName(filepath.Base(chart)), chart))
	}
	return all
}

// chartsIn are the directories of the charts of others in a directory: DIR/NAME, and unpacked those
// of DIR/NAME.tgz. Values to try a chart with lie next to its directory, as NAME.values.yaml; those
// for podinfo-6.7.1.tgz are in podinfo-6.7.1.values.yaml or podinfo.values.yaml.
func chartsIn(t testing.TB, dir string) (dirs []string) {
	t.Helper()
	found, err1 := filepath.Glob(filepath.Join(dir, "*", chartutil.ChartfileName))
	archives, err2 := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err := errors.Join(err1, err2); err != nil || len(found)+len(archives) == 0 {
		t.Fatalf("no charts in %s: %v", dir, err)
	}
	for _, file := range found {
		dirs = append(dirs, filepath.Dir(file))
	}
	for _, archive := range archives {
		to := t.TempDir()
		c, err := loader.LoadFile(archive)
		if err == nil {
			err = chartutil.ExpandFile(to, archive)
		}
		if err != nil {
			t.Errorf("%s: %v", archive, err) // the others are still used
			continue
		}
		unpacked := filepath.Join(to, c.Name())
		for _, base := range []string{strings.TrimSuffix(archive, ".tgz"), filepath.Join(dir, c.Name())} {
			if text, err := os.ReadFile(base + ".values.yaml"); err == nil {
				must(t, os.WriteFile(unpacked+".values.yaml", text, 0o600))
				break
			}
		}
		dirs = append(dirs, unpacked)
	}
	return dirs
}

// moduleName makes a name that a module can have from that of a chart. init module asks for another one instead.
func moduleName(chart string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(chart), "-"), "-")
	name = regexp.MustCompile(`(^|-)(\d)`).ReplaceAllString(name, "${1}n$2")
	if _, err := values.Key(name); err != nil {
		name = strings.Trim(name+"-chart", "-")
	}
	return name
}

// Every chart becomes a module, whatever it is called.
func TestModuleNameOfAChart(t *testing.T) {
	for chart, want := range map[string]string{
		"web": "web", "My_Chart.x": "my-chart-x", "3scale": "n3scale", "loki-2x": "loki-n2x", "global": "global-chart", "is-enabled": "is-enabled-chart", "_": "chart",
	} {
		name := moduleName(chart)
		if _, err := values.Key(name); name != want || err != nil {
			t.Errorf("%s becomes %s, want %s; %v", chart, name, want, err)
		}
	}
}

// inOrder sorts charts: those that define kinds come before those that do not.
func inOrder(all []*foreignChart) {
	slices.SortStableFunc(all, func(a, b *foreignChart) int {
		return cmp.Compare(min(len(b.provides), 1), min(len(a.provides), 1))
	})
}

// withoutConflicts divides charts into groups without two that make the same object, and without one whose webhooks
// refuse objects of another: nothing serves them.
func withoutConflicts(all []*foreignChart) (groups [][]*foreignChart) {
	for _, c := range all {
		place := slices.IndexFunc(groups, func(group []*foreignChart) bool {
			return !slices.ContainsFunc(group, func(other *foreignChart) bool {
				return overlap(c.claims(), other.claims()) || overlap(c.guards(), other.resources()) || overlap(c.resources(), other.guards())
			})
		})
		if place < 0 {
			place, groups = len(groups), append(groups, nil)
		}
		groups[place] = append(groups[place], c)
	}
	return groups
}

func overlap(some, others []string) bool {
	return slices.ContainsFunc(some, func(s string) bool { return slices.Contains(others, s) })
}

// guards are the resources whose writes fail while nothing serves the webhooks of a chart, as group/plural.
func (c *foreignChart) guards() (all []string) {
	for _, o := range objectsOf(c.rendered) {
		webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		for _, webhook := range webhooks {
			fields, _ := webhook.(map[string]any)
			if fields["failurePolicy"] == "Ignore" {
				continue
			}
			rules, _, _ := unstructured.NestedSlice(fields, "rules")
			for _, rule := range rules {
				fields, _ := rule.(map[string]any)
				groups, _, _ := unstructured.NestedStringSlice(fields, "apiGroups")
				resources, _, _ := unstructured.NestedStringSlice(fields, "resources")
				for _, group := range groups {
					for _, resource := range resources {
						all = append(all, group+"/"+resource)
					}
				}
			}
		}
	}
	return all
}

// resources are those of the objects of a chart, as far as plurals are regular.
func (c *foreignChart) resources() (all []string) {
	for _, o := range objectsOf(c.rendered) {
		all = append(all, o.GroupVersionKind().Group+"/"+strings.ToLower(o.GetKind())+"s")
	}
	return all
}

// claims are the objects and kinds that only one chart of a cluster can make.
func (c *foreignChart) claims() []string { return append(idsOf(c.rendered), c.provides...) }

const (
	tableBegin = "<!-- made by make charts: begin -->"
	tableEnd   = "<!-- made by make charts: end -->"
	tableHead  = "| chart | version | what to know |\n|---|---|---|\n"
)

// row is the line of a chart in the table. One that runs as with Helm, and without notes, has only its name and
// version.
func (c *foreignChart) row() string {
	know := slices.Clone(c.notes)
	switch {
	case c.refused != "":
		know = []string{"refused by Helm, too: " + c.refused}
	case len(c.problems) > 0:
		know = append(know, "differs: "+strings.Join(c.problems, "; "))
	}
	cells := []string{c.name, c.version, strings.Join(know, "; ")}
	for i, cell := range cells {
		cells[i] = oneLine(cell)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// oneLine makes a text fit into a cell.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "/")), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + " …"
	}
	return text
}

// writeTable logs the table, and writes it in $CHARTS_TABLE between the two marks.
func writeTable(t *testing.T, all []*foreignChart) {
	t.Helper()
	slices.SortFunc(all, func(a, b *foreignChart) int { return strings.Compare(a.name, b.name) })
	table := tableHead
	for _, c := range all {
		table += c.row()
	}
	t.Log("\n" + table)
	file := os.Getenv("CHARTS_TABLE")
	if file == "" {
		return
	}
	page, err := os.ReadFile(file)
	must(t, err)
	before, rest, ok1 := strings.Cut(string(page), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", file, tableBegin, tableEnd)
	}
	text := before + tableBegin + "\n\n" + table + "\n" + tableEnd + after
	must(t, os.WriteFile(file, []byte(text), 0o644))
}

// chartsVariable names a directory with charts to play instead of ours: see make charts.
const chartsVariable = "CHARTS"

// ownCharts unpacks the charts of this repository.
func ownCharts(t testing.TB) (all []*foreignChart) {
	t.Helper()
	for _, pattern := range []string{"../../helm/testdata/foreign/*.txtar", "testdata/charts/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no charts in %s: %v", pattern, err)
		}
		for _, file := range files {
			archive, err := txtar.ParseFile(file)
			must(t, err)
			name := strings.TrimSuffix(filepath.Base(file), ".txtar")
			dir := filepath.Join(t.TempDir(), name)
			if name == "bulk" {
				archive.Files = append(archive.Files, manyDefinitions()...)
			}
			own := strings.NewReplacer("GROUP", "charts.example.com", "KIND", "Thing")
			for _, f := range archive.Files {
				path := filepath.Join(dir, filepath.FromSlash(f.Name))
				if f.Name == "with.values.yaml" { // what lies next to a chart of others
					path = dir + ".values.yaml"
				}
				must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(own.Replace(string(f.Data))), 0o600)))
			}
			all = append(all, newForeignChart(t, name, dir))
		}
	}
	return all
}

// manyDefinitions are a megabyte of definitions in a subchart of a subchart.
func manyDefinitions() (files []txtar.File) {
	const definitions, bytesEach = 4, 256 << 10
	for i := range definitions {
		text := fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bulks%[1]d.bulk.example.com}
spec:
  group: bulk.example.com
  scope: Namespaced
  names: {plural: bulks%[1]d, kind: Bulk%[1]d}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, description: %[2]q, x-kubernetes-preserve-unknown-fields: true}}
`, i, strings.Repeat("what this field is for; ", bytesEach/24))
		files = append(files, txtar.File{Name: fmt.Sprintf("charts/middle/charts/definitions/crds/bulk%d.yaml", i), Data: []byte(text)})
	}
	return files
}

// chartsPlay plays charts as modules of one operator.
type chartsPlay struct {
	*fixture
	helm     *stockHelm
	operator *operator
	records  metadata.Interface
	objects  dynamic.Interface
	charts   []*foreignChart              // that still do what they should
	status   map[string]view.ModuleStatus // of modules, as of the last look
}

// playCharts plays a group in a cluster that it has for itself: nothing serves the webhooks of charts.
func playCharts(t *testing.T, group []*foreignChart) {
	t.Helper()
	h, cluster := fixtureWithCluster(t, "-- modules/values.yaml --\n", devclustertest.StartOwn)
	p := newChartsPlay(h, cluster, group)
	p.start()
	p.install()
	p.restart()
	p.change()
	p.heal()
	p.disable()
	p.enable()
}

// newChartsPlay writes the modules of charts, without those that Helm refuses.
func newChartsPlay(h *fixture, cluster *devclustertest.Cluster, group []*foreignChart) *chartsPlay {
	h.t.Helper()
	p := &chartsPlay{fixture: h, helm: newStockHelm(h, cluster.RESTConfig())}
	var err1, err2 error
	p.records, err1 = metadata.NewForConfig(p.helm.rest)
	p.objects, err2 = dynamic.NewForConfig(p.helm.rest)
	must(h.t, errors.Join(err1, err2))
	p.helm.discover()
	flags, namespaces := map[string]any{}, map[string]bool{}
	for i, c := range group {
		c.namespace = h.namespace
		if !p.helm.takes(c) {
			continue
		}
		p.makeNamespaces(c)
		p.charts = append(p.charts, c)
		p.vendor(c, 10*(i+1))
		flags[c.key+"Enabled"] = true
		if !namespaces[c.namespace] {
			go devclustertest.FinishPods(h.ctx, h.client, c.namespace)
		}
		namespaces[c.namespace] = true
	}
	h.write("modules/values.yaml", yamlOf(flags))
	return p
}

// makeNamespaces makes the namespaces that objects of a chart name, as a person must do for Helm.
func (p *chartsPlay) makeNamespaces(c *foreignChart) {
	p.t.Helper()
	text, err := p.helm.install(c, c.values)
	must(p.t, err)
	for _, o := range objectsOf(text) {
		name := o.GetNamespace()
		if name == "" || name == c.namespace {
			continue
		}
		_, err := p.client.CoreV1().Namespaces().Create(p.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil {
			c.note("needs the namespace %s", name)
		} else if !apierrors.IsAlreadyExists(err) {
			p.t.Fatal(err)
		}
	}
}

func (p *chartsPlay) start() {
	p.t.Helper()
	p.operator = p.fixture.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate")
}

// vendor writes the module of a chart.
func (p *chartsPlay) vendor(c *foreignChart, order int) {
	p.t.Helper()
	dir := fmt.Sprintf("modules/%03d-%s/", order, c.name)
	must(p.t, os.CopyFS(p.path(dir+"chart"), os.DirFS(c.dir)))
	if len(c.values) > 0 {
		p.write(dir+"values.yaml", yamlOf(map[string]any{c.key: c.values}))
	}
}

func yamlOf(v any) string {
	data, err := yaml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// modules is what the operator says about its modules.
func (p *chartsPlay) modules() map[string]view.ModuleStatus {
	p.t.Helper()
	var page struct {
		Modules []struct {
			Name string `json:"name"`
			view.ModuleStatus
		} `json:"modules"`
	}
	_, body := get("http://" + p.operator.debug + "/module/list")
	_ = json.Unmarshal([]byte(body), &page) // before the start there is none
	all := map[string]view.ModuleStatus{}
	for _, m := range page.Modules {
		all[m.Name] = m.ModuleStatus
	}
	return all
}

// await waits until nothing is pending for any chart. A chart for which something is pending too long gets a problem,
// and takes no part in what follows.
func (p *chartsPlay) await(what string, pending func(*foreignChart) error) {
	p.t.Helper()
	deadline := time.Now().Add(2 * patience)
	waiting := slices.Clone(p.charts)
	for {
		p.status = p.modules()
		last := map[*foreignChart]error{}
		waiting = slices.DeleteFunc(waiting, func(c *foreignChart) bool {
			last[c] = pending(c)
			return last[c] == nil
		})
		if len(waiting) == 0 {
			return
		}
		if !p.operator.running() {
			p.t.Fatalf("%s: the operator has ended", what)
		}
		if time.Now().After(deadline) || p.hopeless(waiting, last) {
			for _, c := range waiting {
				c.problem("%s: %v", what, last[c])
			}
			p.charts = slices.DeleteFunc(p.charts, func(c *foreignChart) bool { return slices.Contains(waiting, c) })
			return
		}
		select {
		case <-p.ctx.Done():
			p.t.Fatal(p.ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// hopeless reports whether all modules that something is pending for have failed several times. Errors of pending
// become what the operator says.
func (p *chartsPlay) hopeless(waiting []*foreignChart, last map[*foreignChart]error) bool {
	const attempts = 4
	failed := 0
	for _, c := range waiting {
		for _, f := range p.status[c.name].Failing {
			last[c] = errors.New(f.Error)
			if f.Attempts >= attempts {
				failed++
			}
		}
	}
	return failed == len(waiting)
}

// newest are the newest revisions of all releases, deployed ones only.
func (p *chartsPlay) newest() map[string]int {
	p.t.Helper()
	newest := map[string]int{}
	status := map[string]string{}
	list, err := p.records.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).List(p.ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	must(p.t, err)
	for i := range list.Items {
		labels := list.Items[i].Labels
		n, err := strconv.Atoi(labels["version"])
		if err == nil && n > newest[labels["name"]] {
			newest[labels["name"]], status[labels["name"]] = n, labels["status"]
		}
	}
	for name, status := range status {
		if status != string(release.StatusDeployed) {
			newest[name] = -1
		}
	}
	return newest
}

// ready waits until the modules are, with their releases deployed.
func (p *chartsPlay) ready(what string) {
	p.t.Helper()
	p.await(what, func(c *foreignChart) error {
		if m := p.status[c.name]; m.Phase != view.Ready || len(m.Failing) > 0 {
			return fmt.Errorf("the module is %s", m)
		}
		return nil
	})
	newest := p.newest()
	p.await(what, func(c *foreignChart) error {
		if newest[c.name] <= 0 {
			newest = p.newest()
			return errNotYet
		}
		return nil
	})
	for _, c := range p.charts {
		c.revision = newest[c.name]
	}
}

func (p *chartsPlay) install() {
	p.t.Helper()
	installing := slices.Clone(p.charts)
	p.ready("install")
	p.helm.discover()
	for _, c := range installing {
		if !slices.Contains(p.charts, c) {
			if _, err := p.helm.dryRun(c, c.values, false); err != nil {
				c.refused, c.problems = err.Error(), nil // in this cluster
			}
			continue
		}
		first, err1 := p.helm.dryRun(c, c.values, true)
		second, err2 := p.helm.dryRun(c, c.values, true)
		if err := errors.Join(err1, err2); err != nil {
			c.problem("Helm refuses it: %v", err)
			continue
		}
		p.helm.compare(c, "install", c.before, [2]string{first.Manifest, second.Manifest}) // it may have looked up what was not there
		if c.byChance = sumOf(first) != sumOf(second); c.byChance {
			c.note("renders something else each time, and has a revision after each change of an input")
		}
		if jobs := hooksOf(first); jobs != "" {
			c.note("waits for its hooks: %s", jobs)
		}
	}
}

// sumOf is all that a release applies: tests are not.
func sumOf(rel *release.Release) string {
	text := rel.Manifest
	for _, hook := range rel.Hooks {
		if !isTestHook(hook) {
			text += hook.Manifest
		}
	}
	return text
}

func isTestHook(hook *release.Hook) bool {
	return !slices.ContainsFunc(hook.Events, func(e release.HookEvent) bool { return e != release.HookTest })
}

// hooksOf says which hooks a release has that may hold it up.
func hooksOf(rel *release.Release) string {
	var jobs []string
	for _, hook := range rel.Hooks {
		if !isTestHook(hook) && (hook.Kind == "Job" || hook.Kind == "Pod") {
			jobs = append(jobs, hook.Kind+" "+hook.Name)
		}
	}
	return strings.Join(jobs, ", ")
}

// restart starts the operator again, which makes no revision. What a chart renders by chance is applied when an
// input has changed, and the kinds of the charts that came later are one: these charts have a second start.
func (p *chartsPlay) restart() {
	p.t.Helper()
	for _, again := range []bool{false, true} {
		before, changed := map[string]int{}, false
		for _, c := range p.charts {
			before[c.name] = c.revision
		}
		if code := p.operator.terminate(); code != 0 {
			p.t.Errorf("exit code %d, want 0", code)
		}
		p.start()
		p.ready("restart")
		for _, c := range p.charts {
			switch {
			case c.revision == before[c.name]:
			case c.byChance && !again:
				changed = true
			default:
				c.problem("restart: revision %d, want %d: %s", c.revision, before[c.name], p.status[c.name].LastRun.Release)
			}
		}
		if !changed {
			return
		}
	}
}

// change edits one value of each chart.
func (p *chartsPlay) change() {
	p.t.Helper()
	texts, want := map[string]string{}, map[*foreignChart][2]string{}
	for _, c := range p.charts {
		if c.edit == nil {
			c.note("no value was found whose change makes and removes no object")
			continue
		}
		with := c.with(c.edit)
		first, err1 := p.helm.upgrade(c, with)
		second, err2 := p.helm.upgrade(c, with)
		if err := errors.Join(err1, err2); err != nil {
			c.problem("edit: Helm refuses it: %v", err)
			continue
		}
		texts[c.key] = yamlOf(c.edit)
		want[c] = [2]string{first.Manifest, second.Manifest}
	}
	if len(texts) == 0 {
		return
	}
	p.setConfig(texts)
	newest := p.newest()
	p.await("edit", func(c *foreignChart) error {
		if _, edited := want[c]; edited && newest[c.name] != c.revision+1 {
			newest = p.newest()
			return fmt.Errorf("revision %d, want %d, after %s", newest[c.name], c.revision+1, c.edited)
		}
		return nil
	})
	p.ready("edit")
	for _, c := range p.charts {
		if texts, edited := want[c]; edited {
			p.helm.compare(c, "edit of "+c.edited, texts)
		}
	}
}

// heal deletes one object of each chart.
func (p *chartsPlay) heal() {
	p.t.Helper()
	deleted := map[*foreignChart]*unstructured.Unstructured{}
	for _, c := range p.charts {
		victim := victimOf(c.manifest)
		if victim == nil {
			c.note("has no objects")
			continue
		}
		live, err := p.live(c, victim)
		if err == nil && live != nil {
			err = p.resource(c, victim).Delete(p.ctx, victim.GetName(), metav1.DeleteOptions{})
		}
		if err != nil || live == nil {
			c.problem("heal: %s is not there: %v", manifest.Of(victim), err)
			continue
		}
		deleted[c] = live
	}
	p.await("heal", func(c *foreignChart) error {
		before := deleted[c]
		if before == nil {
			return nil
		}
		live, err := p.live(c, before)
		if err != nil || live == nil || live.GetUID() == before.GetUID() {
			return fmt.Errorf("%s does not come back: %w", manifest.Of(before), cmp.Or(err, errNotYet))
		}
		return nil
	})
	p.ready("heal")
}

// victimOf is an object of a manifest whose loss does little harm.
func victimOf(text string) *unstructured.Unstructured {
	objects := objectsOf(text)
	for _, kind := range []string{"ConfigMap", "Service", "ServiceAccount", "Role", "Secret", "Deployment", "ClusterRole"} {
		for _, o := range objects {
			if o.GetKind() == kind {
				return o
			}
		}
	}
	if len(objects) == 0 {
		return nil
	}
	return objects[len(objects)-1]
}

// resource is how to reach an object of a chart.
func (p *chartsPlay) resource(c *foreignChart, o *unstructured.Unstructured) dynamic.ResourceInterface {
	p.t.Helper()
	mapping, err := p.helm.mapper.RESTMapping(schema.GroupKind{Group: o.GroupVersionKind().Group, Kind: o.GetKind()}, o.GroupVersionKind().Version)
	if err != nil {
		return nil // the kind is gone, and with it all objects
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return p.objects.Resource(mapping.Resource)
	}
	return p.objects.Resource(mapping.Resource).Namespace(cmp.Or(o.GetNamespace(), c.namespace))
}

// live is an object as it is in the cluster; nil when it is not.
func (p *chartsPlay) live(c *foreignChart, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	p.t.Helper()
	resource := p.resource(c, o)
	if resource == nil {
		return nil, nil
	}
	live, err := resource.Get(p.ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

// disable switches all modules off: what Helm leaves may stay.
func (p *chartsPlay) disable() {
	p.t.Helper()
	p.flags("false")
	newest := p.newest()
	p.await("disable", func(c *foreignChart) error {
		if newest[c.name] != 0 {
			newest = p.newest()
			return errors.New("the release is still there")
		}
		return nil
	})
	kept := map[*foreignChart]int{}
	p.await("disable", func(c *foreignChart) error {
		kept[c] = 0
		for _, o := range objectsOf(c.manifest) {
			if o.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
				kept[c]++
				continue
			}
			if live, err := p.live(c, o); err != nil || live != nil {
				return fmt.Errorf("%s is still there: %w", manifest.Of(o), cmp.Or(err, errNotYet))
			}
		}
		return nil
	})
	for _, c := range p.charts {
		if kept[c] > 0 {
			c.note("leaves %s that its resource policy keeps", view.Count(kept[c], "object"))
		}
	}
}

// enable switches all modules on again, with one revision.
func (p *chartsPlay) enable() {
	p.t.Helper()
	p.flags("true")
	p.ready("enable again")
	for _, c := range p.charts {
		if c.revision != 1 {
			c.problem("enable again: revision %d, want 1", c.revision)
		}
	}
}

func (p *chartsPlay) flags(to string) {
	p.t.Helper()
	texts := map[string]string{}
	for _, c := range p.charts {
		texts[c.key+"Enabled"] = to
	}
	p.setConfig(texts)
}
