package view

// RenderRequest selects what a render contains.
type RenderRequest struct {
	// Diff compares with the deployed release. Broken shows the text that templates made
	// even when it cannot be read. Secrets shows those; without it they are hidden, and so
	// is text that cannot be read.
	Diff, Broken, Secrets bool
	// Since is the revision that Diff compares with; 0 is the deployed one.
	Since int
}

// Rendered is what the chart of a module makes of its values now. Secrets are hidden,
// unless they were asked for.
type Rendered struct {
	Module string `json:"module"`
	// Text is the manifest: YAML documents in the order Helm applies them.
	Text string `json:"-"`
	// Objects are the same as data.
	Objects []any `json:"objects"`
	// Revision is that of the deployed release which Changes compare with; 0: there is none.
	Revision int `json:"deployedRevision,omitempty"`
	// Changes are what differs from the deployed release, when that was asked for.
	Changes []ObjectDiff `json:"changes,omitempty"`
}

// ObjectDiff is one object that differs from the deployed release.
type ObjectDiff struct {
	// Object is "Kind namespace/name"; Action is added, changed or removed.
	Object string `json:"object"`
	Action string `json:"action"`
	// Diff of the YAML of the object in unified form.
	Diff string `json:"diff"`
}
