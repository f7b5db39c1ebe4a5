package configmap

import (
	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/values"
)

// rules are what config checks a new content by. A chart's schema counts only where the content
// changes something for its module: a chart that arrived with a stricter schema must not stop edits
// of all other modules.
func (c *config) rules() decide.Schemas {
	rules, before := c.schemas, c.doc
	inForce := decide.ChartRules{Charts: c.program.Charts, Section: func(key string, doc values.Document) (*values.Section, bool) {
		if ran := c.program.Ran.Of(key); ran != nil {
			return decide.Fitting(ran, doc), true
		}
		return decide.Fitting(c.schemas.Sections[key], doc), decide.Hookless(c.global, c.schemas.Modules, key)
	}}
	rules.Enabling.Charts = func(m addons.Module, doc values.Document) error {
		if c.schemas.Enabling.Concerns(m, before.Flags) && !decide.Changed(before, doc, m.Key) && !decide.Changed(before, doc, values.GlobalKey) {
			return nil
		}
		return inForce.Check(m, doc)
	}
	return rules
}
