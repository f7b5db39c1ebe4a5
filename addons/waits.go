package addons

import (
	"path/filepath"

	"addon-operator/values"
)

// resolveWaits sets the modules that each module waits for (H26). One that does not run before it
// is not waited for: with policy block it would never become ready.
func (t *Tree) resolveWaits() {
	names := make([]string, 0, len(t.Modules))
	for _, m := range t.Modules {
		names = append(names, m.Name)
	}
	for i := range t.Modules {
		m := &t.Modules[i]
		m.Awaits, m.vain = nil, nil
		file := m.Shown(filepath.Join(m.Dir, moduleFile))
		for _, name := range m.File.WaitFor {
			switch other := t.Module(name); {
			case other == nil:
				fix := values.DidYouMean(name, names, "correct the name, or remove it")
				t.problem(&m.vain, "%s: waitFor names %s, but no such module is loaded, so it is not waited for; %s", file, name, fix)
			case other.Order >= m.Order:
				t.problem(&m.vain, "%s: waitFor names %s, which does not run before %s, so it is not waited for; give its directory a number below %d",
					file, name, m.Name, m.Order)
			default:
				m.Awaits = append(m.Awaits, name)
			}
		}
	}
}
