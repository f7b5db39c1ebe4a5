package e2e

import (
	"os"
	"testing"
)

const startedJournal = "onStartup beforeHelm afterHelm"

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

func (h *fixture) rename(from, to string) {
	h.t.Helper()
	must(h.t, os.Rename(h.path(from), h.path(to)))
}
