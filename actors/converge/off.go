package converge

import (
	"fmt"
	"slices"

	"addon-operator/actors/decide"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// shownOff is how many modules that are off a line of the log names. Pages and commands show all.
const shownOff = 30

// listOff says in the order of modules which are off by a discovery, and why, for its line of the
// log (E16). It goes by the verdicts of the discovery; explainOff goes by the flags of now.
func (c *catalog) listOff(d work.Discovery) []string {
	var off []string
	for _, m := range d.Tree.Modules {
		if !slices.Contains(d.Enabled, m.Name) {
			off = append(off, m.Name+": "+c.why(d.Verdicts[m.Name], m))
		}
	}
	return shortened(off, shownOff)
}

// shortened is a list, or its beginning and how many more there are.
func shortened(list []string, most int) []string {
	if more := len(list) - most; more > 0 {
		return append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", more))
	}
	return list
}

// why says which rule has enabled or disabled a module, and which hook (E16). decide does not know
// hooks: converge receives their names with the flags.
func (c *catalog) why(v decide.Verdict, m addons.Module) string {
	if v.Source == decide.ByHookFlag {
		v.Reason = c.dynamicBy[values.FlagKey(m.Key)]
	}
	return v.Why(m)
}

// explainOff works out why modules are off: by the flags as they are now, and by what the last
// discovery has found. The map is not changed afterwards.
func (c *catalog) explainOff() {
	off, on := map[string]string{}, map[string]string{}
	for _, m := range c.Tree.Modules {
		flags, known := decide.SwitchedOn(m, c.dynamic, c.config), c.Verdicts[m.Name]
		switch { // what a person must change first comes first: without a flag no script is asked
		case !flags.Enabled:
			if off[m.Name] = c.why(flags, m); flags.Source == decide.ByDefault {
				off[m.Name] += fmt.Sprintf("; 'addon-operator values set %s true' enables it", values.FlagKey(m.Key))
			}
		case slices.Contains(c.Enabled, m.Name) && !c.saysNo(m):
			on[m.Name] = c.why(c.Verdicts[m.Name], m)
		case c.discoveryFails != "":
			off[m.Name] = c.discoveryFails
		case c.saysNo(m):
			off[m.Name] = c.why(known, m)
		default:
			off[m.Name] = view.Undecided(flags.Source)
		}
	}
	for name := range c.removed {
		off[name] = "its directory is gone"
	}
	c.off, c.on = off, on
	c.program.Changed.Note("")
}

// discoveryFailed remembers why no module can be enabled for now. Those that are enabled stay so.
func (c *catalog) discoveryFailed(err error) {
	c.program.Metrics.Converge.DiscoveryFailed.Inc()
	c.discoveryFails = view.DiscoveryFails(err)
	c.explainOff()
}
