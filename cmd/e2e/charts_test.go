package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/manifest"
	"addon-operator/messages/view"
	"addon-operator/testkit/devclustertest"
)

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
