package cli

import "addon-operator/kube"

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
