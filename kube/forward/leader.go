package forward

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"addon-operator/kube"
)

// Pod is one Pod of the operator, as Leader has found it. It may have ended since.
type Pod struct {
	Namespace, Name string
	spec            corev1.PodSpec // what it was started with, for Port
	config          *rest.Config   // of the person; never nil after Leader has succeeded
}

// String names it for people.
func (p Pod) String() string { return "Pod " + p.Namespace + "/" + p.Name }

// usualNamespace is searched for the operator when neither a person nor the context of the
// kubeconfig names a namespace.
const usualNamespace = "addon-operator"

// Leader finds the Pod that leads: the one that holds the Lease, which every operator in a cluster has. The Lease
// may have expired: its holder is still the best answer, and if its Pod is gone, the error reports it. An empty
// namespace is that of the context or, when it has none, addon-operator. named is the name of a replica in the
// identity that the Lease shows.
func Leader(ctx context.Context, person kube.Options, namespace, leaseName string, named func(string) string) (Pod, error) {
	config, usual, err := kube.PersonConfig(person)
	if err != nil {
		return Pod{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Pod{}, err
	}
	in := cmp.Or(namespace, usual, usualNamespace)
	lease, err := client.CoordinationV1().Leases(in).Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
		return Pod{}, fmt.Errorf("no operator runs in namespace %s of %s: the Lease %s has no holder; name another namespace with --namespace", in, config.Host, leaseName)
	}
	if err != nil {
		return Pod{}, err
	}
	name := named(*lease.Spec.HolderIdentity)
	pod, err := client.CoreV1().Pods(in).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Pod{}, fmt.Errorf("the Lease %s/%s is held by %s, which is not a Pod there: it has ended, or runs outside the cluster; in that case use --debug-address where it runs", in, leaseName, name)
	}
	if err != nil {
		return Pod{}, err
	}
	return Pod{Namespace: in, Name: name, spec: pod.Spec, config: config}, nil
}

// Port is that of an address which the Pod is given by a variable, such as :9650, else the fallback. An address that is
// empty, or no TCP address, is an error.
func (p Pod) Port(fallback int, variable string) (int, error) {
	for _, c := range p.spec.Containers {
		for _, e := range c.Env {
			if e.Name != variable || e.ValueFrom != nil { // without a value here the fallback is the best guess
				continue
			}
			_, text, _ := net.SplitHostPort(e.Value)
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil || port == 0 {
				return 0, fmt.Errorf("%s sets %s to %q, which contains no port; use kubectl -n %s exec %s -- addon-operator …", p, variable, e.Value, p.Namespace, p.Name)
			}
			return int(port), nil
		}
	}
	return fallback, nil
}
