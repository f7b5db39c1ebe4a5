// Package lint finds mistakes in modules without a cluster, and says where each of them was made. What
// loading, validation, --config of hooks, rendering and tests find is found by the very code that does
// these; this package gives it a place.
package lint
