package rbac

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is one resource of an API server: what rules of RBAC call it, and the names
// by which hooks and manifests ask for it.
type resource struct {
	schema.GroupVersionResource

	kind       string
	namespaced bool
	short      []string
}

// resources are in the order in which an API server lists them: of two that answer to
// one name the first is meant.
type resources []resource

// find resolves what a hook or a manifest writes: the kind in any case, the plural, the
// singular or a short name (C15). An empty apiVersion stands for any.
func (r resources) find(apiVersion, word string) (resource, bool) {
	word = strings.ToLower(word)
	for _, match := range []func(resource) bool{
		func(x resource) bool { return strings.EqualFold(x.kind, word) },
		func(x resource) bool { return x.Resource == word },
		func(x resource) bool { return contains(x.short, word) },
	} {
		for _, x := range r {
			if (apiVersion == "" || apiVersion == x.GroupVersion().String()) && match(x) {
				return x, true
			}
		}
	}
	return resource{}, false
}

func contains(list []string, word string) bool {
	for _, one := range list {
		if one == word {
			return true
		}
	}
	return false
}

// known reports whether there is a resource of this group, version and plural.
func (r resources) known(want schema.GroupVersionResource) bool {
	for _, x := range r {
		if x.GroupVersionResource == want {
			return true
		}
	}
	return false
}

// add appends what a list of an API server has, without its subresources.
func (r resources) add(list metav1.APIResourceList) resources {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return r // a server that cannot spell its own group serves nothing we could ask for
	}
	for _, one := range list.APIResources {
		if !strings.Contains(one.Name, "/") {
			r = append(r, resource{gv.WithResource(one.Name), one.Kind, one.Namespaced, one.ShortNames})
		}
	}
	return r
}

// builtin are the kinds of Kubernetes itself, for work without a cluster.
func builtin() resources {
	var all resources
	for line := range strings.Lines(kindsOfKubernetes) {
		word := strings.Fields(line)
		gv, err := schema.ParseGroupVersion(word[0])
		if err != nil {
			continue // a test reads every line
		}
		x := resource{GroupVersionResource: gv.WithResource(word[1]), kind: word[2], namespaced: word[3] == "namespaced"}
		if len(word) > 4 {
			x.short = strings.Split(word[4], ",")
		}
		all = append(all, x)
	}
	return all
}

// kindsOfKubernetes is what an API server without extensions serves: version, plural,
// kind, scope and short names. A test compares it with one.
const kindsOfKubernetes = `v1 componentstatuses ComponentStatus cluster cs
v1 configmaps ConfigMap namespaced cm
v1 endpoints Endpoints namespaced ep
v1 events Event namespaced ev
v1 limitranges LimitRange namespaced limits
v1 namespaces Namespace cluster ns
v1 nodes Node cluster no
v1 persistentvolumeclaims PersistentVolumeClaim namespaced pvc
v1 persistentvolumes PersistentVolume cluster pv
v1 pods Pod namespaced po
v1 podtemplates PodTemplate namespaced
v1 replicationcontrollers ReplicationController namespaced rc
v1 resourcequotas ResourceQuota namespaced quota
v1 secrets Secret namespaced
v1 serviceaccounts ServiceAccount namespaced sa
v1 services Service namespaced svc
apiregistration.k8s.io/v1 apiservices APIService cluster
apps/v1 controllerrevisions ControllerRevision namespaced
apps/v1 daemonsets DaemonSet namespaced ds
apps/v1 deployments Deployment namespaced deploy
apps/v1 replicasets ReplicaSet namespaced rs
apps/v1 statefulsets StatefulSet namespaced sts
events.k8s.io/v1 events Event namespaced ev
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler namespaced hpa
autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler namespaced hpa
batch/v1 cronjobs CronJob namespaced cj
batch/v1 jobs Job namespaced
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest cluster csr
networking.k8s.io/v1 ingressclasses IngressClass cluster
networking.k8s.io/v1 ingresses Ingress namespaced ing
networking.k8s.io/v1 ipaddresses IPAddress cluster ip
networking.k8s.io/v1 networkpolicies NetworkPolicy namespaced netpol
networking.k8s.io/v1 servicecidrs ServiceCIDR cluster
policy/v1 poddisruptionbudgets PodDisruptionBudget namespaced pdb
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding cluster
rbac.authorization.k8s.io/v1 clusterroles ClusterRole cluster
rbac.authorization.k8s.io/v1 rolebindings RoleBinding namespaced
rbac.authorization.k8s.io/v1 roles Role namespaced
storage.k8s.io/v1 csidrivers CSIDriver cluster
storage.k8s.io/v1 csinodes CSINode cluster
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity namespaced
storage.k8s.io/v1 storageclasses StorageClass cluster sc
storage.k8s.io/v1 volumeattachments VolumeAttachment cluster
storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass cluster vac
admissionregistration.k8s.io/v1 mutatingadmissionpolicies MutatingAdmissionPolicy cluster
admissionregistration.k8s.io/v1 mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding cluster
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration cluster
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy cluster
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding cluster
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration cluster
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition cluster crd,crds
scheduling.k8s.io/v1 priorityclasses PriorityClass cluster pc
coordination.k8s.io/v1 leases Lease namespaced
node.k8s.io/v1 runtimeclasses RuntimeClass cluster
discovery.k8s.io/v1 endpointslices EndpointSlice namespaced
resource.k8s.io/v1 deviceclasses DeviceClass cluster
resource.k8s.io/v1 resourceclaims ResourceClaim namespaced
resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate namespaced
resource.k8s.io/v1 resourceslices ResourceSlice cluster
flowcontrol.apiserver.k8s.io/v1 flowschemas FlowSchema cluster
flowcontrol.apiserver.k8s.io/v1 prioritylevelconfigurations PriorityLevelConfiguration cluster
`
