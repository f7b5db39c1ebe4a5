package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/values"
)

// Steps are what a reload does, in this order (E7, E8).
type Steps struct {
	Run    []string // enabled modules, in their order
	Delete []string // disabled modules, in reverse order
	Purge  []string // releases without a module directory, sorted in reverse
	// Keep are those that would be deleted or purged, but are under maintenance (H15).
	Keep []string
	// Held are releases that would be purged, or deleted for want of a flag, which was not allowed (P1);
	// HeldWhy says why. Confirmed are those that a person has allowed now.
	Held      []string
	HeldWhy   string
	Confirmed []string
}

// Reload is what a discovery knows when the steps of its reload are decided.
type Reload struct {
	Tree    *addons.Tree
	Enabled []string
	// Deployed are the modules and releases that have left something in the cluster, in this process
	// or an earlier one (E9). Ignored is the one that is never purged (E10, B6).
	Deployed map[string]bool
	Ignored  string
	// Verdicts are those of the discovery. Ran are the modules that were enabled in this process.
	Verdicts map[string]Verdict
	Ran      map[string]bool
	// Maintenance are the modes in the ConfigMap (H15).
	Maintenance map[string]string
	Purges      Purges
	// AllowPurge allows all purges; without it one reload may purge only purgeShare percent of the
	// releases (P1), those that are forgotten included. A single one it may purge always.
	AllowPurge bool
}

// Steps decides what to do with each module and release.
func (r Reload) Steps() Steps { return r.holdBack(r.modules()) }

// lost says what shows that files were lost, and not removed on purpose; "" for nothing.
func (r Reload) lost(s Steps) string {
	if len(r.Tree.Empty) > 0 {
		return "there is no module in " + strings.Join(r.Tree.Empty, ", ")
	}
	for _, module := range s.Delete {
		if empty := addons.EmptyValues(r.Tree, module); len(empty) > 0 && r.forgotten(module) {
			return "its flag may have been in " + empty[0] + ", which is empty"
		}
	}
	return ""
}

// forgotten reports whether a module is off only because no flag names it any more, and an earlier process has left
// its release: the file with the flags may have been lost meanwhile. In the life of a process a flag that is removed
// is an edit.
func (r Reload) forgotten(module string) bool {
	return r.Verdicts[module].Source == ByDefault && !r.Ran[module]
}

func (r Reload) modules() Steps {
	var s Steps
	for _, m := range r.Tree.Modules {
		switch {
		case slices.Contains(r.Enabled, m.Name):
			s.Run = append(s.Run, m.Name)
		case r.Deployed[m.Name] && Maintained(m, r.Maintenance) != "":
			s.Keep = append(s.Keep, m.Name)
		case r.Deployed[m.Name]:
			s.Delete = append(s.Delete, m.Name)
		}
	}
	slices.Reverse(s.Delete)
	for name := range r.Deployed {
		switch {
		case r.HasDirectory(name) || name == r.Ignored:
		case r.Untouchable(name):
			s.Keep = append(s.Keep, name)
		default:
			s.Purge = append(s.Purge, name)
		}
	}
	slices.Sort(s.Keep)
	slices.Sort(s.Purge)
	slices.Reverse(s.Purge)
	return s
}

// HasDirectory reports whether a release has a module directory: also one that does not load (P8), or a link that may
// soon lead somewhere again.
func (r Reload) HasDirectory(release string) bool {
	return r.Tree.Module(release) != nil || slices.Contains(r.Tree.Unreachable, release) ||
		slices.ContainsFunc(r.Tree.Broken, func(m addons.Module) bool { return m.Name == release })
}

// MayPurge reports whether a purge that was queued, maybe days ago, is still due. It is not when the directory is
// back, also if it does not load, when maintenance has begun, or when a later reload holds the purge (P1).
func (r Reload) MayPurge(release string) bool {
	return !r.HasDirectory(release) && !slices.Contains(r.Purges.Held, release) && !r.Untouchable(release)
}

// MayDeleteData reports whether a purge of a release may delete objects that hold data: a person has
// allowed it, by the option or by a confirmation (P1).
func (r Reload) MayDeleteData(release string) bool { return r.AllowPurge || r.Purges.Allowed[release] }

// Orphaned reports whether a release has no module any more, so that a module may take over the
// objects that both have, as after a rename. It is unknown while a modules root is empty (P1), and a
// release under maintenance is left alone.
func (r Reload) Orphaned(release string) bool {
	return r.Deployed[release] && release != r.Ignored && len(r.Tree.Empty) == 0 && !r.HasDirectory(release) &&
		!r.Untouchable(release)
}

// Groups are the modules that may run at the same time: those of the same order, when the width
// allows more than one (F15, X24).
func (s Steps) Groups(modules []addons.Module, width int) [][]string {
	order := make(map[string]int, len(modules))
	for _, m := range modules {
		order[m.Name] = m.Order
	}
	var groups [][]string
	for i, name := range s.Run {
		if width > 1 && i > 0 && order[name] == order[s.Run[i-1]] {
			last := len(groups) - 1
			groups[last] = append(groups[last], name)
			continue
		}
		groups = append(groups, []string{name})
	}
	return groups
}

// Maintained is the mode of maintenance of a module: what the ConfigMap says wins over
// values.yaml files, also when it says none (H15).
func Maintained(m addons.Module, config map[string]string) string {
	if mode, ok := config[values.MaintenanceKey(m.Key)]; ok {
		return mode
	}
	return m.Maintenance
}

// WithSuspended adds the modules that are suspended to the modes in the ConfigMap (H27).
func WithSuspended(config map[string]string, suspended map[string]bool) map[string]string {
	modes := make(map[string]string, len(config)+len(suspended))
	maps.Copy(modes, config)
	for name := range suspended {
		if key, err := values.Key(name); err == nil {
			modes[values.MaintenanceKey(key)] = values.Suspended
		}
	}
	return modes
}

// Untouchable reports whether a release is under maintenance. One without a module directory
// has only the ConfigMap to speak for it.
func (r Reload) Untouchable(release string) bool {
	if m := r.Tree.Module(release); m != nil {
		return Maintained(*m, r.Maintenance) != ""
	}
	key, err := values.Key(release)
	return err == nil && r.Maintenance[values.MaintenanceKey(key)] != ""
}

// MaintenanceEnds compares the modes that were in the ConfigMap before with those of r. run are the
// modules that must run because they are no longer under maintenance; reload is due when a release is
// concerned that no enabled module has: it may have to be deleted, or not.
func (r Reload) MaintenanceEnds(before map[string]string) (run []string, reload bool) {
	for _, name := range slices.Sorted(maps.Keys(r.Deployed)) {
		was := Reload{Tree: r.Tree, Maintenance: before}.Untouchable(name)
		switch {
		case was == r.Untouchable(name):
		case !slices.Contains(r.Enabled, name):
			reload = true
		case was:
			run = append(run, name)
		}
	}
	return run, reload
}

// Verdict says whether a module is enabled, and who decided.
type Verdict struct {
	Enabled bool
	// Source is one of the constants below, or the path of a values.yaml, in which the flag is.
	Source string
	// Reason is what an enabled script says in MODULE_ENABLED_REASON, "" for nothing; of a flag that a global hook has
	// set, which hook.
	Reason string
}

// Sources of verdicts other than files.
const (
	ByDefault   = "default"
	ByHookFlag  = "global hook"
	byConfigMap = "the ConfigMap"
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

// purgeShare is the share of the releases, in percent, that one reload may purge: more at once looks like a directory
// that was not mounted, or the wrong image. A person allows it, so it is no option (P1).
const purgeShare = 25

// Purges is what converge knows of purges that are held back.
type Purges struct {
	// Held are the releases of the last reload that stay, sorted.
	Held []string
	// Allowed are releases that a person has allowed to purge, and that are not purged yet.
	Allowed map[string]bool
	// Confirmed is the confirmation that the next reload looks at.
	Confirmed string
}

// holdBack takes out of the steps the purges, and the deletes of forgotten modules, that a person must
// allow: more of the releases than the share, or any when files were lost. If the confirmation is for these
// very releases, they stay among the steps.
//
// What was held back stays held back when only the reason is gone: while a volume comes back
// directory by directory, the last ones must not go.
func (r Reload) holdBack(s Steps) Steps {
	pending := slices.Clone(s.Purge)
	for _, module := range s.Delete {
		if r.forgotten(module) {
			pending = append(pending, module)
		}
	}
	pending = slices.DeleteFunc(pending, r.MayDeleteData)
	slices.Sort(pending)
	why, n, releases := "", len(pending), len(r.Deployed)
	if r.Deployed[r.Ignored] {
		releases--
	}
	switch lost := r.lost(s); { // it looks like a mistake
	case n == 0:
	case lost != "":
		why = lost
	case n > 1 && n*100 > purgeShare*releases:
		why = fmt.Sprintf("they are %d of %d releases, and one reload may purge at most %d%%", n, releases, purgeShare)
	case slices.ContainsFunc(pending, func(name string) bool { return slices.Contains(r.Purges.Held, name) }):
		why = "not all of them are back since it was held back"
	}
	if why == "" {
		return s
	}
	if r.Purges.Confirmed == Confirmation(pending) {
		s.Confirmed = pending
		return s
	}
	held := func(name string) bool { return slices.Contains(pending, name) }
	s.Purge, s.Delete = slices.DeleteFunc(slices.Clone(s.Purge), held), slices.DeleteFunc(slices.Clone(s.Delete), held)
	s.Held, s.HeldWhy = pending, why
	return s
}

// Confirmation is the text that allows to purge exactly these releases, which are sorted.
func Confirmation(releases []string) string {
	const digits = 12
	sum := sha256.Sum256([]byte(strings.Join(releases, "\n")))
	return hex.EncodeToString(sum[:])[:digits]
}
