//go:build kube_1_34

package main

// What differs between versions of Kubernetes. .ci/build sets the tag kube_1_34 when it builds with
// kube-1.34.mod, and so on.

import (
	"context"

	quotas "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	batch "k8s.io/client-go/informers/batch/v1"
	core "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/job"
	accounts "k8s.io/kubernetes/pkg/controller/serviceaccount"
	quota "k8s.io/kubernetes/pkg/quota/v1/install"
)

func newJobs(ctx context.Context, client kubernetes.Interface, pods core.PodInformer, jobs batch.JobInformer) (*job.Controller, error) {
	return job.NewController(ctx, pods, jobs, client)
}

func newAccounts(_ context.Context, client kubernetes.Interface, all core.ServiceAccountInformer, namespaces core.NamespaceInformer) (*accounts.ServiceAccountsController, error) {
	return accounts.NewServiceAccountsController(all, namespaces, client, accounts.DefaultServiceAccountsControllerOptions())
}

func newQuotas(all informers.SharedInformerFactory) (quotas.Configuration, error) {
	return quota.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(all.ForResource)), nil
}
