package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// J11: verdicts are remembered for a short time, not more of them than there is room for, and strangers do not take
// the places of those who may.
func TestVerdictsAreRememberedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, now := 0, map[string]Verdict{"may": Allowed, "may not": Refused}
		r := newReviewer(func(_ context.Context, token, _, _ string) (Verdict, error) {
			asked++
			return now[token], nil
		})
		want := func(token string, verdict Verdict, questions int) {
			t.Helper()
			asked = 0
			got, err := r.Review(t.Context(), token, "get", "/metrics")
			if got != verdict || err != nil || asked != questions {
				t.Errorf("%s: verdict %d, %v, %d questions; want %d, %d", token, got, err, asked, verdict, questions)
			}
		}
		want("may", Allowed, 1)
		want("may not", Refused, 1)
		want("may", Allowed, 0)
		want("may not", Refused, 0)
		if got, _ := r.Review(t.Context(), "may", "get", "/queue"); got != Allowed || asked != 1 {
			t.Errorf("another page: %d after %d questions", got, asked)
		}
		now["may"], now["may not"] = Refused, Allowed
		<-time.After(refusedFor + 1)
		want("may", Allowed, 0)
		want("may not", Allowed, 1)
		for i := range 10 * maxVerdicts {
			want(fmt.Sprintf("stranger %d", i), Unknown, 1)
		}
		if n := len(r.others.Keys()); n > maxVerdicts {
			t.Errorf("%d verdicts are remembered", n)
		}
		want("may not", Allowed, 0)
		<-time.After(allowedFor + 1)
		want("may", Refused, 1)
	})
}

// J11: who floods the operator with tokens floods the API server with a few of them only; an answer that was not
// given lets no one in and is not remembered.
func TestReviewsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, away := make(chan struct{}), errors.New("away")
		r := newReviewer(func(ctx context.Context, _, _, _ string) (Verdict, error) {
			select {
			case <-release:
				return Allowed, nil
			case <-ctx.Done():
				return Unknown, away
			}
		})
		for i := range maxReviews {
			go func() { _, _ = r.Review(t.Context(), fmt.Sprint(i), "get", "/metrics") }()
		}
		synctest.Wait()
		if verdict, err := r.Review(t.Context(), "one more", "get", "/metrics"); !errors.Is(err, ErrBusy) || verdict != Unknown {
			t.Errorf("%d, %v", verdict, err)
		}
		<-time.After(reviewTimeout)
		synctest.Wait()
		if n := len(r.allowed.Keys()) + len(r.others.Keys()); n != 0 {
			t.Errorf("%d verdicts of nobody are remembered", n)
		}
		close(release)
		if verdict, err := r.Review(t.Context(), "one more", "get", "/metrics"); err != nil || verdict != Allowed {
			t.Errorf("%d, %v", verdict, err)
		}
	})
}
