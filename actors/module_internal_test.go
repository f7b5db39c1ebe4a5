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
	owner.module.Dir, owner.module.Root = "/two/a", "/two"
	if got := owner.moduleJob(messages.Task{}).WorkingDir; got != "/two" {
		t.Errorf("WORKING_DIR is %s", got)
	}
}
