package plan

import (
	"addon-operator/helm/dryrun"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// Drifted names the objects and fields that others changed, without values.
func Drifted(changes []dryrun.Change) []view.DriftedObject {
	var out []view.DriftedObject
	for _, c := range changes {
		out = append(out, view.DriftedObject{Object: c.Object.String(), Fields: paths(c.Fields(false))})
	}
	return out
}

// Drift shows what others changed. Secrets are hidden, unless they were asked for.
func Drift(changes []dryrun.Change, hider *values.Hider, secrets bool) []messages.ObjectDrift {
	out := []messages.ObjectDrift{}
	for _, c := range changes {
		c.Mask = hider.Object
		object := messages.ObjectDrift{Object: c.Object.String()}
		for _, f := range c.Fields(secrets) {
			object.Fields = append(object.Fields, messages.FieldDrift{Path: f.Path, Found: f.Before, Chart: f.After})
		}
		out = append(out, object)
	}
	return out
}

func paths(fields []dryrun.Field) (all []string) {
	for _, f := range fields {
		all = append(all, f.Path)
	}
	return all
}
