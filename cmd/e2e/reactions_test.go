package e2e

import (
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
