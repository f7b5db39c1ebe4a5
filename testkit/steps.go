package testkit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// step is what a word of a script does; the rest of its line is the argument.
type step = func(*player, string) error

// steps are the words of a script; doc.go explains them.
func steps() map[string]step {
	all := map[string]step{}
	for _, some := range []map[string]step{processSteps(), inputSteps(), faultSteps(), shownSteps()} {
		maps.Copy(all, some)
	}
	return all
}

// processSteps start, stop and disturb the operator and its clock.
func processSteps() map[string]step {
	return map[string]step{
		"start":     func(p *player, _ string) error { p.witness.note("start", ""); return p.start() },
		"standby":   func(p *player, _ string) error { p.witness.note("start", ""); return p.standBy() },
		"lead":      (*player).stepLead,
		"stop":      func(p *player, _ string) error { p.witness.note("stop", ""); return p.stop() },
		"advance":   (*player).stepAdvance,
		"calm":      (*player).stepCalm,
		"kill":      func(p *player, _ string) error { p.die(); return nil },
		"crash":     (*player).stepCrash,
		"respawn":   func(p *player, _ string) error { p.respawn = true; return nil },
		"panic":     (*player).stepPanic,
		"seed":      (*player).stepSeed,
		"jitter":    (*player).stepJitter,
		"unordered": func(p *player, _ string) error { p.trace.unordered = true; return nil },
		"isolate":   func(p *player, _ string) error { p.isolate = true; return nil },
		"width":     (*player).stepWidth,
		"settle":    (*player).stepSettle,
		"pace":      (*player).stepPace,
	}
}

// inputSteps are what people and other programs change: the ConfigMap, objects, permissions, files.
func inputSteps() map[string]step {
	return map[string]step{
		"configmap":        (*player).stepConfigMap,
		"configmap-set":    (*player).stepConfigMapSet,
		"configmap-remove": (*player).stepConfigMapRemove,
		"configmap-away":   (*player).stepConfigMapAway,
		"configmap-back":   (*player).stepConfigMapBack,
		"secret-set":       (*player).stepSecretSet,
		"secret-remove":    (*player).stepSecretRemove,
		"secret-forbidden": func(p *player, _ string) error { p.cluster.secretForbidden = true; return nil },
		"confirm-purge":    func(p *player, value string) error { p.cluster.ConfirmPurge(value); return nil },
		"allow-purge":      func(p *player, _ string) error { p.allowPurge = true; return nil },
		"last-valid":       func(p *player, _ string) error { p.lastValid = true; return nil },
		"apply":            (*player).stepApply,
		"object":           (*player).stepObject,
		"objects":          (*player).stepObjects,
		"delete":           (*player).stepDelete,
		"no-kind":          func(p *player, kind string) error { return p.cluster.SetKind(kind, false) },
		"kind":             func(p *player, kind string) error { return p.cluster.SetKind(kind, true) },
		"forbid":           func(p *player, rest string) error { return p.deny(rest, true) },
		"permit":           func(p *player, rest string) error { return p.deny(rest, false) },
		"go-back":          func(p *player, watch string) error { p.cluster.goBack(watch); return nil },
		"hold-news":        func(p *player, _ string) error { p.cluster.news.hold(); return nil },
		"deliver-news":     func(p *player, _ string) error { p.cluster.news.deliver(); return nil },
		"remove":           (*player).stepRemove,
		"rename":           (*player).stepRename,
		"restore":          (*player).stepRestore,
		"write":            (*player).stepWrite,
	}
}

// faultSteps decide how hooks, Helm and the API server answer, and what is done to releases behind their back.
func faultSteps() map[string]step {
	return map[string]step{
		"fail":            (*player).stepFail,
		"slow":            (*player).stepSlow,
		"fail-config":     (*player).stepFailConfig,
		"slow-config":     (*player).stepSlowConfig,
		"fail-helm":       (*player).stepFailHelm,
		"fail-objects":    (*player).stepFailObjects,
		"slow-objects":    (*player).stepSlowObjects,
		"refuse":          (*player).stepRefuse,
		"away-helm":       (*player).stepAwayHelm,
		"slow-helm":       (*player).stepSlowHelm,
		"slow-crds":       (*player).stepSlowCRDs,
		"chance":          (*player).stepChance,
		"deploys":         (*player).stepDeploys,
		"vanish":          (*player).stepVanish,
		"replace":         func(p *player, name string) error { p.releases.Vanish(true, name); return nil },
		"tamper":          func(p *player, name string) error { p.releases.Tamper(name); return nil },
		"change":          (*player).stepChange,
		"unchange":        (*player).stepUnchange,
		"release":         func(p *player, name string) error { p.releases.Put(name, false); return nil },
		"foreign-release": func(p *player, name string) error { p.releases.Put(name, true); return nil },
	}
}

// shownSteps print what the operator says of itself.
func shownSteps() map[string]step {
	return map[string]step{
		"why":        (*player).stepWhy,
		"plan":       (*player).stepPlan,
		"drift":      (*player).stepDrift,
		"show-drift": (*player).stepShowDrift,
		"messages":   (*player).stepMessages,
		"counts":     (*player).showCounts,
		"look":       (*player).stepLook,
		"show":       func(p *player, _ string) error { p.show(); return nil },
	}
}

// deny takes a permission from the operator, or gives it back.
func (p *player) deny(rest string, denied bool) error {
	kind, namespace, _ := strings.Cut(rest, " ")
	return p.cluster.server.Deny(kind, namespace, denied)
}

func (p *player) stepLead(string) error {
	if p.operator == nil {
		return errors.New("the operator does not run")
	}
	if p.death.risen {
		return nil // it leads
	}
	operator := p.operator
	err := p.await(func() error { return operator.Lead(p.lifetime) })
	if p.operator != operator { // it has died over that
		err = nil
	}
	return err
}

func (p *player) stepAdvance(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil {
		p.advance(d)
	}
	return err
}

// stepCalm lets time pass until no queue has a task.
func (p *player) stepCalm(text string) error {
	longest, err := time.ParseDuration(text)
	for began := time.Now(); err == nil; p.advance(time.Millisecond) {
		var now Played
		now.look(p)
		if len(now.Queues) == 0 || time.Since(began) > longest {
			break
		}
	}
	return err
}

func (p *player) file(name string) (*diskFile, error) {
	f, ok := p.disk.original[name]
	if !ok {
		return nil, fmt.Errorf("the archive has no file %s", name)
	}
	return f, nil
}

func (p *player) stepConfigMap(name string) error {
	data, err := p.configMapFile(name)
	if err != nil {
		return err
	}
	p.cluster.SetConfigMap(data)
	return nil
}

func (p *player) configMapFile(name string) (data map[string]string, err error) {
	f, err := p.file(name)
	if err != nil {
		return nil, err
	}
	return data, yaml.UnmarshalStrict(f.data, &data)
}

func (p *player) stepConfigMapSet(rest string) error {
	key, text, _ := strings.Cut(rest, " ")
	data := p.cluster.ConfigMap()
	if data == nil {
		data = map[string]string{}
	}
	data[key] = strings.ReplaceAll(text, `\n`, "\n")
	p.noteSwitch(key)
	p.witness.note("configmap "+rest, "")
	p.cluster.SetConfigMap(data)
	return nil
}

func (p *player) stepSecretSet(rest string) error {
	key, text, _ := strings.Cut(rest, " ")
	data := p.cluster.Secret()
	if data == nil {
		data = map[string]string{}
	}
	data[key] = strings.ReplaceAll(text, `\n`, "\n")
	p.cluster.SetSecret(data)
	return nil
}

func (p *player) stepSecretRemove(key string) error {
	data := p.cluster.Secret()
	delete(data, key)
	p.cluster.SetSecret(data)
	return nil
}

// noteSwitch remembers edits that may switch a module, or end its waiting.
func (p *player) noteSwitch(key string) {
	p.witness.note("switch", strings.TrimSuffix(key, "Enabled"))
}

func (p *player) stepConfigMapRemove(key string) error {
	data := p.cluster.ConfigMap()
	p.noteSwitch(key)
	delete(data, key)
	p.cluster.SetConfigMap(data)
	return nil
}

// stepConfigMapAway deletes the ConfigMap as 'kubectl replace --force' does, which has read it before.
func (p *player) stepConfigMapAway(string) error {
	p.away = p.cluster.ConfigMap()
	p.cluster.SetConfigMap(nil)
	return nil
}

// stepConfigMapBack creates the ConfigMap again, unless the operator has done so for a hook.
func (p *player) stepConfigMapBack(string) error {
	if p.cluster.ConfigMap() == nil && p.away != nil {
		p.cluster.SetConfigMap(p.away)
	}
	p.away = nil
	return nil
}

func (p *player) stepApply(name string) error {
	f, err := p.file(name)
	if err != nil {
		return err
	}
	for _, doc := range strings.Split(string(f.data), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			return err
		}
		if err := p.cluster.Apply(object); err != nil {
			return err
		}
	}
	return nil
}

// stepObject creates an object that has nothing but its name.
func (p *player) stepObject(rest string) error {
	kind, name, _ := strings.Cut(rest, " ")
	namespace, object, ok := strings.Cut(name, "/")
	if !ok {
		namespace, object = "", name
	}
	meta := map[string]any{"name": object}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return p.cluster.Apply(map[string]any{"kind": kind, "metadata": meta})
}

func (p *player) stepObjects(rest string) error {
	space := strings.LastIndex(rest, " ")
	prefix, number := rest[:max(space, 0)], rest[space+1:]
	n, err := strconv.Atoi(number)
	for i := 0; i < n && err == nil; i++ {
		err = p.stepObject(prefix + "-" + strconv.Itoa(i+1))
	}
	return err
}

func (p *player) stepDelete(rest string) error {
	kind, name, _ := strings.Cut(rest, " ")
	namespace, object, ok := strings.Cut(name, "/")
	if !ok {
		namespace, object = "", name
	}
	existed, err := p.cluster.Delete(kind, namespace, object)
	if err == nil && !existed {
		err = errors.New("there is no such object")
	}
	return err
}

func (p *player) stepFail(rest string) error {
	name, n, err := nameAndNumber(rest)
	p.hooks.Fail(name, n)
	return err
}

func (p *player) stepSlow(rest string) error {
	name, d, err := nameAndDuration(rest)
	p.hooks.Slow(name, d)
	return err
}

func (p *player) stepFailConfig(rest string) error {
	name, n, err := nameAndNumber(rest)
	p.hooks.Fail(configOf(name), n)
	return err
}

func (p *player) stepSlowConfig(rest string) error {
	name, d, err := nameAndDuration(rest)
	p.hooks.Slow(configOf(name), d)
	return err
}

func (p *player) stepPanic(rest string) error {
	name, n, err := nameAndNumber(rest)
	p.hooks.Panic(name, n)
	return err
}

func (p *player) stepSeed(text string) error {
	seed, err := strconv.ParseUint(text, 10, 64)
	p.sched.Draw(seed)
	return err
}

func (p *player) stepJitter(text string) error {
	seed, err := strconv.ParseUint(text, 10, 64)
	p.hooks.jitter, p.releases.jitter = newJitter(seed), newJitter(seed)
	return err
}

func (p *player) stepRemove(path string) error {
	p.witness.note("directory", path)
	return p.disk.remove(path)
}

func (p *player) stepRename(rest string) error {
	from, to, _ := strings.Cut(rest, " ")
	p.witness.note("directory", from)
	return p.disk.rename(from, to)
}

// stepRestore writes the files of the archive below a path again.
func (p *player) stepRestore(path string) error {
	p.witness.note("directory", path)
	return p.disk.restore(path)
}

func (p *player) stepFailHelm(rest string) error {
	name, n, err := nameAndNumber(rest)
	p.releases.Fail(name, n)
	return err
}

func (p *player) stepFailObjects(rest string) error {
	n, err := strconv.Atoi(rest)
	p.cluster.FailObjects(n)
	return err
}

func (p *player) stepSlowObjects(text string) error {
	d, err := time.ParseDuration(text)
	p.cluster.SlowObjects(d)
	return err
}

func (p *player) stepAwayHelm(rest string) error {
	name, n, err := nameAndNumber(rest)
	p.releases.Away(name, n)
	return err
}

func (p *player) stepSlowHelm(rest string) error {
	name, d, err := nameAndDuration(rest)
	p.releases.Slow(name, d)
	return err
}

func nameAndNumber(rest string) (string, int, error) {
	name, text, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(text)
	return name, n, err
}

func nameAndDuration(rest string) (string, time.Duration, error) {
	name, text, _ := strings.Cut(rest, " ")
	d, err := time.ParseDuration(text)
	return name, d, err
}

func (p *player) stepWidth(text string) (err error) {
	p.width, err = strconv.Atoi(text)
	return err
}

// stepWhy prints why a module is off, or the causes of its last run.
func (p *player) stepWhy(name string) error {
	if why := p.operator.Converge().Off[name]; why != "" {
		p.trace.Add("%s is off: %s", name, why)
		return nil
	}
	status, ok := p.operator.Inspector().Status("operator/module/" + name).(messages.ModuleStatus)
	if !ok || status.LastRun == nil {
		return errors.New("the module has not run")
	}
	p.trace.Add("release: %s", status.LastRun.Release)
	for _, cause := range status.LastRun.Causes {
		p.trace.Add("  because of %s", cause)
	}
	return nil
}

func (p *player) stepWrite(rest string) error {
	path, name, _ := strings.Cut(rest, " ")
	f, err := p.file(cmp.Or(name, path))
	if err == nil {
		err = p.disk.write(path, f)
	}
	return err
}

func (p *player) stepCrash(rest string) error {
	at, err := parseTrap(rest)
	p.traps.lay(at)
	return err
}

// show prints what the actors say about themselves.
func (p *player) show() {
	if p.operator == nil {
		p.trace.Add("the operator does not run; releases:%s", p.releases.describe())
		return
	}
	var visit func(nodes []*supervisor.Node)
	visit = func(nodes []*supervisor.Node) {
		for _, n := range nodes {
			switch status := n.Status.(type) {
			case messages.ModuleStatus, messages.QueueStatus, messages.ConvergeStatus, messages.StandbyStatus, supervisor.RunStatus:
				line := n.Status.String()
				p.trace.Add("%s: %s", strings.TrimPrefix(n.Path, "operator/"), line)
			case messages.MonitorsReporter:
				for _, b := range status.Monitors().Bindings {
					if b.Held > 0 {
						p.trace.Add("binding %s of %s holds %d events", b.Binding, b.Hook, b.Held)
					}
				}
			}
			visit(n.Children)
		}
	}
	visit(p.operator.Inspector().Tree())
	for _, h := range p.operator.HangingHooks() {
		p.trace.Add("%s", h)
	}
	p.trace.Add("releases:%s", p.releases.describe())
	cm := p.cluster.ConfigMap()
	for _, key := range slices.Sorted(maps.Keys(cm)) {
		p.trace.Add("configmap %s: %q", key, cm[key])
	}
	secret := p.cluster.Secret()
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		p.trace.Add("secret %s: %q", key, secret[key])
	}
}
