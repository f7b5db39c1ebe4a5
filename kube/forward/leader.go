package forward

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

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

// Search has the places where a Pod of the operator may be.
type Search struct {
	Person    kube.Options // whose kubeconfig names the cluster
	Namespace string       // empty: that of the context or, when it has none, addon-operator
	Lease     string       // by which the leader is elected
	// Name is the name of a replica in the identity that the Lease shows.
	Name func(identity string) string
}

// Leader finds the Pod that leads: the one that holds the Lease, which every operator in a cluster has. The Lease may
// have expired: its holder is still the best answer, and if its Pod is gone, the error reports it.
func (s Search) Leader(ctx context.Context) (Pod, error) {
	config, namespace, err := kube.PersonConfig(s.Person)
	if err != nil {
		return Pod{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Pod{}, err
	}
	in := cmp.Or(s.Namespace, namespace, usualNamespace)
	lease, err := client.CoordinationV1().Leases(in).Get(ctx, s.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
		return Pod{}, fmt.Errorf("no operator runs in namespace %s of %s: the Lease %s has no holder; name another namespace with --namespace", in, config.Host, s.Lease)
	}
	if err != nil {
		return Pod{}, err
	}
	name := s.Name(*lease.Spec.HolderIdentity)
	pod, err := client.CoreV1().Pods(in).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Pod{}, fmt.Errorf("the Lease %s/%s is held by %s, which is not a Pod there: it has ended, or runs outside the cluster; in that case use --debug-address where it runs", in, s.Lease, name)
	}
	if err != nil {
		return Pod{}, err
	}
	return Pod{Namespace: in, Name: name, spec: pod.Spec, config: config}, nil
}

// Port is that of an address which the Pod is given by one of the variables or by the flag, else
// the fallback. An address that is empty, or no TCP address, is an error that names who set it.
func (p Pod) Port(fallback int, flag string, variables ...string) (int, error) {
	for _, c := range p.spec.Containers {
		arguments := slices.Concat(c.Command, c.Args)
		for i, arg := range arguments {
			value, given := strings.CutPrefix(arg, "--"+flag+"=")
			if rest := arguments[i+1:]; arg == "--"+flag && len(rest) > 0 {
				value, given = rest[0], true
			}
			if given {
				return portOf(p, "--"+flag, value)
			}
		}
		// A variable from a ConfigMap or Secret has no value in the spec: the fallback is the best
		// guess.
		for _, v := range variables {
			if i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == v }); i >= 0 && c.Env[i].ValueFrom == nil {
				return portOf(p, v, c.Env[i].Value)
			}
		}
	}
	return fallback, nil
}

// portOf reads the port of an address such as :9650; source is the flag or variable, for the error.
func portOf(p Pod, source, address string) (int, error) {
	if _, text, err := net.SplitHostPort(address); err == nil {
		if port, err := strconv.ParseUint(text, 10, 16); err == nil && port > 0 {
			return int(port), nil
		}
	}
	return 0, fmt.Errorf("%s sets %s to %q, which contains no port; use kubectl -n %s exec %s -- addon-operator …", p, source, address, p.Namespace, p.Name)
}
