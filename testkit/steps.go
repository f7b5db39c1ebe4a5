package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"addon-operator/actors/scenario"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// step is what the first word of a line does; the rest of the line is its argument. The player
// settles after it, so a step need not wait for what it causes.
type step = func(*player, string) error

// steps are the words of a script; doc.go explains them, and a test compares it with these maps.
// Those that scenarios of modules have, too, come from the engine.
func steps() map[string]step {
	all := map[string]step{}
	for _, some := range []map[string]step{processSteps(), inputSteps(), faultSteps(), shownSteps(), moduleSteps()} {
		maps.Copy(all, some)
	}
	for verb, do := range scenario.Steps() {
		all[verb] = ofEngine(do)
	}
	return all
}

// ofEngine makes a step of one of the engine's.
func ofEngine(do scenario.Step) step {
	return func(p *player, rest string) error {
		return do(p.t.Context(), p.Engine, scenario.Line{Rest: rest})
	}
}

// processSteps start, stop and disturb the operator and its clock.
func processSteps() map[string]step {
	return map[string]step{
		"start":          func(p *player, _ string) error { return p.start() },
		"stop":           func(p *player, _ string) error { return p.stop() },
		"calm":           stepCalm,
		"kill":           func(p *player, _ string) error { p.markDead(); return nil },
		"crash":          stepCrash,
		"respawn":        func(p *player, _ string) error { p.respawn = true; return nil },
		"seed":           stepSeed,
		"unordered":      func(p *player, _ string) error { p.unordered = true; return nil },
		"isolate":        func(p *player, _ string) error { p.isolate = true; return nil },
		"width":          stepWidth,
		"snapshot-limit": func(p *player, text string) (err error) { p.snapshotLimit, err = strconv.Atoi(text); return err },
	}
}

// inputSteps are what people and other programs change: the ConfigMap, objects, permissions, files.
func inputSteps() map[string]step {
	return map[string]step{
		"configmap":        stepConfigMap,
		"configmap-set":    stepConfigMapSet,
		"configmap-remove": stepConfigMapRemove,
		"configmap-away":   stepConfigMapAway,
		"configmap-back":   stepConfigMapBack,
		"secret-set":       func(p *player, rest string) error { return p.Cluster.Secret.Edit(keyAndText(rest)) },
		"secret-remove":    func(p *player, key string) error { return p.Cluster.Secret.Edit(map[string]*string{key: nil}) },
		"secret-forbidden": func(p *player, _ string) error { p.secretForbidden = true; return nil },
		"confirm-purge": func(p *player, value string) error {
			return p.Cluster.ConfigMap.Annotate(kube.ConfirmPurgeAnnotation, value)
		},
		"allow-purge":  func(p *player, _ string) error { p.allowPurge = true; return nil },
		"last-valid":   func(p *player, _ string) error { p.lastValid = true; return nil },
		"apply":        stepApply,
		"object":       func(p *player, rest string) error { return p.Cluster.Apply(scenario.ParseReference(rest).Object()) },
		"objects":      stepObjects,
		"no-kind":      func(p *player, kind string) error { return setKind(p, kind, false) },
		"kind":         func(p *player, kind string) error { return setKind(p, kind, true) },
		"forbid":       stepDeny(true),
		"permit":       stepDeny(false),
		"hold-news":    func(p *player, _ string) error { p.news.hold(); return nil },
		"deliver-news": func(p *player, _ string) error { p.news.release(); return nil },
		"notice-disk":  func(p *player, _ string) error { p.notices.changed(); return nil },
		"remove":       func(p *player, path string) error { return p.disk.remove(path) },
		"rename":       stepRename,
		"restore":      func(p *player, path string) error { return p.disk.restore(path) },
		"write":        stepWrite,
	}
}

// faultSteps decide how hooks, Helm and the API server answer, and change releases in ways that the
// operator has no part in.
func faultSteps() map[string]step {
	return map[string]step{
		"no-faults":       func(p *player, _ string) error { p.Faults.Clear(); return nil },
		"away-helm":       ofEngine(scenario.Failing(faultOfAway, "")),
		"panic":           ofEngine(scenario.Failing(faultOfMistake, "")),
		"slow-crds":       stepSlowCRDs,
		"brings":          stepTemplate(func(_, word string) string { return brought(word) }),
		"uses":            stepTemplate(using),
		"delete-kind":     stepDeleteKind,
		"vanish":          stepVanish(false),
		"replace":         stepVanish(true),
		"health":          stepHealth,
		"hook-waits":      stepHookWaits,
		"change":          stepChange,
		"unchange":        stepUnchange,
		"release":         stepRelease(false),
		"foreign-release": stepRelease(true),
	}
}

// shownSteps print what the operator publishes or answers, or record it.
func shownSteps() map[string]step {
	return map[string]step{
		"why":        stepWhy,
		"plan":       stepPlan,
		"drift":      stepDrift,
		"show-drift": stepShowDrift,
		"messages":   stepMessages,
		"counts":     showCounts,
		"show":       func(p *player, _ string) error { p.show(); return nil },
		"observed":   stepObserved,
	}
}

// stepObserved prints whether the operator has seen the ConfigMap as it is.
func stepObserved(p *player, _ string) error {
	return p.Await(func() error {
		observed, err := p.Operator.Observed(context.Background())
		p.Trace.Add("the ConfigMap is observed: %t", observed)
		return err
	})
}

// stepCalm lets time pass, a millisecond at a time, until no queue has a task. That it does not
// come to this is no error: the queues are then in the trace, or the model reports them.
func stepCalm(p *player, text string) error {
	longest, err := time.ParseDuration(text)
	for began := time.Now(); err == nil; _ = p.Advance(p.t.Context(), time.Millisecond) {
		var now Played
		now.look(p)
		if len(now.Queues) == 0 || time.Since(began) > longest {
			break
		}
	}
	return err
}

// file is a file of the archive that a step names; it need not be one that is written to disk.
func (p *player) file(name string) (*diskFile, error) {
	f, ok := p.disk.original[name]
	if !ok {
		return nil, fmt.Errorf("the archive has no file %s", name)
	}
	return f, nil
}

func stepConfigMap(p *player, name string) error {
	data, err := p.configMapFile(name)
	if err != nil {
		return err
	}
	return p.Cluster.ConfigMap.Set(data)
}

// configMapFile reads a file with the content of a ConfigMap: a map of key to text.
func (p *player) configMapFile(name string) (data map[string]string, err error) {
	f, err := p.file(name)
	if err != nil {
		return nil, err
	}
	return data, readYAML(f.data, &data)
}

// readYAML refuses duplicate keys and unknown fields. The strict mode of the library also refuses keys that override
// those of a merge key.
func readYAML(data []byte, into any) error {
	if _, err := values.ParseYAML(data); err != nil {
		return err
	}
	return yaml.Unmarshal(data, into, yaml.DisallowUnknownFields)
}

func stepConfigMapSet(p *player, rest string) error {
	return p.Cluster.ConfigMap.Edit(keyAndText(rest))
}

// keyAndText reads KEY TEXT, in which \n is the end of a line.
func keyAndText(rest string) map[string]*string {
	key, text, _ := strings.Cut(rest, " ")
	text = strings.ReplaceAll(text, `\n`, "\n")
	return map[string]*string{key: &text}
}

func stepConfigMapRemove(p *player, key string) error {
	return p.Cluster.ConfigMap.Edit(map[string]*string{key: nil})
}

// stepConfigMapAway deletes the ConfigMap as 'kubectl replace --force' does, which has read it
// before.
func stepConfigMapAway(p *player, _ string) error {
	p.away = p.Cluster.ConfigMap.Data()
	return p.Cluster.ConfigMap.Set(nil)
}

// stepConfigMapBack creates the ConfigMap again, unless the operator has done so for a hook.
func stepConfigMapBack(p *player, _ string) (err error) {
	if p.Cluster.ConfigMap.Data() == nil && p.away != nil {
		err = p.Cluster.ConfigMap.Set(p.away)
	}
	p.away = nil
	return err
}

func stepApply(p *player, name string) error {
	f, err := p.file(name)
	if err != nil {
		return err
	}
	return p.applyYAML(f.data)
}

func (p *player) applyYAML(text []byte) error {
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			return err
		}
		if err := p.Cluster.Apply(object); err != nil {
			return err
		}
	}
	return nil
}

func stepObjects(p *player, rest string) error {
	name, n, err := scenario.Line{Rest: rest}.NameAndNumber()
	for i := 0; i < n && err == nil; i++ {
		err = p.Cluster.Apply(scenario.ParseReference(name + "-" + strconv.Itoa(i+1)).Object())
	}
	return err
}

func stepSeed(p *player, text string) error {
	seed, err := strconv.ParseUint(text, 10, 64)
	p.sched.seed(seed)
	return err
}

func stepRename(p *player, rest string) error {
	from, to, _ := strings.Cut(rest, " ")
	return p.disk.rename(from, to)
}

// stepDeny takes a permission from the operator, or gives it back: KIND [NAMESPACE].
func stepDeny(denied bool) step {
	return func(p *player, rest string) error {
		kind, namespace, _ := strings.Cut(rest, " ")
		return p.Cluster.Server.Deny(kind, namespace, denied)
	}
}

func stepWidth(p *player, text string) (err error) {
	p.width, err = strconv.Atoi(text)
	return err
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
		p.Trace.Add("  because of %s", cause.Values())
	}
	for _, cause := range status.LastRun.Also {
		p.Trace.Add("  and because of %s", cause.Values())
	}
	return nil
}

func stepWrite(p *player, rest string) error {
	path, name, _ := strings.Cut(rest, " ")
	f, err := p.file(cmp.Or(name, path))
	if err == nil {
		err = p.disk.write(path, f)
	}
	return err
}

func stepCrash(p *player, rest string) error {
	at, err := parseCrashPoint(rest)
	p.crashes.add(at)
	return err
}

// show prints the status of the actors that scripts are about, and what is outside of the operator. What is as it
// should be takes a line: "ready" are modules that are ready and no more, with the revision of their releases.
func (p *player) show() {
	if p.Operator == nil {
		p.Trace.Add("the operator does not run; releases: %s", strings.Join(p.releases.records().describe(), " "))
		return
	}
	calm := calm{releases: p.releases.records()}
	p.Visit(func(n *supervisor.Node) {
		path := strings.TrimPrefix(n.Path, "operator/")
		switch status := n.Status.(type) {
		case view.ModuleStatus, view.QueueStatus:
			if !calm.add(path, n.Status) {
				p.Trace.Add("%s: %s", path, n.Status)
			}
		case view.ConvergeStatus, supervisor.RunStatus:
			p.Trace.Add("%s: %s", path, n.Status)
		case view.MonitorsReporter:
			for _, b := range status.Monitors().Bindings {
				if b.Held > 0 {
					p.Trace.Add("binding %s of %s holds %d events", b.Binding, b.Hook, b.Held)
				}
			}
		}
	})
	for _, h := range p.Operator.HangingHooks() {
		p.Trace.Add("%s", h)
	}
	p.Trace.Add("%s", calm)
	p.showData("configmap", p.Cluster.ConfigMap.Data())
	p.showData("secret", p.Cluster.Secret.Data())
}

// calm is what a line is enough for.
type calm struct {
	ready, disabled []string // modules
	empty           []string // queues
	releases        records
}

// add reports whether an actor is one of those.
func (c *calm) add(path string, status fmt.Stringer) bool {
	name := path[strings.LastIndex(path, "/")+1:]
	switch status.String() {
	case "ready":
		c.ready = append(c.ready, name)
	case fmt.Sprintf("ready revision=%d", c.releases.revision(name)):
		c.ready = append(c.ready, fmt.Sprintf("%s.v%d", name, c.releases.revision(name)))
	case "disabled":
		c.disabled = append(c.disabled, name)
	case "empty":
		c.empty = append(c.empty, name)
	default:
		return false
	}
	return true
}

// String is the line; that main is empty, and no other queue is there, it leaves out.
func (c calm) String() string {
	if len(c.empty) == 1 && c.empty[0] == messages.MainQueue {
		c.empty = nil
	}
	var all []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"ready", c.ready}, {"disabled", c.disabled}, {"other releases", c.releases.describe(c.ready...)}, {"empty queues", c.empty}} {
		if len(part.names) > 0 {
			all = append(all, part.what+": "+strings.Join(part.names, " "))
		}
	}
	return cmp.Or(strings.Join(all, "; "), "no module and no release")
}

func (p *player) showData(what string, data map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		what += fmt.Sprintf(" %s=%q", key, data[key])
	}
	if len(data) > 0 {
		p.Trace.Add("%s", what)
	}
}
