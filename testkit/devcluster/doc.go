// Command devcluster is a Kubernetes control plane in one process: etcd,
// kube-apiserver and the controllers of kube-controller-manager that need no
// nodes, for tests and for trying things out on a machine that has nothing but
// Go.
//
//	devcluster --dir DIR [--port N]
//
// It prints one line when the cluster is ready and runs until it gets SIGTERM
// or SIGINT, or until the process that started it is gone. All it keeps is
// in DIR, so a second start with the same DIR finds the same objects, tokens
// and, when it is free, the same port:
//
//	DIR/kubeconfig              admin, with the cluster's own CA
//	DIR/controllers.kubeconfig  what the controllers use
//	DIR/devcluster.log          what the components say; .old is the run before
//	DIR/etcd/ DIR/pki/ DIR/tokens.csv DIR/port DIR/lock
//
// What is real: storage, validation, RBAC, admission, tokens of service
// accounts, garbage collection, deletion of namespaces, the controllers that
// turn a Deployment into Pods. What is not there: nodes. With --node there
// is one, on which Pods count as running without containers; without it they
// stay Pending until their status is patched.
//
// Nothing of the operator may be imported here. The module is separate so that
// the operator's module graph stays free of k8s.io/kubernetes, and the
// components are driven through their options and constructors, not through their
// commands, because the commands install signal handlers of their own and end
// the process as they like.
package main
