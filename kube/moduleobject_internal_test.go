package kube

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// moduleAPI answers lists with errors, the last one for good.
type moduleAPI struct {
	dynamic.ResourceInterface

	lists []error
}

func (a *moduleAPI) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	err := a.lists[0]
	if len(a.lists) > 1 {
		a.lists = a.lists[1:]
	}
	web := unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"suspend": true}}}
	return &unstructured.UnstructuredList{Items: []unstructured.Unstructured{web}}, err
}

// H27: an API server that denies all for a moment has not said that nothing is suspended.
func TestReadOfModuleObjectsDenied(t *testing.T) {
	denied := apierrors.NewForbidden(moduleResource().GroupResource(), "", nil)
	for name, c := range map[string]struct {
		lists []error
		found int
		fails func(error) bool
		lasts time.Duration
	}{
		"denied for a moment": {[]error{denied, denied, nil}, 1, nil, deniedFor},
		"denied":              {[]error{denied}, 0, apierrors.IsForbidden, 2 * deniedFor},
		"not known":           {[]error{apierrors.NewUnauthorized("who?")}, 0, apierrors.IsUnauthorized, time.Second},
		"no kind":             {[]error{apierrors.NewNotFound(moduleResource().GroupResource(), "")}, 0, nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				all, err := (&ModuleObjects{api: &moduleAPI{lists: c.lists}}).Read(t.Context())
				if len(all) != c.found || (err == nil) != (c.fails == nil) || err != nil && !c.fails(err) {
					t.Errorf("%d objects, %v", len(all), err)
				}
				if took := time.Since(began); took > c.lasts {
					t.Errorf("it takes %s", took)
				}
			})
		})
	}
}

// deniedNowAndThen allows each second watch, which lasts for an hour.
type deniedNowAndThen struct {
	dynamic.ResourceInterface

	watches int
}

func (a *deniedNowAndThen) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion("10")
	return list, nil
}

func (a *deniedNowAndThen) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("lists only")
	}
	if a.watches++; a.watches%2 == 1 {
		return nil, apierrors.NewForbidden(moduleResource().GroupResource(), "", nil)
	}
	w := watch.NewFake()
	time.AfterFunc(time.Hour, w.Stop)
	return w, nil
}

// J15: each restart of an API server denies a watch for a moment. Only denials in a row say that the
// operator may not watch.
func TestDenialsOfModuleObjectsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Hour)
		defer stop()
		api := &deniedNowAndThen{}
		m := &ModuleObjects{api: api, client: &Client{watches: unwatched{}, log: slog.New(slog.DiscardHandler)}}
		if denied := m.follow(ctx, func(ModuleNews) {}); denied != nil {
			t.Errorf("after %d watches: %v", api.watches, denied)
		}
		if api.watches < 2*maxDenials {
			t.Errorf("only %d watches", api.watches)
		}
	})
}
