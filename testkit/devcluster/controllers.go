package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	accounts "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	quota "k8s.io/kubernetes/pkg/quota/v1/install"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// workers is how many objects most controllers handle at a time.
	workers = 5
	// deletionWorkers is the same for what tests wait for: garbage collection
	// and the deletion of namespaces.
	deletionWorkers = 20
	// rediscovery is how often controllers that work on every kind look for
	// new kinds, and how long they wait for the informers of those.
	rediscovery = 30 * time.Second
	// resync is how often informers repeat what they know.
	resync = 12 * time.Hour
	// maxEndpointsPerSlice is kube-controller-manager's default.
	maxEndpointsPerSlice = 100
)

// controllers are those of kube-controller-manager that have work in a cluster
// without nodes, volumes and signed certificates. They are started one by one
// because the command that holds all of them takes minutes to compile: it
// brings every volume plugin and the scheduler. The controllers that remove
// finalizers must run, or claims and namespaces could not be deleted.
//
// All are added before any of them runs: to make one registers its informers with the factories,
// which are started together.
type controllers struct {
	config   *rest.Config
	client   *kubernetes.Clientset
	metadata metadata.Interface // for controllers that work on every kind, also custom ones
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	typed    informers.SharedInformerFactory        // of built-in kinds, shared by all controllers
	byKind   metadatainformer.SharedInformerFactory // of any kind, with metadata only
	started  chan struct{}                          // closed when the informers run
	loops    []func(context.Context)                // each runs until its context ends
}

// runControllers runs the controllers, and with node the one node, until ctx ends and all of them
// have returned. It returns an error if one cannot be made. Those that run log their failures and
// retry.
func runControllers(ctx context.Context, keys pki, access access, node bool) error {
	c, err := newControllers(access.controllers)
	if err != nil {
		return err
	}
	c.workloads(ctx)
	c.services(ctx)
	adds := map[string]func(context.Context) error{
		"garbage collector": c.garbageCollector,
		"resource quota":    c.resourceQuota,
		"disruption":        c.disruption,
		"volumes":           c.volumes,
		"apps and batch":    c.appsAndBatch,
		"namespaces":        func(ctx context.Context) error { return c.namespaces(ctx, keys) },
	}
	if node {
		adds["node"] = func(context.Context) error { return c.node(keys) }
	}
	for name, add := range adds {
		if err := add(ctx); err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
	}

	c.typed.Start(ctx.Done())
	c.byKind.Start(ctx.Done())
	close(c.started)
	var running sync.WaitGroup
	for _, loop := range c.loops {
		running.Go(func() { loop(ctx) })
	}
	running.Wait()
	return nil
}

// newControllers makes what controllers share, and none of them yet.
func newControllers(kubeconfig string) (*controllers, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // tests wait for these controllers: no limit
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	byMetadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &controllers{
		config:   config,
		client:   client,
		metadata: byMetadata,
		mapper:   restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		typed:    informers.NewSharedInformerFactory(client, resync),
		byKind:   metadatainformer.NewSharedInformerFactory(byMetadata, resync),
		started:  make(chan struct{}),
	}
	// The mapper caches the kinds of the API server, so without this it would miss CRDs that come
	// later.
	c.add(func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(context.Context) { c.mapper.Reset() }, rediscovery)
	})
	return c, nil
}

// add adds what runs until its context ends.
func (c *controllers) add(loop func(context.Context)) { c.loops = append(c.loops, loop) }

// run adds a controller with its number of workers.
func (c *controllers) run(loop func(context.Context, int), workers int) {
	c.add(func(ctx context.Context) { loop(ctx, workers) })
}

// workloads adds the controllers that cannot fail to be made.
func (c *controllers) workloads(ctx context.Context) {
	core, apps := c.typed.Core().V1(), c.typed.Apps().V1()
	c.run(replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), c.client, replicaset.BurstReplicas).Run, workers)
	c.run(replication.NewReplicationManager(ctx, core.Pods(), core.ReplicationControllers(), c.client, replication.BurstReplicas).Run, workers)
	c.run(statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), c.client).Run, workers)
	c.run(ttlafterfinished.New(ctx, c.typed.Batch().V1().Jobs(), c.client).Run, workers)
	c.run(clusterroleaggregation.NewClusterRoleAggregation(c.typed.Rbac().V1().ClusterRoles(), c.client.RbacV1()).Run, workers)
}

// appsAndBatch adds the controllers of Deployments, DaemonSets, Jobs and CronJobs. Without a node
// the Pods of these stay Pending.
func (c *controllers) appsAndBatch(ctx context.Context) error {
	core, apps, batch := c.typed.Core().V1(), c.typed.Apps().V1(), c.typed.Batch().V1()
	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), c.client)
	if err != nil {
		return err
	}
	c.run(deployments.Run, workers)
	daemons, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), c.client,
		flowcontrol.NewBackOff(time.Second, 15*time.Minute))
	if err != nil {
		return err
	}
	c.run(daemons.Run, workers)
	jobs, err := newJobs(ctx, c.client, core.Pods(), batch.Jobs())
	if err != nil {
		return err
	}
	c.run(jobs.Run, workers)
	cronJobs, err := cronjob.NewControllerV2(ctx, batch.Jobs(), batch.CronJobs(), c.client)
	if err != nil {
		return err
	}
	c.run(cronJobs.Run, workers)
	return nil
}

// services adds the controllers that write the endpoints of Services. Both kinds are needed: older
// clients read Endpoints.
func (c *controllers) services(ctx context.Context) {
	core := c.typed.Core().V1()
	c.run(endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), c.client, 0).Run, workers)
	c.run(endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), c.typed.Discovery().V1().EndpointSlices(),
		maxEndpointsPerSlice, c.client, 0).Run, workers)
}

// namespaces adds what fills a new namespace and what empties an old one.
func (c *controllers) namespaces(ctx context.Context, keys pki) error {
	core := c.typed.Core().V1()
	deletion := namespace.NewNamespaceController(ctx, c.client, c.metadata, c.client.Discovery().ServerPreferredNamespacedResources,
		core.Namespaces(), resync, corev1.FinalizerKubernetes)
	c.run(deletion.Run, deletionWorkers)

	account, err := newAccounts(ctx, c.client, core.ServiceAccounts(), core.Namespaces())
	if err != nil {
		return err
	}
	c.run(account.Run, 1)

	key, err := keyutil.PrivateKeyFromFile(keys.tokenKey)
	if err != nil {
		return err
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return err
	}
	// It fills Secrets of the type kubernetes.io/service-account-token.
	secrets, err := accounts.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), c.client,
		accounts.TokensControllerOptions{TokenGenerator: generator, RootCA: c.config.CAData})
	if err != nil {
		return err
	}
	c.run(secrets.Run, workers)

	// It writes the ConfigMap kube-root-ca.crt into each namespace.
	authority, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), c.client, c.config.CAData)
	if err != nil {
		return err
	}
	c.run(authority.Run, 1)
	return nil
}

// garbageCollector adds what deletes objects whose owners are gone. Sync starts and stops its
// watches as kinds come and go.
func (c *controllers) garbageCollector(ctx context.Context) error {
	collector, err := garbagecollector.NewGarbageCollector(ctx, c.client, c.metadata, c.mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(c.typed, c.byKind), c.started)
	if err != nil {
		return err
	}
	c.add(func(ctx context.Context) { collector.Run(ctx, deletionWorkers, rediscovery) })
	c.add(func(ctx context.Context) { collector.Sync(ctx, c.client.Discovery(), rediscovery) })
	return nil
}

// resourceQuota adds what counts the use of quotas; the admission of the API server enforces them.
// It also counts objects of custom kinds, so it looks for new kinds, too.
func (c *controllers) resourceQuota(ctx context.Context) error {
	configuration, err := newQuotas(c.typed)
	if err != nil {
		return err
	}
	kinds := c.client.Discovery().ServerPreferredNamespacedResources
	quotas, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               c.client.CoreV1(),
		ResourceQuotaInformer:     c.typed.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(5 * time.Minute),
		InformerFactory:           informerfactory.NewInformerFactory(c.typed, c.byKind),
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resync),
		DiscoveryFunc:             kinds,
		IgnoredResourcesFunc:      configuration.IgnoredResources,
		InformersStarted:          c.started,
		Registry:                  generic.NewRegistry(configuration.Evaluators()),
		UpdateFilter:              quota.DefaultUpdateFilter(),
	})
	if err != nil {
		return err
	}
	c.run(quotas.Run, workers)
	c.add(func(ctx context.Context) { quotas.Sync(ctx, kinds, rediscovery) })
	return nil
}

// disruption adds the controller of PodDisruptionBudgets, which finds out by the scale of a Pod's
// owner, of any kind, how many Pods there should be.
func (c *controllers) disruption(ctx context.Context) error {
	scales, err := scale.NewForConfig(c.config, c.mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(c.client.Discovery()))
	if err != nil {
		return err
	}
	core, apps := c.typed.Core().V1(), c.typed.Apps().V1()
	c.add(disruption.NewDisruptionController(ctx, core.Pods(), c.typed.Policy().V1().PodDisruptionBudgets(), core.ReplicationControllers(),
		apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), c.client, c.mapper, scales, c.client.Discovery()).Run)
	return nil
}

// volumes adds what removes the finalizers of claims and volumes that are not in use: without it
// they could not be deleted.
func (c *controllers) volumes(ctx context.Context) error {
	core := c.typed.Core().V1()
	claims, err := pvcprotection.NewPVCProtectionController(klog.FromContext(ctx), core.PersistentVolumeClaims(), core.Pods(), c.client)
	if err != nil {
		return err
	}
	c.run(claims.Run, 1)
	c.run(pvprotection.NewPVProtectionController(klog.FromContext(ctx), core.PersistentVolumes(), c.client).Run, 1)
	return nil
}
