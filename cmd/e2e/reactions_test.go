package e2e

import (
	"fmt"
	"testing"
)

// Steps 9 to 16 of seed 002 with real scripts: what comes from outside after the first
// converge, what hooks it runs, and whether that leads to a reload of all modules, a run of
// one module, or nothing. G9–G16, D27.
func TestReactionsToEvents(t *testing.T) {
	h := newFixture(t, "reactions")
	h.start().ready()
	const reload, run = " g.beforeAll w.beforeHelm w.afterHelm g.afterAll", " w.beforeHelm w.afterHelm"
	journal := "g.beforeAll w.onStartup w.beforeHelm w.afterHelm g.afterAll"
	// then is what follows an event: further lines of the journal, and what is deployed.
	then := func(lines, global, web string) {
		t.Helper()
		journal += lines
		h.awaitJournal(journal)
		h.awaitConfigMap("web", "global", global)
		h.awaitConfigMap("web", "web", web)
	}
	then("", "none none none", "none none none")

	object := h.createConfigMap("g", "one", map[string]string{"app": "global"})
	then(" g.watchedAdded"+reload, "one none none", "none none none") // 9, 13
	object.Data["other"] = "no matter"
	h.updateConfigMap(object)
	then(" g.watchedModified", "one none none", "none none none") // 9, the same values: nothing

	h.createConfigMap("w", "two", map[string]string{"app": "web"})
	then(" w.watchedAdded"+run, "one none none", "two none none") // 10, 14

	h.write("out/tick-g", "three")
	then(" g.tick"+reload, "one three none", "two none none") // 11, 13
	h.write("out/tick-w", "four")
	then(" w.tick"+run, "one three none", "two four none") // 12, 14

	h.deleteConfigMap("web")
	then(run, "one three none", "two four none") // 15

	h.setConfig(map[string]string{"web": "set: five"})
	then(run, "one three none", "two four five") // 16: a module's section
	h.setConfig(map[string]string{"global": "set: six"})
	then(reload, "one three six", "two four five") // 16: the global section
	h.setConfig(map[string]string{"web": "set: seven", "global": "set: eight"})
	then(reload, "one three eight", "two four seven") // 16: both are one reload
	h.awaitRevisions("web", "1:superseded 2:superseded 3:superseded 4:superseded 5:superseded 6:superseded 7:superseded 8:superseded 9:deployed")
}

// A global hook changes a value more often than a reload takes: reloads are finished all the
// same, and the log says which hook and value it is. F10.
func TestValueThatChangesAllTheTime(t *testing.T) {
	h := newFixture(t, "web")
	h.write("global-hooks/tick.sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "schedule": [{"crontab": "* * * * * *", "queue": "side"}]}'; exit; fi
[[ -e $OUT/quiet ]] || echo '{"op": "add", "path": "/global/tick", "value": "'$(date +%s%N)'"}' > "$VALUES_JSON_PATCH_PATH"
`)
	for _, module := range []string{"020-slow", "030-last"} {
		h.write("modules/"+module+"/hooks/slow.sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "beforeHelm": 1}'; exit; fi
sleep 1
`)
	}
	h.setConfig(map[string]string{"slowEnabled": "true", "lastEnabled": "true"})
	o := h.start().ready()
	o.expect("WARN", "the one in progress ends before the next one starts", "tick.sh changed global.tick")
	o.expect("converged", "tick.sh changed global.tick")
	h.eventually("the Event", func() error { return h.hasEvent("ReloadPostponed", "Warning") })
	h.write("out/quiet", "")
	h.eventually("the end of all reloads", func() error {
		if got := o.metric("addon_operator_converged"); got != "1" {
			return fmt.Errorf("converged is %q", got)
		}
		return nil
	})
	if o.metric("addon_operator_reload_restarts_total") == "" || o.metric("addon_operator_reloads_postponed_total") == "" {
		t.Error("restarts are not counted")
	}
}

// An object that somebody deletes again and again is healed at growing intervals, and the
// module list says so. H13.
func TestObjectThatIsDeletedAgainAndAgain(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/030-plain/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {a: b}\n")
	h.setConfig(map[string]string{"plainEnabled": "true"})
	o := h.start().ready()
	for range 4 {
		h.awaitConfigMap("plain", "a", "b")
		h.deleteConfigMap("plain")
	}
	expectAll(t, o.expect("something else undoes each heal of a release", "module=plain"), "plain 4 times", "next=5s")
	h.eventually("the Event", func() error { return h.hasEvent("HealFight", "Warning") })
	o.ask("module list", "something else has deleted ConfigMap")
	h.awaitConfigMap("plain", "a", "b")
}
