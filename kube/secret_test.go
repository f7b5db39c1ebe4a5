package kube

import (
	"errors"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// D40, D41: the Secret with values is read, watched and written like the ConfigMap, also binary values, and no error
// quotes one.
func TestSecretWithValues(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	client, ctx := world.client, t.Context()
	seen := make(chan ConfigMap, 100)
	client.Secret(ns, "values").Watch(ctx, func(content ConfigMap) { seen <- content })
	if first := <-seen; first.Exists() {
		t.Errorf("first seen: %+v", first)
	}
	if none, err := client.Secret(ns, "values").Read(ctx); err != nil || none.Exists() {
		t.Errorf("no Secret: %+v, %v", none, err)
	}
	written, err := client.Secret(ns, "values").Write(ctx, nil, map[string]*string{"a": new("x: 1\n")})
	if err != nil || written.Data["a"] != "x: 1\n" {
		t.Fatalf("the first write: %+v, %v", written, err)
	}
	if news := <-seen; news.Data["a"] != "x: 1\n" || news.ResourceVersion != written.ResourceVersion {
		t.Errorf("seen: %+v", news)
	}
	secrets := world.admin.CoreV1().Secrets(ns)
	object, err := secrets.Get(ctx, "values", metav1.GetOptions{})
	must(t, err)
	object.Data["other"] = []byte{0, 255}
	must(t, second(secrets.Update(ctx, object, metav1.UpdateOptions{})))
	written, err = client.Secret(ns, "values").Write(ctx, written.Data, map[string]*string{"a": nil, "b": new("2")})
	if want := map[string]string{"b": "2", "other": "\x00\xff"}; err != nil || !maps.Equal(written.Data, want) {
		t.Errorf("data %q, %v; want %q", written.Data, err, want)
	}
	stale, err := client.Secret(ns, "values").Write(ctx, map[string]string{"b": "planted"}, map[string]*string{"b": new("planted too")})
	if !errors.Is(err, ErrConflict) || stale.Data["b"] != "2" || strings.Contains(err.Error(), "planted") {
		t.Errorf("over a foreign change: %+v, %v", stale, err)
	}
	_, err = client.Secret(ns, "values").Write(ctx, written.Data, map[string]*string{"big": new(strings.Repeat("planted", 1<<18))})
	if err == nil || !strings.Contains(err.Error(), "the API server refuses it: Invalid") || strings.Contains(err.Error(), "planted") {
		t.Errorf("too large: %v", err)
	}
}
