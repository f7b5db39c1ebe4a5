package work

import (
	"addon-operator/helm"
	"addon-operator/messages/view"
)

// RunBegan notifies the healer that a run of a module has begun.
type RunBegan struct {
	Module string
	Absent []helm.Object // of its release, when it began: the run may have applied them again before this is read
}

// RunEnded notifies the healer that a run of a module has ended; Hooks: hooks of it have run.
type RunEnded struct {
	Module string
	Hooks  bool
}

// GetReleased asks the healer for the objects of all releases. The answer is [Released].
type GetReleased struct{}

// Released are the objects of the modules that have run, as [helm.News] reports them. They are not changed.
type Released struct{ Objects map[string][]helm.Object }

// ObjectsGone notifies a module which objects Helm must apply again. A run that did sends [ObjectsBack].
type ObjectsGone struct{ Objects []helm.Object }

// HealthChanged notifies a module how the objects of its release are doing; nil: it has none. It is
// declared here because package messages does not import view.
type HealthChanged struct{ Health *view.Health }
