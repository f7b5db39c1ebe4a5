package values

import "time"

// Origin records the task that changed values, and the time. The caller passes it with a change: this package has
// no clock and no tasks.
type Origin struct {
	// Hook and Task are the name of the hook and the ID of the task that ran it; empty for a
	// person's edit of the ConfigMap.
	Hook string `json:"hook,omitempty"`
	Task string `json:"task,omitempty"`
	// Revision is the resourceVersion of the ConfigMap that brought the values.
	Revision string    `json:"resourceVersion,omitempty"`
	Time     time.Time `json:"time,omitzero"`
}

// Origin returns who wrote a saved operation; the zero value for one that was not saved.
func (o Operation) Origin() Origin { return o.by }
