package e2e

import (
	"os"
)

const startedJournal = "onStartup beforeHelm afterHelm"

func (h *fixture) rename(from, to string) {
	h.t.Helper()
	must(h.t, os.Rename(h.path(from), h.path(to)))
}
