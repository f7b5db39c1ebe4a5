package kube

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// P3: the last valid contents come back as they were, whatever their keys, also one of the largest size; nothing is
// written for what is kept already, and a Secret of somebody else is left alone.
func TestLastValid(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	client, ctx := world.client, t.Context()
	secrets := world.admin.CoreV1().Secrets(ns)
	version := func() string {
		secret, err := secrets.Get(ctx, LastValidName("values"), metav1.GetOptions{})
		must(t, err)
		return secret.ResourceVersion
	}

	must(t, client.LastValid(ns, "values").Write(ctx, LastValid{}))
	if kept, err := client.LastValid(ns, "values").Read(ctx); kept != nil || err != nil {
		t.Errorf("nothing to keep: %v, %v; want nil", kept, err)
	}
	data := LastValid{
		Config: map[string]string{"a": "x: 1 # comment\r\n", "secret.a": "c", "big": strings.Repeat("x", 1<<20-100)},
		Secret: map[string]string{"a": "y: 2\n", "config.a": "d"},
	}
	must(t, client.LastValid(ns, "values").Write(ctx, data))
	if kept, err := client.LastValid(ns, "values").Read(ctx); kept == nil || !kept.Equal(data) || err != nil {
		t.Errorf("%v; want what was written", err)
	}
	before := version()
	must(t, client.LastValid(ns, "values").Write(ctx, data))
	if after := version(); after != before {
		t.Error("what is kept already was written again")
	}
	must(t, client.LastValid(ns, "values").Write(ctx, LastValid{}))
	if kept, err := client.LastValid(ns, "values").Read(ctx); kept == nil || !kept.Equal(LastValid{}) || err != nil {
		t.Errorf("%v, %v; want an empty content", kept, err)
	}

	must(t, second(secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: LastValidName("other")}, Data: map[string][]byte{"a": []byte("1")}}, metav1.CreateOptions{})))
	if _, err := client.LastValid(ns, "other").Read(ctx); !errors.Is(err, ErrNotLastValid) {
		t.Errorf("read a foreign Secret: %v", err)
	}
	if err := client.LastValid(ns, "other").Write(ctx, data); !errors.Is(err, ErrNotLastValid) {
		t.Errorf("wrote over a foreign Secret: %v", err)
	}
}
