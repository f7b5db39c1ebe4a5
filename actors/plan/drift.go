package plan

import (
	"addon-operator/helm/dryrun"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// Drift is what others changed of the objects of a module: Before is what was found in the cluster,
// After what the chart says. It holds the values of Secrets, so it leaves its owner only as what
// Named and Shown make of it.
type Drift []dryrun.Change

// Named are the objects and their fields, without values, for what people see who may not read the
// objects, such as statuses.
func (d Drift) Named() []view.DriftedObject {
	var out []view.DriftedObject
	for _, c := range d {
		out = append(out, view.DriftedObject{Object: c.Object.String(), Fields: paths(c.Fields(false))})
	}
	return out
}

// Shown are the objects with what was found and what the chart says. Secrets are hidden, unless
// they were asked for. It is never nil, so that JSON has a list.
func (d Drift) Shown(hider *values.Hider, secrets bool) []messages.ObjectDrift {
	out := []messages.ObjectDrift{}
	for _, c := range d {
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
