// Package devclustertest gives tests a real Kubernetes control plane: the
// program testkit/devcluster, built on first use and started once per go test,
// whatever number of packages that runs.
//
//	cluster := devclustertest.Start(t)
//	namespace := cluster.Namespace(t)
//	client := kubernetes.NewForConfigOrDie(cluster.RESTConfig())
//
// All tests share the cluster and keep apart by namespaces; what has none, as the
// group of a CRD, carries the name of its package. A test that takes the API
// server away borrows one, with Borrow; a test that needs an empty cluster starts
// its own, with StartOwn.
//
// KUBERNETES=1.34 go test … runs them on an older Kubernetes; testkit/devcluster/kube-1.34.mod has
// its libraries.
//
// The package starts processes and hands out access to them, and that is all:
// no fixtures, no assertions about Kubernetes, nothing of the operator.
package devclustertest
