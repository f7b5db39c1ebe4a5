// Package bring makes modules: new ones, of charts that others have published, which it brings to other versions, and of
// releases in the cluster.
package bring
