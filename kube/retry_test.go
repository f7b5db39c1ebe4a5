package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A write that was cut short is no success.
func TestRetryOnConflictKeepsTheLastError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "c", errors.New("changed"))
	cut := fmt.Errorf("patch: %w", context.Canceled)
	for situation, test := range map[string]struct {
		answers []error
		want    error
	}{
		"conflict, then success":   {[]error{conflict, nil}, nil},
		"cancelled":                {[]error{cut}, context.Canceled},
		"conflict, then cancelled": {[]error{conflict, cut}, context.Canceled},
	} {
		t.Run(situation, func(t *testing.T) {
			calls := 0
			err := retryOnConflict(func() error {
				calls++
				return test.answers[calls-1]
			})
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if calls != len(test.answers) {
				t.Errorf("%d calls, want %d", calls, len(test.answers))
			}
		})
	}
}
