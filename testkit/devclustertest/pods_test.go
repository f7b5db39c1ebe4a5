package devclustertest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

type refusing func()

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) {
	r()
	return nil, errors.New("no connection")
}

// While the API server is away, the kubelet tries again, but not without a pause: that would take
// the processor from what the test waits for.
func TestFinishPodsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // virtual
		defer cancel()
		tries := 0
		count := refusing(func() {
			if tries++; tries > 1000 {
				cancel()
			}
		})
		// Without a limit of requests, which would be a pause of another kind.
		client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://nowhere", QPS: -1}, &http.Client{Transport: count})
		must(t, err)
		FinishPods(ctx, client, "default")
		if tries < 2 || tries > 1000 {
			t.Errorf("it tried %d times in ten seconds", tries)
		}
	})
}
