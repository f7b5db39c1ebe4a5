package operator

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
	"addon-operator/server"
)

type writtenRequests struct {
	last kube.ModuleRequest
	err  error
}

func (w *writtenRequests) Request(_ context.Context, name, at string, r kube.ModuleRequest) (kube.ModuleObject, error) {
	w.last = r
	if at == "" {
		return kube.ModuleObject{}, errors.New("without a time it is no request")
	}
	return kube.ModuleObject{Name: name, Suspend: r.Suspend == nil}, w.err
}

// J20: each button is one request; what the API server denies is said with a way out.
func TestActOn(t *testing.T) {
	objects := &writtenRequests{}
	act := actsOf(objects, slog.New(slog.DiscardHandler))
	for do, want := range map[string]func(kube.ModuleRequest) bool{
		server.ActRun:     func(r kube.ModuleRequest) bool { return r.Run && !r.Retry && r.Suspend == nil },
		server.ActRetry:   func(r kube.ModuleRequest) bool { return r.Retry && !r.Run && r.Suspend == nil },
		server.ActSuspend: func(r kube.ModuleRequest) bool { return r.Suspend != nil && *r.Suspend },
		server.ActResume:  func(r kube.ModuleRequest) bool { return r.Suspend != nil && !*r.Suspend },
	} {
		kept, err := act(t.Context(), "web", do)
		if err != nil || !want(objects.last) || kept != (objects.last.Suspend == nil) {
			t.Errorf("%s: kept %v, %v, %+v", do, kept, err, objects.last)
		}
	}
	objects.err = apierrors.NewForbidden(schema.GroupResource{Group: kube.ModuleGroup, Resource: "modules"}, "web", errors.New("no"))
	_, err := act(t.Context(), "web", server.ActRetry)
	var mayNot *server.MayNotError
	if !errors.As(err, &mayNot) || !strings.Contains(err.Error(), "allow it to patch modules.addon-operator.io") || !strings.Contains(err.Error(), "addon-operator retry web") {
		t.Errorf("denied: %v", err)
	}
	objects.err = errors.New("the API server has no kind Module")
	if _, err := act(t.Context(), "web", server.ActRetry); err == nil || errors.As(err, &mayNot) {
		t.Errorf("without the kind: %v", err)
	}
}
