package kube

import "k8s.io/client-go/util/retry"

// retryOnConflict calls write again while the API server answers that another writer was
// faster, and returns its last error. That of the library will not do: before client-go
// 0.37 it takes an error of write that says a context has ended for its own and reports
// success.
func retryOnConflict(write func() error) error {
	var last error
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		last = write()
		return last
	})
	return last
}
