package plan

import (
	"maps"
	"path/filepath"
	"slices"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/values"
)

// Unread says which values of a module reach nothing (H23): those that a person has set, in the module's section or, for a
// subchart, in values.yaml of the chart, and that neither a template reads nor, as far as that is certain, a hook or an
// enabled script. Without a cache none are reported.
func Unread(cache *charts.Cache, m addons.Module, global, own *values.Section) (texts []string) {
	if cache == nil || !charts.Exists(m.Dir) || global == nil || own == nil {
		return nil
	}
	loaded, err := cache.Load(charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir})
	if err != nil {
		return nil // whoever runs it says so
	}
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
	for _, u := range unread {
		text := "the value " + u.Path + " reaches nothing: "
		switch meant := values.Nearest(u.Key, u.Known); {
		case u.Hint != "":
			text += u.Hint
		case meant != "":
			text += "no template of the chart reads it; did you mean " + meant + "?"
		default:
			text += "no template of the chart reads it"
		}
		texts = append(texts, text)
	}
	return texts
}

// withoutRead leaves out what programs of the module may read. They see no section but their own, and programs of others do
// not see it.
func withoutRead(unread []charts.Unread, m addons.Module, set any) []charts.Unread {
	found, _, err := hooks.Find(m.HooksDir(), filepath.Join(m.Base, "hooks"), hooks.Module)
	if err == nil && len(found) == 0 && m.EnabledScript == "" {
		return unread
	}
	reads := hooks.ReadsOf(m.Dir, func(name string) bool {
		return slices.Contains([]string{"templates", "charts", "chart", "crds", "openapi", "tests", "docs"}, name) || isWords(name)
	})
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

// isWords are the files next to the programs of a module that none of them reads values from.
func isWords(name string) bool {
	return slices.Contains([]string{"Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "module.yaml", ".helmignore"}, name) || filepath.Ext(name) == ".md"
}
