package messages

import (
	"encoding/json"
	"errors"
	"time"

	"addon-operator/hooks"
)

// ErrNoHook means that an owner has no hook for a request.
var ErrNoHook = errors.New("no hook answers here")

// Review is a webhook request to a hook of an owner (chapter O). It is no task: no queue knows it (O5).
type Review struct {
	Owner string
	Type  hooks.BindingType
	// Name is that of the binding, or of the CRD whose objects are to be converted.
	Name string
	// Request is the request of a review, as the API server has sent it.
	Request json.RawMessage
	DryRun  bool
	// To is the version in which Objects are wanted.
	To      string
	Objects []json.RawMessage
	Until   time.Time     // when the answer must have been given
	Within  time.Duration // how long that was when the request came
}

// Reviewed is the answer to a Review.
type Reviewed struct {
	Hook     string          // empty for none
	Response *hooks.Response // nil with an error
	Ignore   bool            // the API server is to go on without an answer (failurePolicy)
	Err      error
}

// ServeReviews asks admission that the API server asks hooks of an owner, and none else of it.
type ServeReviews struct {
	Owner string
	Hooks []hooks.Hook
}

// ReviewsServed is the answer to ServeReviews.
type ReviewsServed struct{ Err error }

// KeepReviews notifies admission of the owners whose hooks the API server may ask. What is configured for others is
// removed.
type KeepReviews struct{ Owners []string }
