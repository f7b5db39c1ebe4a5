package forward

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

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

// Port is that of an address which the Pod is given by a variable, such as :9650, else the fallback. An address that
// is empty, or no TCP address, is an error.
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

// Dial connects to a port on the loopback interface of a Pod, by a port of this machine's that is open until ctx
// ends. When nothing listens in the Pod, the connection ends at once, and the library logs why. The user needs the
// permission to create pods/portforward in the namespace.
func (p Pod) Dial(ctx context.Context, port int) (net.Conn, error) {
	local, err := p.forward(ctx, port)
	if err != nil {
		return nil, fmt.Errorf("forward port %d of %s: %w", port, p, err)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", local)
}

// forward returns the address on this machine.
func (p Pod) forward(ctx context.Context, port int) (local string, err error) {
	dialer, err := p.dialer()
	if err != nil {
		return "", err
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	here, ports := []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, here, ports, ctx.Done(), ready, nil, nil)
	if err != nil {
		return "", err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return "", err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	open, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", open[0].Local), nil
}

// dialer uses websockets and, when the API server or a proxy before it does not support them, SPDY.
func (p Pod) dialer() (httpstream.Dialer, error) {
	client, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(p.config)
	if err != nil {
		return nil, err
	}
	websockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, p.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	return portforward.NewFallbackDialerForStreaming(websockets, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
