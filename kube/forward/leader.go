package forward

import (
	"cmp"
	"context"
	"errors"
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

// Pods of the operator have this label when they come from its chart.
const selector = "app.kubernetes.io/name=addon-operator"

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

// ErrNone reports that there is no operator in the namespaces.
var ErrNone = errors.New("there is no operator")

// Leader finds the Pod that leads: the one that holds the Lease or, where there is none, the
// youngest that runs. It returns ErrNone when there is neither, and an error of the API server when
// it may not look for both.
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
	// Without a Lease there is one replica, or the person may not read it: then Pods are listed. An
	// outage is no reason to guess: of several replicas, the youngest may be a follower.
	pod, err := s.holder(ctx, client, in)
	var refused error
	if errors.Is(err, ErrNone) || apierrors.IsForbidden(err) {
		if apierrors.IsForbidden(err) {
			refused = err
		}
		pod, err = youngest(ctx, client, in)
	}
	pod.config = config
	if errors.Is(err, ErrNone) {
		err = fmt.Errorf("%w in namespace %s of %s; name another one with --namespace", ErrNone, in, config.Host)
	}
	if err != nil && refused != nil {
		err = errors.Join(err, refused)
	}
	return pod, err
}

// holder finds the Pod that holds the Lease; ErrNone when no Pod does. The Lease may have expired:
// its holder is still the best answer, and if its Pod is gone, the error reports it.
func (s Search) holder(ctx context.Context, client kubernetes.Interface, namespace string) (Pod, error) {
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, s.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
		return Pod{}, ErrNone
	}
	if err != nil {
		return Pod{}, err
	}
	name := s.Name(*lease.Spec.HolderIdentity)
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Pod{}, fmt.Errorf("the Lease %s/%s is held by %s, which is not a Pod there: it has ended, or runs outside the cluster; in that case use --debug-address where it runs", namespace, s.Lease, name)
	}
	if err != nil {
		return Pod{}, err
	}
	return Pod{Namespace: namespace, Name: name, spec: pod.Spec}, nil
}

// youngest finds the youngest running Pod with the label of the chart; ErrNone when there is none.
// During an update, an older one is about to end.
func youngest(ctx context.Context, client kubernetes.Interface, namespace string) (Pod, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return Pod{}, err
	}
	running := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil })
	if len(running) == 0 {
		return Pod{}, ErrNone
	}
	found := slices.MaxFunc(running, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return Pod{Namespace: namespace, Name: found.Name, spec: found.Spec}, nil
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
