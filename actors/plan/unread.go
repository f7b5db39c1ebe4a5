package plan

import (
	"path/filepath"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/values"
)

// Unread says which values of a module reach nothing (H23): those that a person has set, in the module's section or, for a
// subchart, in values.yaml of the chart, and that no template reads. Hooks and enabled scripts may read what they like of the
// section, so nothing is said about it where there are any. Without a cache none are reported.
func Unread(cache *charts.Cache, m addons.Module, global, own *values.Section) (texts []string) {
	if cache == nil || !charts.Exists(m.Dir) || global == nil || own == nil {
		return nil
	}
	loaded, err := cache.Load(charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir})
	if err != nil {
		return nil // whoever runs it says so
	}
	found, _, err := hooks.Find(m.HooksDir(), filepath.Join(m.Base, "hooks"), hooks.Module)
	var set any
	if err == nil && len(found) == 0 && m.EnabledScript == "" {
		for _, layer := range m.Static {
			set = values.Merge(set, layer.Value)
		}
		set = values.Merge(set, own.Config())
	}
	merged := map[string]any{values.GlobalKey: global.Merged(), m.Key: own.Merged()}
	for _, u := range loaded.Unread(set, merged) {
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
