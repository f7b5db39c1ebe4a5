package testkit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// Violations lists what does not hold after the script was played: at each look, and at the end.
// Only the end is compared with the history of the whole play.
func (r *Random) Violations(p *Played) []string {
	list := slices.Clone(p.Problems)
	last := len(r.worlds) - 1
	for i, looked := range p.looked {
		for _, violation := range r.worlds[i].violations(looked) {
			list = append(list, fmt.Sprintf("at look %d: %s", i+1, violation))
		}
	}
	list = append(list, r.worlds[last].violations(p)...)
	return append(list, r.worlds[last].historical(p)...)
}

// violations lists what is not as it must be when nothing happens any more. The model is computed
// from the files, the ConfigMap and the objects alone, whatever happened before.
func (w world) violations(p *Played) (list []string) {
	expect := func(what, want, got string) {
		if want != got {
			list = append(list, fmt.Sprintf("%s must be %s, is %s", what, want, got))
		}
	}
	enabled := w.enabled()
	expect("the modules that are enabled", fmt.Sprint(enabled), fmt.Sprint(p.Converge.Enabled))
	expect("converge", view.ConvergeIdle+" true", fmt.Sprintf("%s %t", p.Converge.Phase, p.Converge.Ready))
	for name, phase := range p.Phases {
		want := view.Disabled
		if slices.Contains(enabled, name) {
			want = view.Ready
		}
		expect("phase of "+name, string(want), string(phase))
	}
	for name, queue := range p.Queues {
		expect("queue "+name, "empty", queue)
	}
	for _, b := range p.Monitors.Bindings {
		expect("binding "+b.Owner+" "+b.Hook+"/"+b.Binding, "complete, held 0", fmt.Sprintf("%s, held %d", b.Phase, b.Held))
	}
	if p.failed {
		list = append(list, "there is an object of a failed run of a hook")
	}
	wanted := w.releases(enabled, p.Releases)
	for _, name := range keys(wanted, p.Releases) {
		expect("release "+name, wanted[name], p.Releases[name])
	}
	return append(list, w.configMapViolations(enabled, p.ConfigMap)...)
}

// historical lists what must not have happened on the way.
func (w world) historical(p *Played) []string {
	enabled := w.enabled()
	list := doubles(p)
	list = append(list, acceptedInvalid(p)...)
	list = append(list, faultyModuleProblems(p, sectionOf(p.Releases["f"], "f"), slices.Contains(enabled, "f"))...)
	for name := range p.Phases {
		list = append(list, startUps(p, name, slices.Contains(enabled, name))...)
		if !slices.Contains(enabled, name) && !w.gone[directoryOf(name)] {
			list = append(list, deletes(p.events, name)...)
		}
	}
	return list
}

// directoryOf is the directory of a module of random scripts: a to j.
func directoryOf(module string) string {
	return map[string]string{"a": "010-a", "b": "010-b", "c": "020-c", "d": "030-d", "e": "040-e", "f": "050-f", "g": "015-g", "h": "015-h", "i": "012-i", "j": "040-j"}[module]
}

// enabled follows the chain of flags (E3) and the script of c, in the order of directories.
func (w world) enabled() []string {
	var list []string
	names := strings.Fields("a b c d e f g h i j")
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(w.now(directoryOf(a)), w.now(directoryOf(b)))
	})
	for _, name := range names {
		on := name < "e" // d by a global hook, the others by modules/values.yaml
		if flag, ok := w.configMap[name+"Enabled"]; ok {
			on = flag == "true"
		}
		on = on && !(name == "c" && w.scriptOff)
		if on && !w.gone[directoryOf(name)] {
			list = append(list, name)
		}
	}
	return list
}

// releases are the values that must be deployed, as JSON by release: the sections global and that
// of the module, with what hooks write in testdata/random.txtar. deployed is used only for the list
// of f, which the model does not know: it depends on how many events there were (faultyModuleProblems checks
// it).
func (w world) releases(enabled []string, deployed map[string]string) map[string]string {
	global := values.Merge(map[string]any{"zone": "a"}, w.section("global"), map[string]any{"nodes": int64(len(w.nodes)), "late": int64(1)})
	out := map[string]string{}
	for _, name := range enabled {
		own := map[string]any{}
		switch name {
		case "a":
			own = map[string]any{"started": int64(1), "pods": int64(len(w.pods)), "found": int64(1)}
		case "b":
			own = map[string]any{"saved": true, "pods": int64(len(w.pods))}
		case "d":
			continue // it has no chart
		case "f":
			own = w.faultyModuleValues(sectionOf(deployed["f"], "f"))
		}
		static := map[string]any{}
		if name == "e" {
			static["size"] = int64(7)
		}
		text, err := values.JSON(map[string]any{"global": global, name: values.Merge(static, w.section(name), own)})
		if err != nil {
			text = []byte(err.Error())
		}
		out[name] = string(text)
	}
	return out
}

// sectionOf is a section of the values of a release.
func sectionOf(release, key string) map[string]any {
	tree, err := values.ParseYAML([]byte(release)) // JSON is YAML
	if err != nil {
		return nil
	}
	all, _ := tree.(map[string]any)
	section, _ := all[key].(map[string]any)
	return section
}

// section is a section of the ConfigMap as a person wrote it; an empty one if there is none.
func (w world) section(key string) any {
	tree, err := values.ParseYAML([]byte(w.configMap[key]))
	if err != nil || tree == nil {
		return map[string]any{}
	}
	return tree
}

// configMapViolations compares the ConfigMap: it has what a person wrote, and what the
// hook of b saves there.
func (w world) configMapViolations(enabled []string, got map[string]string) (list []string) {
	for _, key := range keys(w.configMap, got) {
		want, text := w.configMap[key], got[key]
		if key == "b" {
			var section map[string]any
			if err := yaml.Unmarshal([]byte(text), &section); err != nil {
				list = append(list, "key b of the ConfigMap: "+err.Error())
			}
			if saved := section["saved"] == true; !saved && slices.Contains(enabled, "b") {
				list = append(list, "key b of the ConfigMap must have what the hook of b saves, is "+text)
			}
			text = strings.TrimSpace(strings.ReplaceAll(text, "saved: true\n", ""))
		}
		if want != text {
			list = append(list, fmt.Sprintf("key %s of the ConfigMap must be %q, is %q", key, want, got[key]))
		}
	}
	return list
}

// doubles checks that a task whose hook has succeeded does not run the hook again, unless
// its result was refused.
func doubles(p *Played) (list []string) {
	succeeded := map[string]event{}
	for _, e := range p.events {
		switch {
		case e.what == "start":
			clear(succeeded)
		case e.what == "refused":
			maps.DeleteFunc(succeeded, func(_ string, ran event) bool { return ran.module == e.module })
		case e.task != "" && e.ok:
			if _, twice := succeeded[e.task]; twice {
				list = append(list, fmt.Sprintf("task %s of %s has run %s twice", e.task, e.module, e.what))
			}
			succeeded[e.task] = e
		}
	}
	return list
}

// acceptedInvalid checks that no run of d meets values that are not valid: the ConfigMap with
// them must have been refused, once the global hook had enabled d. Before that they are accepted,
// because nothing is known of a section whose module is disabled; then nothing is checked.
func acceptedInvalid(p *Played) []string {
	enabled := false
	for _, e := range p.events {
		switch {
		case e.what == "start", e.what == "refused" && e.module == messages.GlobalHooks: // it has not enabled d
			enabled = false
		case e.module == messages.GlobalHooks && e.what == string(hooks.OnStartup) && e.ok:
			enabled = true
		case e.what == "configmap d "+invalidD && !enabled:
			return nil
		}
	}
	if strings.Contains(p.Trace, "err=config values: values of d") {
		return []string{"the ConfigMap was accepted with values of d that are not valid"}
	}
	return nil
}

// startUps checks that the onStartup hook of a module ran once for each time it became
// enabled, plus the repetitions that failures and cancels explain (X13).
func startUps(p *Played, module string, enabled bool) (list []string) {
	ran, since, has := 0, 0, false
	for _, e := range p.events {
		switch {
		case e.what == "start", e.module == module && e.what == "uninstall":
			since = 0
		case e.module == module && e.what == "onStartup":
			has = true
			ran++
			if e.ok {
				since++
			}
		}
	}
	if may := startUpsExplained(p, module); ran > may {
		list = append(list, fmt.Sprintf("onStartup of %s ran %d times, %d can be explained", module, ran, may))
	}
	if enabled && has && since == 0 {
		list = append(list, "onStartup of "+module+" did not run since it became enabled")
	}
	return list
}

// startUpsExplained is how often the onStartup hook may have run at most. It is generous: any
// switch of any module counts, because it begins a reload, which may cancel a run.
func startUpsExplained(p *Played, module string) int {
	n := strings.Count(p.Trace, "will retry module="+module+" task=RunModule") + strings.Count(p.Trace, "directory of the module is gone")
	for _, e := range p.events {
		switch {
		case e.what == "start", e.what == "switch":
			n++
		case e.module == module && (e.what == "uninstall" || e.what == "onStartup" && !e.ok):
			n++
		}
	}
	return n
}

// forgets recognizes an event after which a delete that was in progress is forgotten: the
// process has ended; or it was a purge, which runs no hooks, and the directory is back.
func forgets(e event) bool { return e.what == "stop" || e.what == "directory" }

// deletes checks that afterDeleteHelm of a module ran after its last uninstall, unless the module
// was enabled again, or what was in progress is forgotten. A module whose hook never ran may have
// none.
func deletes(events []event, module string) []string {
	uninstalled, after := -1, -1
	has := false
	for i, e := range events {
		if e.module == module {
			switch {
			case e.what == "uninstall" && e.ok && !slices.ContainsFunc(events[e.began:i], forgets):
				uninstalled = i
			case e.what == "afterDeleteHelm" && e.ok:
				has, after = true, i
			case e.what == "onStartup", e.what == "install":
				uninstalled = -1
			}
		}
		if forgets(e) {
			uninstalled = -1
		}
	}
	if has && uninstalled > after {
		return []string{"afterDeleteHelm of " + module + " did not run after its release was removed"}
	}
	return nil
}
