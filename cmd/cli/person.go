package cli

import (
	"cmp"
	"crypto/rand"
	"strings"

	"addon-operator/kube"
)

// InPod reports whether this process runs in a Pod.
func (c *Config) InPod() bool {
	host, _ := c.lookup("KUBERNETES_SERVICE_HOST")
	return host != ""
}

// Cluster are the options of a client for the cluster that the options name, with the default
// limits of requests: those of the operator are not for a person.
func (c *Config) Cluster() kube.Options {
	return kube.Options{Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer, UserAgent: "addon-operator/" + c.Version}
}

// Connect makes a client for a person who runs a command: with the kubeconfig that kubectl would
// use or, in a Pod, with its service account. It has no fence, since a person may write whichever replica
// leads.
func (c *Config) Connect() (*kube.Client, error) {
	o := c.Cluster()
	if c.Kubeconfig == "" && c.InPod() {
		return kube.Connect(o)
	}
	config, _, err := kube.PersonConfig(o)
	if err != nil {
		return nil, err
	}
	o.Config = config
	return kube.Connect(o)
}

// NewIdentity is the text in the Lease by which other replicas recognise this one and find its probes. In a Pod it
// ends with the uid of that: a container that is restarted there goes on at once, because the process before it has
// ended (L4). Elsewhere nothing proves that, and the end is random. Only the name may contain underscores.
func NewIdentity(name, address, podUID string) string {
	const digits = 8
	return name + "_" + address + "_" + cmp.Or(podUID, strings.ToLower(rand.Text()[:digits]))
}

// ParseIdentity is the inverse of NewIdentity, from the end, because the name may have underscores.
// The identity of another program is a name without an address.
func ParseIdentity(identity string) (name, address string) {
	rest := identity[:max(0, strings.LastIndex(identity, "_"))]
	i := strings.LastIndex(rest, "_")
	if i < 0 {
		return identity, ""
	}
	return rest[:i], rest[i+1:]
}
