package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"addon-operator/testkit/devclustertest"
)

// Parallel tests begin with the first one, and go on with the last, in the order of the names of their files. Those of
// the files z_* take long, and so begin early.

// Charts of others live as modules as they do with Helm, in one operator: each is installed, and its manifest
// is that of Helm; a restart makes no revision; an edit makes one; a deleted object comes back; a module that is
// switched off leaves what Helm leaves, and can be switched on again. The charts of testdata/charts and of
// helm/testdata/foreign are ours, and have the constructs that public charts use.
func TestForeignCharts(t *testing.T) {
	devclustertest.OnlyInFull(t)
	t.Parallel()
	dir := os.Getenv(chartsVariable)
	var all []*foreignChart
	if dir != "" {
		all = foreignCharts(t, dir)
	} else {
		all = ownCharts(t)
	}
	inOrder(all)
	t.Run("groups", func(t *testing.T) {
		groups := withoutConflicts(all)
		for i, group := range groups {
			t.Run(strconv.Itoa(i+1), func(t *testing.T) {
				if len(groups) > 1 { // one would only wait for its turn again, after all other tests
					t.Parallel()
				}
				playCharts(t, group)
			})
		}
	})
	for _, c := range all {
		t.Log(c.name, c.version, "edited:", c.edited, "notes:", strings.Join(c.notes, "; "))
		for _, problem := range c.problems {
			t.Errorf("%s %s: %s", c.name, c.version, problem)
		}
		if c.refused != "" && dir == "" {
			t.Errorf("%s: Helm refuses it: %s", c.name, c.refused)
		}
		if c.edit == nil && c.refused == "" && dir == "" {
			t.Errorf("%s: no value to edit was found", c.name)
		}
	}
	if dir != "" {
		writeTable(t, all)
	}
}
