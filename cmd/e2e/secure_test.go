package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/testkit/devclustertest"
	"addon-operator/testkit/faultproxy"
)

// tokenOf makes a ServiceAccount and returns its token.
func (h *fixture) tokenOf(account string) string {
	h.t.Helper()
	config, err := clientcmd.LoadFromFile(h.serviceAccount(account))
	must(h.t, err)
	for _, user := range config.AuthInfos {
		return user.Token
	}
	h.t.Fatal("no token")
	return ""
}

// grantAll lets a ServiceAccount do something in the whole cluster.
func (h *fixture) grantAll(account string, rules ...rbacv1.PolicyRule) {
	h.t.Helper()
	name := h.namespace + ":" + account
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: h.namespace}},
	}
	_, err := h.client.RbacV1().ClusterRoles().Create(h.ctx, role, metav1.CreateOptions{})
	if err == nil {
		_, err = h.client.RbacV1().ClusterRoleBindings().Create(h.ctx, binding, metav1.CreateOptions{})
	}
	must(h.t, err)
	h.t.Cleanup(func() {
		err := errors.Join(
			h.client.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}),
			h.client.RbacV1().ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{}),
		)
		if err != nil {
			h.t.Error(err)
		}
	})
}

// Secure metrics, against a real API server: TLS, probes for everybody, and everything else for those who may. J11.
func TestSecureMetrics(t *testing.T) {
	h := newFixture(t, "-- modules/values.yaml --\n")
	reader, stranger := h.tokenOf("reader"), h.tokenOf("stranger")
	h.grantAll("reader", rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	h.awaitAllowed("reader", authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}})
	o := h.start("ADDON_OPERATOR_SECURE_METRICS=true")
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(path, token string) (status int, body string) {
		request, err := http.NewRequestWithContext(h.ctx, http.MethodGet, strings.Replace(o.public, "http:", "https:", 1)+path, http.NoBody)
		must(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(data)
	}
	h.eventually("readiness", func() error {
		if status, body := ask("/readyz", ""); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	for _, c := range []struct {
		path, token string
		status      int
		says        string
	}{
		{"/healthz", "", 200, "ok"},
		{"/readyz?verbose", "", 401, "Authorization: Bearer"},
		{"/metrics", "", 401, "Authorization: Bearer"},
		{"/metrics", "no.real.token", 401, "rejects this token"},
		{"/metrics", stranger, 403, "is not allowed to get the nonResourceURL /metrics"},
		{"/metrics", reader, 200, "addon_operator_live_ticks"},
		{"/queue", reader, 403, "is not allowed to get the nonResourceURL /queue"},
		{"/", "", 401, "Authorization: Bearer"},
	} {
		if status, body := ask(c.path, c.token); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %.200s; want %d %s", c.path, status, body, c.status, c.says)
		}
	}
	if status, body := get(o.public + "/metrics"); status == http.StatusOK {
		t.Errorf("it answers without TLS: %d %.100s", status, body)
	}
	o.ask("module list", "There are no modules.") // by the socket, as before
	if log := strings.Join(o.output.lines(), "\n"); strings.Contains(log, stranger) || strings.Contains(log, reader) {
		t.Error("the log has a token")
	}
}

// A write of Helm does not come back when the operator is to stop. At the end of the grace period Helm stops writing,
// in the middle of the release, and the process ends in good order; the next operator brings the release to its end.
// F18.
func TestGracePeriodIsOver(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
webEnabled: true
-- modules/010-web/templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {text: there}}
-- modules/010-web/templates/later.yaml --
{apiVersion: v1, kind: Service, metadata: {name: later}, spec: {ports: [{port: 80}]}}
`)
	proxy := faultproxy.New(t, devclustertest.Start(t).RESTConfig(), 0)
	direct := h.kubeconfig
	h.kubeconfig = proxy.Kubeconfig(t)
	reached, release := make(chan bool), make(chan bool)
	var first, last sync.Once
	free := func() { last.Do(func() { close(release) }) }
	t.Cleanup(free)
	proxy.OnWrite(func(w faultproxy.Write) bool {
		if !strings.HasSuffix(w.Effect, " configmaps") || w.Done {
			return false
		}
		first.Do(func() { close(reached) })
		<-release
		return true
	})
	o := h.start("ADDON_OPERATOR_GRACE_PERIOD=1s")
	<-reached
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	o.expect("the grace period is over: Helm stops writing")
	o.expect("addon-operator has stopped")
	free()
	for _, object := range []string{"configmap/web", "service/later"} {
		if resource, name, _ := strings.Cut(object, "/"); h.get(resource, name) == nil {
			t.Errorf("%s was written", object)
		}
	}
	if got := h.revisions("web"); got != "1:failed" && got != "1:pending-install" {
		t.Errorf("revisions %s", got)
	}
	h.kubeconfig = direct
	h.start().ready()
	h.awaitConfigMap("web", "text", "there")
	h.awaitObject(true, "service", "later")
}
