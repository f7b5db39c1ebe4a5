package actors

import (
	"testing"

	"addon-operator/addons"
	"addon-operator/messages"
	"addon-operator/values"
)

// C23: hooks of a module that was moved to another root have that as their WORKING_DIR.
func TestWorkingDirOfAMovedModule(t *testing.T) {
	m := addons.Module{Name: "a", Key: "a", Dir: "/one/a", Root: "/one"}
	section, err := values.NewSection("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	owner := newModule(testProgram(nil), m, section)
	m.Dir, m.Root = "/two/a", "/two"
	owner.update(nil, updateModule{Module: m, Section: section, Again: true})
	if got := owner.job(messages.Task{}).WorkingDir; got != "/two" {
		t.Errorf("WORKING_DIR is %s", got)
	}
}
