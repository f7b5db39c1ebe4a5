package faultproxy

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// newClient is a client of a proxy in front of a server that knows one ConfigMap.
func newClient(t *testing.T) (*Proxy, kubernetes.Interface) {
	t.Helper()
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		cm := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "cm", Namespace: "d"}}
		_ = json.NewEncoder(w).Encode(cm)
	}))
	t.Cleanup(behind.Close)
	p := New(t, &rest.Config{Host: behind.URL}, 1)
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return p, client
}

func get(client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return client.CoreV1().RESTClient().Get().Namespace("d").Resource("configmaps").Name("cm").MaxRetries(0).Do(ctx).Error()
}

func TestRequestsPassUnchanged(t *testing.T) {
	p, client := newClient(t)
	if err := get(client); err != nil {
		t.Error(err)
	}
	if n := len(p.Faults()); n != 0 {
		t.Errorf("%d kinds of faults at rate 0", n)
	}
}

func TestEachRequestIsDisturbed(t *testing.T) {
	p, client := newClient(t)
	p.SetRate(1)
	failed := 0
	for range 15 {
		if get(client) != nil {
			failed++
		}
	}
	total := 0
	for _, n := range p.Faults() {
		total += n
	}
	if failed < 5 || total != 15 {
		t.Errorf("%d of 15 requests failed by %v", failed, p.Faults())
	}
	p.SetRate(0)
	if err := get(client); err != nil {
		t.Errorf("after the faults: %v", err)
	}
}

func TestServerIsDownAndUp(t *testing.T) {
	p, client := newClient(t)
	p.SetDown(true)
	if err := get(client); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("while it is down: %v", err)
	}
	p.SetDown(false)
	if err := get(client); err != nil {
		t.Errorf("when it is up: %v", err)
	}
}

func TestWritesAreSeenBeforeAndAfter(t *testing.T) {
	p, client := newClient(t)
	var seen []Write
	drop := false
	p.OnWrite(func(w Write) bool {
		seen = append(seen, w)
		return drop
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if _, err := client.CoreV1().Secrets("d").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0].Effect != "POST secrets" || seen[0].Done || !seen[1].Done || seen[1].Status != http.StatusOK {
		t.Errorf("seen %+v", seen)
	}
	drop = true
	if err := client.CoreV1().ConfigMaps("d").Delete(t.Context(), "cm", metav1.DeleteOptions{}); err == nil {
		t.Error("a dropped request has an answer")
	}
	if last := seen[len(seen)-1]; last.Effect != "DELETE configmaps" || last.Done {
		t.Errorf("seen %+v", last)
	}
}

func TestOpenWatchesAreCountedAndCut(t *testing.T) {
	p, client := newClient(t)
	w, err := client.CoreV1().ConfigMaps("d").Watch(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil {
		t.Fatal(err)
	}
	if all := p.Watches(); len(all) != 1 || all[0] != "/api/v1/namespaces/d/configmaps a=b" {
		t.Errorf("watches are %q", all)
	}
	p.CutWatches()
	select {
	case <-ended(w.ResultChan()):
	case <-time.After(time.Minute):
		t.Error("the watch goes on")
	}
	if p.Faults()["watch: cut, all at once"] != 1 {
		t.Errorf("counted %v", p.Faults())
	}
}

func ended[T any](c <-chan T) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for range c { // until it is closed
		}
		close(done)
	}()
	return done
}

func TestResourceOfPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/default":                                "namespaces",
		"/api/v1/namespaces/d/configmaps":                           "configmaps",
		"/api/v1/namespaces/d/configmaps/a":                         "configmaps",
		"/apis/apps/v1/namespaces/d/deployments/web":                "deployments",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a": "customresourcedefinitions",
	} {
		if got := resourceOf(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
