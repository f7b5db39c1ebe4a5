package plan

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/values"
)

// Unread says which values of a module have no effect (H23): those that a person has set, in the
// module's section or, for a subchart, in values.yaml of the chart, and that neither a template
// reads nor, as far as that is certain, a hook or an enabled script. Without a cache none are
// reported. In doubt it says nothing: whatever cannot be read here fails elsewhere, with an error
// that names it, and a wrong warning would make people remove a value that is used.
func Unread(cache *charts.Cache, m addons.Module, global, own *values.Section) (texts []string) {
	if cache == nil || !charts.Exists(m.Dir) || global == nil || own == nil {
		return nil
	}
	loaded, err := cache.Load(decide.ChartModule(m))
	if err != nil {
		return nil // whoever runs it says so
	}
	// Defaults of schemas and values that hooks set are left out of set: no person wrote them.
	// merged has them, because they decide which subcharts are enabled.
	var set any
	for _, layer := range m.Static {
		set = values.Merge(set, layer.Value)
	}
	set = values.Merge(set, own.Config())
	merged := map[string]any{values.GlobalKey: global.Merged(), m.Key: own.Merged()}
	unread := loaded.Unread(set, merged)
	if len(unread) > 0 {
		unread = withoutRead(unread, m, set)
	}
	return said(unread, "no template of the chart reads it")
}

// UnreadGlobal says which values of global, as a person has set them, have no effect: that no chart of a tree reads nor, as far
// as that is certain, a hook or an enabled script (H23). section returns the values of a module.
func UnreadGlobal(cache *charts.Cache, tree *addons.Tree, global *values.Section, section func(m addons.Module) *values.Section) []string {
	if cache == nil || global == nil {
		return nil
	}
	var set any
	for _, layer := range tree.Global.Static {
		set = values.Merge(set, layer.Value)
	}
	set = values.Merge(set, global.Config())
	if fields, _ := set.(map[string]any); len(fields) == 0 || len(tree.Broken) > 0 {
		return nil
	}
	all := map[string]any{values.GlobalKey: global.Merged()}
	// All charts and all programs see global, so one that cannot be read leaves everything unknown.
	var loaded []*charts.Chart
	var programs []hooks.Reads
	if found, _, err := hooks.Find(tree.Global.HooksDir, "", hooks.Global); err != nil {
		return nil
	} else if len(found) > 0 {
		programs = append(programs, hooks.ReadsOf(tree.Global.Dir, isWords))
	}
	for _, m := range tree.Modules {
		if own := section(m); own != nil {
			all[m.Key] = own.Merged()
		}
		if charts.Exists(m.Dir) {
			c, err := cache.Load(decide.ChartModule(m))
			if err != nil {
				return nil
			}
			loaded = append(loaded, c)
		}
		has, err := hasPrograms(m)
		if err != nil {
			return nil
		}
		if has {
			programs = append(programs, hooks.ReadsOf(m.Dir, isNoProgram))
		}
	}
	unread := slices.DeleteFunc(charts.UnreadGlobal(loaded, set, all), func(u charts.Unread) bool {
		return slices.ContainsFunc(programs, func(r hooks.Reads) bool { return r.May(u.At) })
	})
	return said(unread, "no chart of a module reads it")
}

// maxUnread bounds what is said of one chart: a section that was written for another chart may have
// hundreds of such values.
const maxUnread = 20

// said are the sentences for people. A hint of the chart, for example that the value is in the
// wrong place, says more than a similar name.
func said(unread []charts.Unread, why string) (texts []string) {
	for _, u := range unread[:min(len(unread), maxUnread)] {
		text := "the value " + u.Path + " has no effect: "
		switch meant := values.Nearest(u.Key, u.Known); {
		case u.Hint != "":
			text += u.Hint
		case meant != "":
			text += why + "; did you mean " + meant + "?"
		default:
			text += why
		}
		texts = append(texts, text)
	}
	if more := len(unread) - maxUnread; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more values have no effect", more))
	}
	return texts
}

// hasPrograms reports whether a module has hooks or an enabled script, which may read values.
func hasPrograms(m addons.Module) (bool, error) {
	found, _, err := hooks.Find(m.HooksDir(), filepath.Join(m.Base, "hooks"), hooks.Module)
	return err != nil || len(found) > 0 || m.EnabledScript != "", err
}

// withoutRead leaves out what programs of the module may read. They see no section of modules but
// their own, and programs of others do not see it. When it is not known whether there are programs,
// nothing is certain.
func withoutRead(unread []charts.Unread, m addons.Module, set any) []charts.Unread {
	has, err := hasPrograms(m)
	if !has {
		return unread
	}
	reads := hooks.ReadsOf(m.Dir, isNoProgram)
	return slices.DeleteFunc(unread, func(u charts.Unread) bool {
		if u.At[0] != m.Key || err != nil {
			return err != nil
		}
		if fields, isMap := set.(map[string]any); isMap && len(u.At) == 1 { // all of the section
			return slices.ContainsFunc(slices.Collect(maps.Keys(fields)), func(key string) bool { return reads.May([]string{m.Key, key}) })
		}
		return reads.May(u.At)
	})
}

// isNoProgram are the parts of a module, by their path in it, in which no program lies. What stands
// there must not count as the text of a program: templates and schemas name keys that no program
// reads.
func isNoProgram(name string) bool {
	return slices.Contains([]string{"templates", "charts", "chart", "crds", "openapi", "tests", "docs"}, name) || isWords(name)
}

// isWords are the files next to the programs of a module that none of them reads values from.
func isWords(name string) bool {
	return slices.Contains([]string{"Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "module.yaml", ".helmignore"}, name) || filepath.Ext(name) == ".md"
}
