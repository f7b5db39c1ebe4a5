package scenario

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"addon-operator/kube"
)

// A person who annotates or edits the ConfigMap removes nothing that it has besides.
func TestAnnotateKeepsOtherAnnotations(t *testing.T) {
	settings := NewCluster(DefaultVersion, slog.New(slog.DiscardHandler)).ConfigMap
	must(t, settings.Set(map[string]string{"a": "1"}))
	for _, change := range []func() error{
		func() error { return settings.Annotate("of/a-person", "x") },
		func() error { return settings.Annotate(kube.ConfirmPurgeAnnotation, "y") },
		func() error { return settings.Set(map[string]string{"a": "2"}) },
	} {
		must(t, change())
	}
	got, err := settings.Read(t.Context())
	if err != nil || got.ConfirmPurge != "y" || got.Data["a"] != "2" || !strings.Contains(fmt.Sprint(settings.cluster.Server.Object("v1", "ConfigMap", Namespace, ConfigMapName)), "of/a-person:x") {
		t.Errorf("the ConfigMap is %+v, %v", got, err)
	}
}
