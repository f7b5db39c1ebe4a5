package decide

import (
	"fmt"
	"maps"
	"strings"

	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/values"
)

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
	ByDefault   = "default"
	ByHookFlag  = "global hook"
	byConfigMap = "ConfigMap"
	ByScript    = "enabled script"
)

// Why says for people which rule has enabled or disabled a module (E16).
func (v Verdict) Why(m addons.Module) string {
	flag := values.FlagKey(m.Key)
	switch v.Source {
	case ByDefault:
		return "no flag anywhere (" + flag + ")"
	case ByHookFlag:
		return strings.TrimSpace(fmt.Sprintf("%s is %t by global hook %s", flag, v.Enabled, v.Reason))
	case byConfigMap:
		return fmt.Sprintf("%s is %t in the ConfigMap", flag, v.Enabled)
	case ByScript:
		return strings.TrimSuffix(fmt.Sprintf("its enabled script returned %t: %s", v.Enabled, v.Reason), ": ")
	}
	return fmt.Sprintf("%s is %t in %s", flag, v.Enabled, v.Source)
}

// SwitchedOn follows the chain of flags; what comes later wins when it is there (E3):
// off, values.yaml of the roots, values.yaml of the module, in-memory flags of global
// hooks, the ConfigMap. A person's choice in the ConfigMap beats a hook's (X5). The
// enabled script, which can only switch off, comes after it.
func SwitchedOn(m addons.Module, dynamic, config map[string]bool) Verdict {
	v := Verdict{Source: ByDefault}
	for _, f := range m.Flags {
		v = Verdict{Enabled: f.Value, Source: f.Source}
	}
	key := values.FlagKey(m.Key)
	if value, ok := dynamic[key]; ok {
		v = Verdict{Enabled: value, Source: ByHookFlag}
	}
	if value, ok := config[key]; ok {
		v = Verdict{Enabled: value, Source: byConfigMap}
	}
	return v
}

// Enabled asks flags and enabled scripts, in the order of the modules: a script sees the
// modules that were enabled before it (D9, E6). The first script that fails ends it: what it would
// have said is unknown, so the lists of all modules after it are, too.
func Enabled(modules []addons.Module, dynamic, config map[string]bool, script func(m addons.Module, before []string) (hooks.Answer, error)) (enabled []string, verdicts map[string]Verdict, _ error) {
	verdicts = make(map[string]Verdict, len(modules))
	for _, m := range modules {
		v := SwitchedOn(m, dynamic, config)
		if v.Enabled && m.EnabledScript != "" {
			answer, err := script(m, enabled)
			if err != nil {
				return enabled, verdicts, err
			}
			v = Verdict{answer.Enabled, ByScript, answer.Reason}
		}
		verdicts[m.Name] = v
		if v.Enabled {
			enabled = append(enabled, m.Name)
		}
	}
	return enabled, verdicts, nil
}

// Answers are what the enabled scripts that were asked have said, by module.
func Answers(verdicts map[string]Verdict) map[string]bool {
	answers := map[string]bool{}
	for name, v := range verdicts {
		if v.Source == ByScript {
			answers[name] = v.Enabled
		}
	}
	return answers
}

// Script is how the enabled script of a module is asked: with its values, and the modules that are
// enabled before it (E6).
func Script(m addons.Module, global, own *values.Section, before []string) hooks.EnabledScript {
	return hooks.EnabledScript{
		Module: m.Name, Path: m.EnabledScript,
		Values:       map[string]any{values.GlobalKey: WithEnabledModules(global.Merged(), before), m.Key: own.Merged()},
		ConfigValues: map[string]any{values.GlobalKey: global.Config(), m.Key: own.Config()},
	}
}

// WithEnabledModules returns a copy of the global section that has the list (D9).
func WithEnabledModules(section any, names []string) any {
	old, _ := section.(map[string]any)
	out := make(map[string]any, len(old)+1)
	maps.Copy(out, old)
	list := make([]any, 0, len(names))
	for _, name := range names {
		list = append(list, name)
	}
	out["enabledModules"] = list
	return out
}
