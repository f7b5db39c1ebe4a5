package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	cmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// withoutNodes lists the controllers that have no work in a cluster without
// nodes, volumes and signed certificates. The controllers that take finalizers
// away must run, or claims and namespaces could not be deleted.
func withoutNodes() []string {
	return []string{
		names.NodeIpamController, names.NodeLifecycleController, names.TTLController,
		names.TaintEvictionController, names.DeviceTaintEvictionController,
		names.PersistentVolumeBinderController, names.PersistentVolumeAttachDetachController,
		names.PersistentVolumeExpanderController, names.EphemeralVolumeController,
		names.CertificateSigningRequestSigningController, names.CertificateSigningRequestApprovingController,
		names.CertificateSigningRequestCleanerController,
		names.HorizontalPodAutoscalerController, // asks for metrics of Pods
	}
}

// runControllers runs kube-controller-manager until ctx ends.
func runControllers(ctx context.Context, keys pki, access access) error {
	o, err := cmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	err = parseFlags(o.Flags(known, disabled, aliases),
		"--kubeconfig="+access.controllers,
		"--controllers=*,-"+strings.Join(withoutNodes(), ",-"),
		"--service-account-private-key-file="+keys.tokenKey, "--root-ca-file="+keys.ca,
		"--leader-elect=false", // one process, one leader
		"--secure-port=0",      // nobody asks it anything
		// Tests wait for these controllers: they may ask as fast as they can.
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--controller-shutdown-timeout="+controllersGrace.String(),
	)
	if err != nil {
		return err
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	config, err := o.Config(ctx, known, disabled, aliases)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return app.Run(ctx, config.Complete())
}
