package main

import (
	"context"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// loopback is the only interface the cluster listens on.
const loopback = "127.0.0.1"

// runAPIServer runs kube-apiserver on the listener until ctx ends.
func runAPIServer(ctx context.Context, listener net.Listener, etcdEndpoint string, keys pki, access access) error {
	o := apioptions.NewServerRunOptions()
	err := parseFlags(o.Flags(),
		"--etcd-servers="+etcdEndpoint, "--etcd-cafile="+keys.ca, "--etcd-certfile="+keys.cert, "--etcd-keyfile="+keys.key,
		"--bind-address="+loopback, "--tls-cert-file="+keys.cert, "--tls-private-key-file="+keys.key,
		"--authorization-mode=RBAC", "--token-auth-file="+access.tokens,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+keys.tokenKey, "--service-account-signing-key-file="+keys.tokenKey,
		"--service-cluster-ip-range="+serviceRange,
		"--allow-privileged=true", "--kubelet-certificate-authority="+keys.ca,
		// The Service "kubernetes" is for Pods, and none ever runs. Its
		// Endpoints may not hold a loopback address.
		"--endpoint-reconciler-type=none", "--advertise-address="+loopback,
		// Fairness between clients, and profiles, cost time that a test waits.
		"--enable-priority-and-fairness=false", "--profiling=false",
	)
	if err != nil {
		return err
	}
	// Opened by us, so that the port cannot be taken between choice and use.
	o.SecureServing.Listener = listener
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return err
	}
	if problems := completed.Validate(); len(problems) > 0 {
		return utilerrors.NewAggregate(problems)
	}
	return app.Run(ctx, completed)
}

// parseFlags sets the options behind the sections the way the component's own
// command line would.
func parseFlags(sections cliflag.NamedFlagSets, args ...string) error {
	flags := pflag.NewFlagSet("component", pflag.ContinueOnError)
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	return flags.Parse(args)
}
