package testkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors/scenario"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages/view"
)

// object is one of a release, as the usual chart has it.
func (r *Releases) object(name string) (map[string]any, error) {
	for _, kind := range strings.Fields("ConfigMap ServiceAccount Deployment") {
		if object := r.cluster.Server.Object("", kind, "default", name); object != nil {
			return object, nil
		}
	}
	return nil, fmt.Errorf("no release has an object default/%s", name)
}

// asNew takes out of an object what an API server gives it.
func asNew(object map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: object}
	u.SetUID("")
	u.SetResourceVersion("")
	return u
}

// stepRelease installs the chart of a release, as an earlier operator or, without its labels, a person.
func stepRelease(byPerson bool) step {
	return func(p *player, name string) error {
		dir, err := os.MkdirTemp(p.t.TempDir(), "release-")
		if err != nil {
			return err
		}
		chart, template := filepath.Join(dir, "Chart.yaml"), filepath.Join(dir, "templates", "usual.yaml")
		if err := errors.Join(os.Mkdir(filepath.Dir(template), 0o755), os.WriteFile(chart, completeChart([]byte("name: "+name+"\n")), 0o644), os.WriteFile(template, []byte(p.disk.templates(name)), 0o644)); err != nil {
			return err
		}
		client, err := helm.New(helm.Options{Config: p.Cluster.Client.RESTConfig(), Namespace: scenario.Namespace, Labels: helm.UsualLabels()})
		if err != nil {
			return err
		}
		if _, err := client.Apply(p.t.Context(), helm.Module{Name: name, Key: name, Dir: dir, Values: map[string]any{}}); err != nil || !byPerson {
			return err
		}
		return p.Cluster.Apply(foreign(p.releases.records()[name]).Object)
	}
}

// foreign is a record without the labels of the operator.
func foreign(record *unstructured.Unstructured) *unstructured.Unstructured {
	labels := record.GetLabels()
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "module") })
	record.SetLabels(labels)
	return record
}

// stepVanish deletes objects of releases; replaced: another client creates them again at once.
func stepVanish(replaced bool) step {
	return func(p *player, rest string) error {
		for _, name := range strings.Fields(rest) {
			object, err := p.releases.object(name)
			if err != nil {
				continue // the release has been deleted
			}
			u := &unstructured.Unstructured{Object: object}
			if _, err := p.Cluster.Delete(scenario.Reference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: "default", Name: name}); err != nil {
				return err
			}
			if replaced {
				if err := p.Cluster.Apply(asNew(object).Object); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// stepDeleteKind deletes what a word names, as a person does by mistake.
func stepDeleteKind(p *player, word string) error {
	what := scenario.Reference{Kind: "CustomResourceDefinition", Name: strings.ToLower(word) + "s." + groupOfKinds}
	if _, name, is := strings.Cut(word, "namespace:"); is {
		what = scenario.Reference{Kind: "Namespace", Name: name}
	}
	_, err := p.Cluster.Delete(what)
	return err
}

// changes are those of another client to objects of releases, for a search for drift.
type changes struct {
	before map[string]map[string]any // the objects as they were, by name
	again  map[string]int            // how often a correction is undone
}

// stepChange changes an object of a release, and again after N corrections: OBJECT [N].
func stepChange(p *player, rest string) error {
	name, times, again := strings.Cut(rest, " ")
	object, err := p.releases.object(name)
	if err != nil {
		return err
	}
	if p.changes.before == nil {
		p.changes = changes{map[string]map[string]any{}, map[string]int{}}
	}
	if p.changes.before[name] == nil {
		p.changes.before[name] = object
	}
	if again {
		if p.changes.again[name], err = strconv.Atoi(times); err != nil {
			return err
		}
		_, err = p.Cluster.Server.WatchObjects(p.Lifetime, kube.Spec{APIVersion: "v1", Kind: "ConfigMap", Names: []string{name}, KeepObjects: true}, func(c kube.Change) {
			p.sched.later("change "+name, func() { p.changeAgain(name, string(c.Object.Object)) })
		}, func() {})
		if err != nil {
			return err
		}
	}
	return p.change(name)
}

// change writes what the chart writes: the values, and a label for an object without any.
func (p *player) change(name string) error {
	object, err := p.releases.object(name)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: object}
	if data, ok := object["data"].(map[string]any); ok {
		data["values"] = "somebody's"
	} else {
		labels := u.GetLabels()
		labels["heritage"] = "somebody"
		u.SetLabels(labels)
	}
	return p.Cluster.Apply(object)
}

func (p *player) changeAgain(name, text string) {
	if strings.Contains(text, "somebody") || p.changes.again[name] == 0 {
		return
	}
	p.changes.again[name]--
	if err := p.change(name); err != nil {
		p.observer.problem("change %s again: %v", name, err)
	}
}

// stepUnchange reverts all these changes.
func stepUnchange(p *player, _ string) error {
	for _, object := range p.changes.before {
		if err := p.Cluster.Apply(object); err != nil {
			return err
		}
	}
	p.changes = changes{}
	return nil
}

// stepDrift sets the mode before start.
func stepDrift(p *player, rest string) error {
	mode, period, _ := strings.Cut(rest, " ")
	p.drift = mode
	var err error
	p.driftPeriod, err = time.ParseDuration(period)
	return err
}

// stepShowDrift prints what a module knows of its drift.
func stepShowDrift(p *player, name string) error {
	status, ok := p.Operator.Inspector().Status("operator/module/" + name).(view.ModuleStatus)
	if !ok {
		return fmt.Errorf("there is no module %s", name)
	}
	drift := status.Drifted(false)
	p.Trace.Add("drift of %s: mode %s, checked %v, error %q", name, drift.Mode, !drift.Checked.IsZero(), drift.Error)
	for _, o := range drift.Objects {
		for _, f := range o.Fields {
			p.Trace.Add("  %s %s: %v, the chart says %v", o.Object, f.Path, f.Found, f.Chart)
		}
	}
	return nil
}

// stepPlan prints what the operator would do: with the ConfigMap in force, or with the one
// in a file.
func stepPlan(p *player, name string) error {
	request := view.PlanRequest{}
	if name != "" {
		data, err := p.configMapFile(name)
		if err != nil {
			return err
		}
		request.Proposed = data
	}
	return p.Await(func() error {
		f, err := p.Operator.Plan(context.Background(), request)
		if err != nil {
			return err
		}
		if f.Refused != "" {
			p.Trace.Add("refused: %s", firstLine(f.Refused))
		}
		for _, note := range f.Notes {
			p.Trace.Add("note: %s", firstLine(note))
		}
		for _, m := range f.Modules {
			p.Trace.Add("would %s %s: %s; release %s (%s) hooks %q %q %s", m.Step, m.Module, m.Why, m.Release, m.Reason, m.HookValues, m.Notes, m.Error+m.Unknown)
		}
		return nil
	})
}
