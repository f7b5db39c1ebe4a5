package values

import "time"

// Origin says who changed values, and when. The caller hands it in with a change: this package has no clock and knows no tasks.
type Origin struct {
	// Hook and Task are the name of the hook and the ID of the task that ran it; empty for a person's edit of the ConfigMap.
	Hook string `json:"hook,omitempty"`
	Task string `json:"task,omitempty"`
	// Revision is the resourceVersion of the ConfigMap that brought the values.
	Revision string    `json:"resourceVersion,omitempty"`
	Time     time.Time `json:"time,omitzero"`
}

// signed gives the operations with their origin. All operations of one patch share it, so that remembering costs a pointer.
func (p Patch) signed(by Origin) Patch {
	for i := range p {
		p[i].by = &by
	}
	return p
}

// Origin is who wrote a saved operation; the zero value for one that was not saved.
func (o Operation) Origin() Origin {
	if o.by == nil {
		return Origin{}
	}
	return *o.by
}
