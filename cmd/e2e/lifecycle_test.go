package e2e

import (
	"os"
	"testing"
)

const (
	startedJournal = "onStartup beforeHelm afterHelm"
	deletedJournal = "beforeDeleteHelm afterDeleteHelm"
)

// Switched off, a module loses its release before its afterDeleteHelm hooks run; switched
// on again, it starts from the beginning. E11, E13, G6, H12.
func TestModuleIsDisabledAndEnabled(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start().ready()
	h.awaitJournal(startedJournal)
	h.awaitRevisions("web", "1:deployed")

	h.setConfig(map[string]string{"webEnabled": "false"})
	h.awaitRevisions("web", "")
	h.awaitJournal(startedJournal + " " + deletedJournal)
	if cm := h.configMap("web"); cm != nil {
		t.Errorf("the object of the chart is still there: %v", cm)
	}
	o.expect("module is deleted", "module=web")

	h.setConfig(map[string]string{"webEnabled": "true"})
	h.awaitRevisions("web", "1:deployed")
	h.awaitJournal(startedJournal + " " + deletedJournal + " " + startedJournal)
}

// A module whose directory is gone is purged at the next reload, without its hooks. E10,
// G7, X31.
func TestRemovedDirectoryIsPurgedWithoutHooks(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start("ADDON_OPERATOR_ALLOW_PURGE=yes").ready()
	h.awaitRevisions("web", "1:deployed")

	h.remove("modules/010-web")
	h.setConfig(map[string]string{"global": "any: change"})
	o.expect("modules discovered", "purge=[web]", "removed=[web]")
	o.expect("release without a module directory is purged", "release=web")
	o.expect("converged", "modules=0")
	h.awaitRevisions("web", "")
	h.awaitJournal(startedJournal)
}

// At the start, releases without a directory are purged, except the one of the operator
// itself. E10, B6.
func TestUnknownReleasesArePurgedAtTheStart(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/values.yaml", "webEnabled: true\nselfEnabled: true\n")
	h.write("modules/020-self/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: self}\n")
	h.start().ready().terminate()
	h.remove("modules/010-web")
	h.remove("modules/020-self")

	h.start("HELM_IGNORE_RELEASE=self", "ADDON_OPERATOR_ALLOW_PURGE=yes").ready()
	h.awaitRevisions("web", "")
	h.awaitRevisions("self", "1:deployed")
	h.awaitJournal(startedJournal)
}

// A module that was switched off while the operator was away is deleted with its hooks;
// the start after that finds nothing to do. E9.
func TestModuleDisabledWhileTheOperatorWasAway(t *testing.T) {
	h := newFixture(t, "web")
	h.start().ready().terminate()
	h.setConfig(map[string]string{"webEnabled": "false"})

	o := h.start().ready()
	h.awaitRevisions("web", "")
	h.awaitJournal(startedJournal + " " + deletedJournal)
	o.terminate()
	h.start().ready().terminate()
	h.awaitJournal(startedJournal + " " + deletedJournal)
}

// Helm is asked for nothing when nothing changed: neither by a restart nor by values that
// no template uses. H5, H6.
func TestNoRevisionWithoutAChange(t *testing.T) {
	h := newFixture(t, "web")
	h.start().ready().terminate()
	h.start().ready()
	h.awaitJournal(startedJournal + " " + startedJournal)
	if got := h.revisions("web"); got != "1:deployed" {
		t.Errorf("after an unchanged restart the release has %s", got)
	}

	h.setConfig(map[string]string{"web": "unused: 2"})
	h.awaitJournal(startedJournal + " " + startedJournal + " beforeHelm afterHelm")
	if got := h.revisions("web"); got != "1:deployed" {
		t.Errorf("after a change that no template uses the release has %s", got)
	}

	h.setConfig(map[string]string{"web": "size: big"})
	h.awaitRevisions("web", "1:superseded 2:deployed")
	h.awaitConfigMap("web", "size", "big")

	h.setConfig(map[string]string{"web": ""}) // the section returns to the static values (D15)
	h.awaitConfigMap("web", "size", "small")
}

// A module that comes back, or whose directory gets another number, is the module that
// lies there now: its values, and its hooks by their new paths. E10, E13.
func TestModuleDirectoryComesBackAndIsRenamed(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start("ADDON_OPERATOR_ALLOW_PURGE=yes").ready()
	o.expect("converged", "modules=1")
	h.rename("modules/010-web", "kept")
	h.setConfig(map[string]string{"global": "reload: 1"})
	o.expect("converged", "modules=0")

	h.rename("kept", "modules/010-web")
	h.write("modules/010-web/values.yaml", "web: {size: huge}\n")
	h.setConfig(map[string]string{"global": "reload: 2"})
	o.expect("converged", "modules=1")
	h.awaitConfigMap("web", "size", "huge")
	h.awaitJournal(startedJournal + " " + startedJournal)

	h.rename("modules/010-web", "modules/020-web")
	h.write("modules/020-web/values.yaml", "web: {size: tiny}\n")
	h.setConfig(map[string]string{"global": "reload: 3", "web": "unused: 5"})
	o.expect("converged", "modules=1")
	h.awaitConfigMap("web", "size", "tiny")
	h.awaitJournal(startedJournal + " " + startedJournal + " " + startedJournal)
	h.awaitRevisions("web", "1:superseded 2:deployed")
}

func (h *fixture) rename(from, to string) {
	h.t.Helper()
	if err := os.Rename(h.path(from), h.path(to)); err != nil {
		h.t.Fatal(err)
	}
}
