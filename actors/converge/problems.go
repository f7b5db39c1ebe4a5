package converge

import (
	"maps"
	"slices"
	"strings"

	"addon-operator/kube"
	"addon-operator/messages"
)

// What is on disk may be wrong in ways with which an operator starts all the same (J12): a second
// module of one name, a script without its x bit, a default that cannot be valid. converge, which
// knows the files, shows it with the module.

// shownProblems is how many problems of a module are shown; a schema may have a hundred.
const shownProblems = 10

// listProblems works out what is shown of the modules, and shows what is new as an Event, too. The map is not changed
// afterwards.
func (c *catalog) listProblems() {
	all := map[string][]string{}
	add := func(owner string, problems []string) {
		if len(problems) > 0 {
			all[owner] = shortened(problems, shownProblems)
		}
	}
	add(messages.GlobalHooks, c.globalProblems)
	for _, m := range c.Tree.Modules {
		add(m.Name, slices.Concat(m.Problems(), c.unused[m.Name]))
	}
	for _, owner := range slices.Sorted(maps.Keys(all)) {
		// An Event is for what has begun. What is over needs none, and the list shows what lasts.
		news := slices.DeleteFunc(slices.Clone(all[owner]), func(p string) bool { return slices.Contains(c.problems[owner], p) })
		if len(news) == 0 {
			continue
		}
		about := "global hooks"
		if owner != messages.GlobalHooks {
			about = "module " + owner
		}
		c.program.Notify(kube.Notice{Warning: true, Reason: "ModuleProblem", Message: about + ": " + strings.Join(news, "; ")})
	}
	c.problems = all
	c.program.Changed.Note("")
}
