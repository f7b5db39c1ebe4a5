package devclustertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestClusterIsSharedByTheTestsOfABinary(t *testing.T) {
	first := Start(t)
	if second := Start(t); second != first {
		t.Error("the second Start made another cluster")
	}
}

func TestServerTellsItsRealVersion(t *testing.T) {
	client := clientFor(t, Start(t).RESTConfig())
	version, err := client.Discovery().ServerVersion()
	must(t, err)
	if version.Major != "1" || !strings.HasPrefix(version.GitVersion, "v1.") {
		t.Errorf("version %s (major %s): clients that compare versions will refuse it", version.GitVersion, version.Major)
	}
}

func TestKubeconfigChecksTheServersCertificate(t *testing.T) {
	config := Start(t).RESTConfig()
	if config.Insecure || len(config.CAData) == 0 {
		t.Errorf("insecure %v, %d bytes of CA; want a verified connection", config.Insecure, len(config.CAData))
	}
	config.CAData = nil // the machine's own authorities do not know the cluster
	if _, err := clientFor(t, config).Discovery().ServerVersion(); err == nil {
		t.Error("a client without the cluster's CA trusts the server")
	}
}

func TestRESTConfigIsTheCallersToChange(t *testing.T) {
	cluster := Start(t)
	cluster.RESTConfig().Host = "https://elsewhere"
	if host := cluster.RESTConfig().Host; strings.Contains(host, "elsewhere") {
		t.Errorf("host %s: one test changed the configuration of all", host)
	}
}

func TestDeploymentBecomesPodsAndGoesWithThem(t *testing.T) {
	cluster := Start(t)
	namespace, client := cluster.Namespace(t), clientFor(t, cluster.RESTConfig())
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
	must(t, second(client.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{})))
	pods := func(want int) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for _, pod := range list.Items {
				if pod.Status.Phase != corev1.PodPending {
					t.Errorf("pod %s is %s; without nodes it can only be Pending", pod.Name, pod.Status.Phase)
				}
			}
			return len(list.Items) == want, nil
		}
	}
	eventually(t, "two pods", pods(2))

	must(t, client.AppsV1().Deployments(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually(t, "the pods to be collected", pods(0))
}

// Tests delete namespaces, as people do.
func TestNamespaceIsDeletedWithItsObjects(t *testing.T) {
	cluster := Start(t)
	client := clientFor(t, cluster.RESTConfig())
	namespace := cluster.Namespace(t)
	if !strings.HasPrefix(namespace, "testnamespaceisdeletedwithitsobjects-") {
		t.Errorf("namespace %s does not name its test", namespace)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "object"}}
	must(t, second(client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})))
	must(t, client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	eventually(t, "the namespace to be gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

func TestRBACDeniesWhatAServiceAccountWasNotGiven(t *testing.T) {
	cluster := Start(t)
	namespace, admin := cluster.Namespace(t), clientFor(t, cluster.RESTConfig())
	allowConfigMaps(t, admin, namespace)
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(cluster.RESTConfig())
	config.BearerToken = token.Status.Token
	account := clientFor(t, config)

	// The authorizer learns of the role through a watch.
	eventually(t, "the role to be in force", func(ctx context.Context) (bool, error) {
		_, err := account.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if _, err := account.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("secrets: %v; want Forbidden", err)
	}
	if _, err := account.CoreV1().ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("config maps of another namespace: %v; want Forbidden", err)
	}
	config.BearerToken = "forged"
	if _, err := clientFor(t, config).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("forged token: %v; want Unauthorized", err)
	}
}

func TestBorrowedClusterServesOneTestAfterTheOther(t *testing.T) {
	skipWhenShort(t)
	var first *Cluster
	t.Run("first", func(t *testing.T) { first = Borrow(t) })
	t.Run("second", func(t *testing.T) {
		if second := Borrow(t); second != first {
			t.Error("another cluster was started, though one was given back")
		}
		if idle().take() != nil {
			t.Error("the borrowed cluster is there for others")
		}
	})
	t.Run("killed", func(t *testing.T) { // kube has the test in which it comes back
		cluster := Borrow(t)
		cluster.Kill(t)
		cluster.Kill(t) // of a killed one: nothing
		if _, err := clientFor(t, cluster.RESTConfig()).Discovery().ServerVersion(); err == nil {
			t.Error("the API server answers after Kill")
		}
	})
	if idle().take() != nil {
		t.Error("a killed cluster was given back")
	}
	if _, err := os.Stat(first.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a killed cluster: %v", err)
	}
}

func TestToolsOfHooksAreThere(t *testing.T) {
	cluster := Start(t)
	tools := cluster.Tools(t)
	kubectl := exec.Command(filepath.Join(tools, "kubectl"), "--kubeconfig", cluster.Kubeconfig(), "get", "namespace", "default", "-o", "name")
	if out, err := kubectl.CombinedOutput(); err != nil || string(out) != "namespace/default\n" {
		t.Errorf("kubectl: %v: %s", err, out)
	}
	jq := exec.Command(filepath.Join(tools, "jq"), "-c", ".a")
	jq.Stdin = strings.NewReader(`{"a":{"b":1}}`)
	if out, err := jq.CombinedOutput(); err != nil || string(out) != "{\"b\":1}\n" {
		t.Errorf("jq: %v: %s", err, out)
	}
}

// allowConfigMaps lets the namespace's default account read ConfigMaps in it.
func allowConfigMaps(t *testing.T, admin kubernetes.Interface, namespace string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}}},
	}
	must(t, second(admin.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{})))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}},
	}
	must(t, second(admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})))
}

func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// eventually waits for a condition; the bound is for a hung cluster, not a
// measure of anything.
func eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), pollInterval, 2*time.Minute, true, condition); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call whose result is not needed.
func second[V any](_ V, err error) error { return err }
