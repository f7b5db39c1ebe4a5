package kube

import "k8s.io/client-go/util/retry"

// retryOnConflict calls write again while the API server answers that another writer was
// faster, and returns its last error. The function of the library is unusable: before client-go
// 0.37 it takes the end of a context in an error of write for its own and reports
// success.
func retryOnConflict(write func() error) error {
	var last error
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		last = write()
		return last
	})
	return last
}
