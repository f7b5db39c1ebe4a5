package remote

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"addon-operator/kube"
	"addon-operator/server"
)

// An edit is validated by the operator whose values are written, and by no other: one on this machine may serve another
// cluster, namespace or ConfigMap.
func TestEditMeetsItsOperator(t *testing.T) {
	headers := http.Header{}
	operator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), headers)
	}))
	defer operator.Close()
	client, err := kube.Connect(kube.Options{Config: &rest.Config{Host: "https://production:6443"}})
	must(t, err)
	for name, c := range map[string]struct {
		cluster, configMap string
		args               []string
		refused, writes    string // into which ConfigMap
	}{
		"of an older version":   {writes: "addon-operator"},
		"the same":              {cluster: "https://production:6443/", configMap: "addons/addon-operator", writes: "addon-operator"},
		"another ConfigMap":     {cluster: "https://production:6443", configMap: "addons/custom", writes: "custom"},
		"another than is given": {cluster: "https://production:6443", configMap: "addons/custom", args: []string{"--config-map=mine"}, refused: "in the ConfigMap addons/custom, not in addons/mine", writes: "mine"},
		"another cluster":       {cluster: "https://127.0.0.1:1", configMap: "addons/addon-operator", refused: "serves another cluster, https://127.0.0.1:1, not https://production:6443", writes: "addon-operator"},
		"another namespace":     {cluster: "https://production:6443", configMap: "dev/custom", refused: "in the ConfigMap dev/custom, not in addons/addon-operator", writes: "addon-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			headers = http.Header{}
			if c.configMap != "" {
				headers.Set(server.ClusterHeader, c.cluster)
				headers.Set(server.ConfigMapHeader, c.configMap)
			}
			v := &valueEdit{config: configured(t, append(c.args, "--namespace=addons", "--debug-address="+strings.TrimPrefix(operator.URL, "http://"))...)}
			err := v.meet(t.Context(), client)
			if refused := err != nil; refused != (c.refused != "") || refused && !strings.Contains(err.Error(), c.refused) || v.config.ConfigMap != c.writes {
				t.Errorf("got %v, ConfigMap %s", err, v.config.ConfigMap)
			}
		})
	}
}

// Which operator is asked: the one of the debug address or socket that is given, else the one in the cluster of the kubeconfig.
func TestWhichOperatorIsAsked(t *testing.T) {
	for args, want := range map[string]bool{
		"": true, "--namespace=a": true, "-n=a": true, "--context=a": true, "--kubeconfig=a": true, "--kube-config=a": true,
		"--namespace=a --debug-address=127.0.0.1:1": false, "--context=a --debug-unix-socket=/s": false,
	} {
		if got := asksCluster(configured(t, strings.Fields(args)...)); got != want {
			t.Errorf("%q: the cluster is asked: %v", args, got)
		}
	}
}
