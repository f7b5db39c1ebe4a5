package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Verdict is what the API server decides about a user who requests a page.
type Verdict int

// The verdicts. The zero value refuses.
const (
	Unknown Verdict = iota // the API server does not authenticate the user
	Refused                // the user has no permission for this page
	Allowed
)

// ErrBusy is returned instead of asking the API server when too many other reviews are in progress.
// The client should try again.
var ErrBusy = errors.New("too many requests are being authenticated; try again")

// How long a verdict counts, and how many are remembered (J11). A client that asks again and again,
// as Prometheus does, costs the API server two requests a minute, and one that loses a right is
// refused after a minute at most. A refusal counts for a shorter time, for people who grant a right
// and try again.
const (
	allowedFor  = time.Minute
	refusedFor  = 10 * time.Second
	maxVerdicts = 256
	// maxReviews bounds the questions at one time: anyone can send tokens that were never seen
	// before.
	maxReviews    = 4
	reviewTimeout = 5 * time.Second
)

// Reviewer asks the API server whether a client may see pages: a TokenReview returns the user of a token, a
// SubjectAccessReview the permissions of that user, as for the secure metrics of controller-runtime. The
// operator needs the right to create both (J11).
type Reviewer struct {
	review func(ctx context.Context, token, verb, path string) (Verdict, error)
	slots  chan struct{} // has an element for each review in progress

	// The verdicts, errors are none. Clients that are refused must not take the places of those that are allowed.
	allowed, others *cache.LRUExpireCache
}

// question has a hash of the token: verdicts outlive requests, and tokens are secrets. Hashes also
// bound the memory of each question, whatever a client sends.
type question struct{ token, verb, path [sha256.Size]byte }

// NewReviewer makes a Reviewer. Its questions change nothing, so a replica that does not lead may
// ask them, too.
func (c *Client) NewReviewer() (*Reviewer, error) {
	config := rest.CopyConfig(c.config)
	if c.unfenced != nil { // reviews are POST requests, which the fence of a follower would refuse
		config = rest.CopyConfig(c.unfenced)
	}
	config.QPS, config.Timeout = -1, reviewTimeout // maxReviews limits them
	tokens, errTokens := authenticationclient.NewForConfig(config)
	access, errAccess := authorizationclient.NewForConfig(config)
	if err := errors.Join(errTokens, errAccess); err != nil {
		return nil, fmt.Errorf("clients for reviews: %w", err)
	}
	return newReviewer(func(ctx context.Context, token, verb, path string) (Verdict, error) {
		who, err := tokens.TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil {
			return Unknown, fmt.Errorf("review the token: %w", err)
		}
		if !who.Status.Authenticated {
			return Unknown, nil
		}
		user := who.Status.User
		extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for key, value := range user.Extra {
			extra[key] = authorizationv1.ExtraValue(value)
		}
		may, err := access.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
		}}, metav1.CreateOptions{})
		if err != nil {
			return Unknown, fmt.Errorf("review the access of %s: %w", user.Username, err)
		}
		if !may.Status.Allowed || may.Status.Denied {
			return Refused, nil
		}
		return Allowed, nil
	}), nil
}

func newReviewer(review func(ctx context.Context, token, verb, path string) (Verdict, error)) *Reviewer {
	return &Reviewer{review: review, slots: make(chan struct{}, maxReviews), allowed: cache.NewLRUExpireCache(maxVerdicts), others: cache.NewLRUExpireCache(maxVerdicts)}
}

// Review reports whether the owner of this token may do verb with the page at path. An error means
// that there was no answer; ErrBusy that it was not even asked.
func (r *Reviewer) Review(ctx context.Context, token, verb, path string) (Verdict, error) {
	q := question{sha256.Sum256([]byte(token)), sha256.Sum256([]byte(verb)), sha256.Sum256([]byte(path))}
	for _, known := range []*cache.LRUExpireCache{r.allowed, r.others} {
		if kept, ok := known.Get(q); ok {
			verdict, _ := kept.(Verdict)
			return verdict, nil
		}
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return Unknown, ErrBusy
	}
	defer func() { <-r.slots }()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	verdict, err := r.review(ctx, token, verb, path)
	switch {
	case err != nil:
	case verdict == Allowed:
		r.allowed.Add(q, verdict, allowedFor)
	default:
		r.others.Add(q, verdict, refusedFor)
	}
	return verdict, err
}
