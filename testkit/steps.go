package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"addon-operator/actors/plan"
	"addon-operator/actors/scenario"
	"addon-operator/deploy"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// step is what the first word of a line does; the rest of the line is its argument. The player
// settles after it, so a step need not wait for what it causes.
type step = func(*player, string) error

// steps are the words of a script; docs/testkit.md explains them.
func steps() map[string]step {
	all := map[string]step{}
	for _, some := range []map[string]step{processSteps(), inputSteps(), diskSteps(), faultSteps(), shownSteps()} {
		maps.Copy(all, some)
	}
	return all
}

// processSteps start, stop and disturb the operator and its clock.
func processSteps() map[string]step {
	return map[string]step{
		"start": func(p *player, _ string) error { return p.start() },
		"stop":  func(p *player, _ string) error { return p.stop() },
		"advance": func(p *player, text string) error {
			d, err := time.ParseDuration(text)
			p.advance(d)
			return err
		},
		"kill":    func(p *player, _ string) error { p.markDead(); return nil },
		"crash":   stepCrash,
		"respawn": func(p *player, _ string) error { p.respawn = true; return nil },
		// Before the start:
		"isolate": func(p *player, _ string) error { p.options.Isolate = true; return nil },
		"width":   func(p *player, text string) (err error) { p.options.Width, err = strconv.Atoi(text); return err },
		"snapshot-limit": func(p *player, text string) (err error) {
			p.options.SnapshotLimit, err = strconv.Atoi(text)
			return err
		},
		"allow-purge": func(p *player, _ string) error { p.options.AllowPurge = true; return nil },
		"last-valid": func(p *player, _ string) error {
			store := p.Cluster.Client.LastValid(scenario.Namespace, scenario.ConfigMapName)
			p.options.LastValid = &lastValid{store, p.Trace, "last valid values: operator keeps map[] and of the Secret map[]"}
			return nil
		},
		"drift": func(p *player, rest string) (err error) {
			p.options.Drift, p.options.DriftPeriod, err = nameAnd(time.ParseDuration, rest)
			return err
		},
	}
}

// inputSteps are what people and other programs change: the ConfigMap, objects, permissions.
func inputSteps() map[string]step {
	return map[string]step{
		"configmap": func(p *player, name string) error {
			data, err := p.configMapFile(name)
			return errors.Join(err, p.Cluster.ConfigMap.Set(data))
		},
		"configmap-set":    func(p *player, rest string) error { return p.Cluster.ConfigMap.Edit(keyAndText(rest)) },
		"configmap-remove": func(p *player, key string) error { return p.Cluster.ConfigMap.Edit(map[string]*string{key: nil}) },
		"secret-set":       func(p *player, rest string) error { return p.Cluster.Secret.Edit(keyAndText(rest)) },
		"secret-remove":    func(p *player, key string) error { return p.Cluster.Secret.Edit(map[string]*string{key: nil}) },
		"confirm-purge": func(p *player, value string) error {
			return p.Cluster.ConfigMap.Annotate(kube.ConfirmPurgeAnnotation, value)
		},
		"apply": func(p *player, name string) error {
			data, err := p.disk.file(name)
			return errors.Join(err, p.applyYAML(data))
		},
		"object": func(p *player, rest string) error {
			return p.Cluster.Server.Apply(scenario.ParseReference(rest).Object())
		},
		"objects":      stepObjects,
		"delete":       func(p *player, rest string) error { return p.Cluster.Delete(scenario.ParseReference(rest)) },
		"kind":         stepKind,
		"forbid":       stepDeny(true),
		"permit":       stepDeny(false),
		"refuse":       stepRefuse,
		"hold-news":    func(p *player, _ string) error { p.news.hold(true); return nil },
		"deliver-news": func(p *player, _ string) error { p.news.hold(false); return nil },
		"module-objects": func(p *player, _ string) error {
			p.options.ModuleObjects = p.modules
			return p.applyYAML(deploy.ModuleCRD)
		},
		"module-suspend": suspendModule,
		"module-request": annotateModule(kube.RequestedAtAnnotation),
		"module-retry":   annotateModule(kube.RetryRequestedAtAnnotation),
	}
}

// faultSteps decide how hooks, Helm and the API server answer, and change objects of releases in ways that the
// operator has no part in.
func faultSteps() map[string]step {
	all := map[string]step{
		"no-faults":  func(p *player, _ string) error { p.Faults.Clear(); return nil },
		"away-helm":  failing(away+scenario.FaultOfHelm, ""),
		"panic":      failing(panics+scenario.FaultOfHook, ""),
		"health":     stepHealth,
		"hook-waits": slowing(faultOfJobs, ""),
		"change":     stepChange,
	}
	for word, kind := range map[string]string{"": scenario.FaultOfHook, "-helm": scenario.FaultOfHelm, "-objects": faultOfObjects, "-crds": faultOfCRDs, "-modules": faultOfModules} {
		all["fail"+word], all["slow"+word] = failing(kind, ""), slowing(kind, "")
	}
	all["fail-config"], all["slow-config"] = failing(scenario.FaultOfHook, askConfig), slowing(scenario.FaultOfHook, askConfig)
	return all
}

// failing makes the next actions of a kind fail: NAME N. The name may be missing.
func failing(kind, end string) step {
	return func(p *player, rest string) error {
		name, n, err := nameAnd(strconv.Atoi, rest)
		p.Faults.Fail(kind+name+end, n)
		return err
	}
}

// slowing lets the actions of a kind take long: NAME DURATION. The name may be missing.
func slowing(kind, end string) step {
	return func(p *player, rest string) error {
		name, d, err := nameAnd(time.ParseDuration, rest)
		p.Faults.Slow(kind+name+end, d)
		return err
	}
}

// nameAnd reads a name, and a last word that is a number or a duration.
func nameAnd[T any](parse func(string) (T, error), rest string) (string, T, error) {
	space := strings.LastIndex(rest, " ")
	value, err := parse(rest[space+1:])
	return rest[:max(space, 0)], value, err
}

// shownSteps print what the operator publishes or answers, or record it.
func shownSteps() map[string]step {
	return map[string]step{
		"why":  stepWhy,
		"plan": stepPlan,
		// The messages of the step that comes next are counted.
		"messages": func(p *player, _ string) error { p.messages = messageCount{trace: p.Trace, on: true}; return nil },
		"counts":   stepCounts,
		"show":     func(p *player, _ string) error { p.show(); return nil },
		// Whether the operator has seen the ConfigMap as it is.
		"observed": func(p *player, _ string) error {
			return p.Await(func() error {
				observed, err := p.Operator.Observed(context.Background())
				p.Trace.Add("the ConfigMap is observed: %t", observed)
				return err
			})
		},
	}
}

// configMapFile reads a file with the content of a ConfigMap: a map of key to text.
func (p *player) configMapFile(name string) (data map[string]string, err error) {
	text, err := p.disk.file(name)
	if err != nil {
		return nil, err
	}
	return data, readYAML(text, &data)
}

// readYAML refuses duplicate keys and unknown fields. The strict mode of the library also refuses keys that override
// those of a merge key.
func readYAML(data []byte, into any) error {
	if _, err := values.ParseYAML(data); err != nil {
		return err
	}
	return yaml.Unmarshal(data, into, yaml.DisallowUnknownFields)
}

// keyAndText reads KEY TEXT, in which \n is the end of a line.
func keyAndText(rest string) map[string]*string {
	key, text, _ := strings.Cut(rest, " ")
	text = strings.ReplaceAll(text, `\n`, "\n")
	return map[string]*string{key: &text}
}

func (p *player) applyYAML(text []byte) error {
	documents, err := values.ParseYAMLDocuments(text)
	for _, d := range documents {
		object, _ := d.Tree.(map[string]any)
		err = errors.Join(err, p.Cluster.Server.Apply(object))
	}
	return err
}

func stepObjects(p *player, rest string) error {
	name, n, err := nameAnd(strconv.Atoi, rest)
	for i := 0; i < n && err == nil; i++ {
		err = p.Cluster.Server.Apply(scenario.ParseReference(name + "-" + strconv.Itoa(i+1)).Object())
	}
	return err
}

// stepKind makes a kind exist that Kubernetes does not have. Watches of it are complete from then on.
func stepKind(p *player, kind string) error {
	const group = "testkit.example.org"
	plural := strings.ToLower(kind) + "s"
	return p.Cluster.Server.Apply(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		},
	})
}

// stepDeny takes a permission from the operator, or gives it back: KIND [NAMESPACE].
func stepDeny(denied bool) step {
	return func(p *player, rest string) error {
		kind, namespace, _ := strings.Cut(rest, " ")
		return p.Cluster.Server.Deny(kind, namespace, denied)
	}
}

// stepRefuse refuses the requests of the operator for a resource from now on, such as deployments, or one object of
// it: RESOURCE [NAME]. Without a resource none is refused any more.
func stepRefuse(p *player, rest string) error {
	resource, name, _ := strings.Cut(rest, " ")
	p.Cluster.Server.OnRequest(func(r apiserver.Request) error {
		if r.Resource != resource || name != "" && name != r.Name {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: r.Group, Resource: r.Resource}, r.Name, errors.New("no rule allows it"))
	})
	return nil
}

// stepChange changes the values in the ConfigMap of a release: OBJECT TEXT.
func stepChange(p *player, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	return p.Cluster.Set(scenario.ParseReference("ConfigMap default/"+name), text, "data", "values")
}

// stepWhy prints why a module is off, or the causes of its last run.
func stepWhy(p *player, name string) error {
	if why := p.Operator.Converge().Off[name]; why != "" {
		p.Trace.Add("%s is off: %s", name, why)
		return nil
	}
	status, ok := p.Operator.Inspector().Status("operator/module/" + name).(view.ModuleStatus)
	if !ok || status.LastRun == nil {
		return errors.New("the module has not run")
	}
	p.Trace.Add("release: %s", status.LastRun.Release)
	for _, cause := range status.LastRun.Causes {
		p.Trace.Add("  because of %s", cause)
	}
	return nil
}

// stepPlan prints what the operator would do: with the ConfigMap in force, or with the one
// in a file.
func stepPlan(p *player, name string) (err error) {
	request := plan.Request{}
	if name != "" {
		if request.Proposed, err = p.configMapFile(name); err != nil {
			return err
		}
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
			p.Trace.Add("would %s %s: %s; release %s (%s) %q %s", m.Step, m.Module, m.Why, m.Release, m.Reason, m.Notes, m.Error+m.Unknown)
		}
		return nil
	})
}

// show prints the status of the actors that scripts are about, and what is outside of the operator. What is as it
// should be takes a line: "ready" are modules that are ready and no more, with the revision of their releases.
func (p *player) show() {
	releases := p.releases.revisions()
	if p.Operator == nil {
		p.Trace.Add("the operator does not run; releases: %s", strings.Join(releases.describe(), " "))
		return
	}
	calm := map[string][]string{} // names by what they are
	p.Visit(func(path string, published fmt.Stringer) {
		path = strings.TrimPrefix(path, "operator/")
		switch status := published.(type) {
		case view.ModuleStatus, view.QueueStatus:
			name := path[strings.LastIndex(path, "/")+1:]
			switch text := published.String(); text {
			case "ready", "disabled", "empty":
				calm[text] = append(calm[text], name)
			case fmt.Sprintf("ready revision=%d", releases[name]):
				calm["ready"] = append(calm["ready"], fmt.Sprintf("%s.v%d", name, releases[name]))
			default:
				p.Trace.Add("%s: %s", path, text)
			}
		case view.ConvergeStatus:
			p.Trace.Add("%s: %s", path, published)
		case view.HealerStatus:
			p.showHealth(status.Releases)
		default:
			p.showOther(path, published)
		}
	})
	for _, h := range p.Operator.HangingHooks() {
		p.Trace.Add("%s", h)
	}
	if empty := calm["empty"]; len(empty) > 1 || len(empty) == 1 && empty[0] != messages.MainQueue {
		calm["empty queues"] = empty
	}
	calm["other releases"] = releases.describe(calm["ready"]...)
	var all []string
	for _, what := range []string{"ready", "disabled", "other releases", "empty queues"} {
		if names := calm[what]; len(names) > 0 {
			all = append(all, what+": "+strings.Join(names, " "))
		}
	}
	p.Trace.AddLine(cmp.Or(strings.Join(all, "; "), "no module and no release"))
	p.showData("configmap", p.Cluster.ConfigMap.Data())
	p.showData("secret", p.Cluster.Secret.Data())
}

func (p *player) showOther(path string, published fmt.Stringer) {
	if status, ok := published.(view.MonitorsStatus); ok {
		for _, b := range status.Bindings {
			if b.Held > 0 {
				p.Trace.Add("binding %s of %s holds %d events", b.Binding, b.Hook, b.Held)
			}
		}
	} else if published != nil && strings.Contains(path, "/run/") {
		p.Trace.Add("%s: %s", path, published)
	}
}

func (p *player) showHealth(releases map[string]*view.Health) {
	for _, name := range slices.Sorted(maps.Keys(releases)) {
		if health := releases[name].String(); health != "" {
			p.Trace.Add("objects of %s: %s", name, health)
		}
	}
}

func (p *player) showData(what string, data map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		what += fmt.Sprintf(" %s=%q", key, data[key])
	}
	if len(data) > 0 {
		p.Trace.Add("%s", what)
	}
}

// stepCounts writes how a scrape shows the runs of hooks into the trace.
func stepCounts(p *player, _ string) error {
	scrape := httptest.NewRecorder()
	handler := promhttp.HandlerFor(p.options.Metrics.Registry, promhttp.HandlerOpts{})
	handler.ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	counted := regexp.MustCompile(`(?m)^\w+hook_(success_total|(allowed_)?errors(_total)?|run_seconds_count)\b.*$`)
	for _, line := range counted.FindAllString(scrape.Body.String(), -1) {
		p.Trace.AddLine(line)
	}
	return nil
}
