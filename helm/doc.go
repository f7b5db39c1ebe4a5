// Package helm brings the chart of one module to the cluster and takes it away
// again. It is the only room that imports Helm.
//
// Values, hooks, queues and retries may not enter here: callers hand over a
// module name, a directory and finished values, and decide themselves when to
// try again.
//
// Every Apply walks the same four steps, each in a file of its name:
//
//	State   what the release records in the cluster say          state.go
//	Render  the manifest the chart makes of the values           render.go
//	Decide  state, checksum, absent objects → one step (pure)    decide.go
//	Apply   the step, then State again until nothing is left     apply.go
//
// Helm itself runs through its own actions, so that releases stay usable with
// the helm command line. Two of its exported seams are filled with parts of
// ours: cluster.go (kube.Interface: labels, cancellation, shared connections)
// and store.go (driver.Driver: the secrets of Helm, read without listing them
// again and again).
package helm
