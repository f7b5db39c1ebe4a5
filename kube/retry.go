package kube

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// retryOnConflict calls write up to ten times, over a few seconds, while the API server answers that another writer was
// faster, and returns its last error. The function of the library is unusable: before client-go
// 0.37 it takes the end of a context in an error of write for its own and reports
// success.
func retryOnConflict(write func() error) error {
	var last error
	backoff := wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10}
	faster := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	_ = retry.OnError(backoff, faster, func() error {
		last = write()
		return last
	})
	return last
}
