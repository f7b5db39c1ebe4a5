package actors

import (
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/values"
)

// Plan is what a discovery leads to, in the order it is done (E7, E8).
type Plan struct {
	Run    []string `json:"run"`    // enabled modules, in their order
	Delete []string `json:"delete"` // disabled modules, in reverse order
	Purge  []string `json:"purge"`  // releases without a module directory, sorted in reverse
	// Keep are those that would be deleted or purged, but are under maintenance (H15).
	Keep []string `json:"keep,omitempty"`
	// Held are releases that would be purged, which was not allowed (P1); HeldWhy says why.
	Held    []string `json:"held,omitempty"`
	HeldWhy string   `json:"heldWhy,omitempty"`
}

// plan decides what to do with each module. all are the modules on disk in their order;
// deployed are the modules and releases that have left something in the cluster, in this
// process or an earlier one (E9); ignored is never purged (E10, B6); of untouchable ones
// nothing is deleted (H15).
func plan(all []addons.Module, enabled []string, deployed map[string]bool, ignored string, untouchable func(string) bool) Plan {
	var p Plan
	known := make(map[string]bool, len(all))
	for _, m := range all {
		known[m.Name] = true
		switch {
		case slices.Contains(enabled, m.Name):
			p.Run = append(p.Run, m.Name)
		case deployed[m.Name] && untouchable(m.Name):
			p.Keep = append(p.Keep, m.Name)
		case deployed[m.Name]:
			p.Delete = append(p.Delete, m.Name)
		}
	}
	slices.Reverse(p.Delete)
	for name := range deployed {
		switch {
		case known[name] || name == ignored:
		case untouchable(name):
			p.Keep = append(p.Keep, name)
		default:
			p.Purge = append(p.Purge, name)
		}
	}
	slices.Sort(p.Keep)
	slices.Sort(p.Purge)
	slices.Reverse(p.Purge)
	return p
}

// Verdict says whether a module is enabled, and who decided.
type Verdict struct {
	Enabled bool
	// Source is one of the constants below, or the path of a values.yaml.
	Source string
	// Reason is what an enabled script says in MODULE_ENABLED_REASON, "" for nothing; of a flag that a global hook has
	// set, which hook.
	Reason string
}

// Sources of verdicts other than files.
const (
	byDefault   = "default"
	byHookFlag  = "global hook"
	byConfigMap = "ConfigMap"
	byScript    = "enabled script"
)

// whyOff says for people which rule has disabled a module.
func (v Verdict) whyOff(m addons.Module) string {
	flag := values.FlagKey(m.Key)
	switch v.Source {
	case byDefault:
		return "no flag anywhere (" + flag + ")"
	case byHookFlag:
		return strings.TrimSpace(flag + " is false by global hook " + v.Reason)
	case byConfigMap:
		return flag + " is false in the ConfigMap"
	case byScript:
		if v.Reason == "" {
			return "its enabled script says false"
		}
		return "its enabled script says false: " + v.Reason
	}
	return flag + " is false in " + v.Source
}

// switchedOn follows the chain of flags; what comes later wins when it is there (E3):
// off, values.yaml of the roots, values.yaml of the module, in-memory flags of global
// hooks, the ConfigMap. A person's choice in the ConfigMap beats a hook's (X5). The
// enabled script, which can only switch off, comes after it.
func switchedOn(m addons.Module, dynamic, config map[string]bool) Verdict {
	v := Verdict{Source: byDefault}
	for _, f := range m.Flags {
		v = Verdict{Enabled: f.Value, Source: f.Source}
	}
	key := values.FlagKey(m.Key)
	if value, ok := dynamic[key]; ok {
		v = Verdict{Enabled: value, Source: byHookFlag}
	}
	if value, ok := config[key]; ok {
		v = Verdict{Enabled: value, Source: byConfigMap}
	}
	return v
}
