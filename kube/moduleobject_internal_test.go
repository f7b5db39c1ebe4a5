package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// moduleAPI answers lists with errors, the last one for good.
type moduleAPI struct {
	dynamic.ResourceInterface

	lists []error
}

// Watch allows watches that end at once, and no streamed lists.
func (a *moduleAPI) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("lists only")
	}
	w := watch.NewFake()
	w.Stop()
	return w, nil
}

func (a *moduleAPI) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	err := a.lists[0]
	if len(a.lists) > 1 {
		a.lists = a.lists[1:]
	}
	web := unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"suspend": true}}}
	return &unstructured.UnstructuredList{Items: []unstructured.Unstructured{web}}, err
}

// answers are those of an API server to lists of modules, the last one for good; nil: one is suspended.
type answers []error

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	answer, code := (*a)[0], http.StatusOK
	if len(*a) > 1 {
		*a = (*a)[1:]
	}
	body := []byte(`{"items": [{"metadata": {"name": "web"}, "spec": {"suspend": true}}, {"metadata": {"name": "odd"}, "spec": {"suspend": "no"}}]}`)
	if status, ok := errors.AsType[*apierrors.StatusError](answer); ok {
		status.ErrStatus.Kind, status.ErrStatus.APIVersion = "Status", "v1"
		body, _ = json.Marshal(status.ErrStatus)
		code = int(status.ErrStatus.Code)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// H27: an API server that denies all for a moment has not said that nothing is suspended.
func TestReadOfModuleObjectsDenied(t *testing.T) {
	denied := apierrors.NewForbidden(moduleResource().GroupResource(), "", nil)
	for name, c := range map[string]struct {
		lists answers
		found int
		fails func(error) bool
		lasts time.Duration
	}{
		"denied for a moment": {answers{denied, denied, nil}, 1, nil, deniedFor},
		"denied":              {answers{denied}, 0, apierrors.IsForbidden, 2 * deniedFor},
		"not known":           {answers{apierrors.NewUnauthorized("who?")}, 0, apierrors.IsUnauthorized, time.Second},
		"no kind":             {answers{apierrors.NewNotFound(moduleResource().GroupResource(), "")}, 0, nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := newClient(&rest.Config{Host: "http://cluster", Transport: &c.lists}, testLog(t))
				must(t, err)
				objects, err := client.ModuleObjects("n")
				must(t, err)
				began := time.Now()
				all, err := objects.Suspended(t.Context())
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

// J15: an API server that begins again denies a watch for a moment. Only denials in a row say that the
// operator may not watch.
func TestDenialsOfModuleObjectsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := newDiscoveryStub()
		served.serve(ModuleGroup, []string{"v1alpha1"}, resource("modules", "module", "Module"))
		client := &Client{log: testLog(t), watches: unwatched{}, kinds: &kinds{list: served.list}}
		client.watcher = NewWatcher(client, testLog(t))
		denied := apierrors.NewForbidden(moduleResource().GroupResource(), "", nil)
		api := &moduleAPI{lists: []error{denied, denied, nil, denied, denied, denied}}
		key := sourceKey{resource: moduleResource(), namespace: "n"}
		s := client.watcher.newSource(key, api)
		client.watcher.sources[key] = s
		ctx, stop := context.WithCancel(t.Context())
		s.holders, s.stop = 1, stop
		news := make(chan ModuleNews, 10)
		(&ModuleObjects{client: client, namespace: "n"}).Watch(ctx, func(n ModuleNews) { news <- n })
		synctest.Wait()
		go s.run(ctx)
		if object, list := <-news, <-news; object.Set == nil || !list.Listed {
			t.Errorf("after two denials: %+v, %+v, want the list", object, list)
		}
		if n := <-news; !apierrors.IsForbidden(n.Absent) {
			t.Errorf("after three: %+v, want the denial", n)
		}
		stop()
		synctest.Wait()
	})
}

// C17: a watch that joins a forbidden one learns of it at once, not at the next attempt.
func TestJoinOfAForbiddenWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := newDiscoveryStub()
		served.serve(ModuleGroup, []string{"v1alpha1"}, resource("modules", "module", "Module"))
		client := &Client{log: testLog(t), watches: unwatched{}, kinds: &kinds{list: served.list}}
		client.watcher = NewWatcher(client, testLog(t))
		denied := apierrors.NewForbidden(moduleResource().GroupResource(), "", nil)
		key := sourceKey{resource: moduleResource(), namespace: "n"}
		s := client.watcher.newSource(key, &moduleAPI{lists: []error{denied}})
		client.watcher.sources[key] = s
		ctx, stop := context.WithCancel(t.Context())
		s.holders, s.stop = 1, stop
		join := func() <-chan error {
			failed := make(chan error, 100)
			spec := Spec{
				APIVersion: moduleResource().GroupVersion().String(), Kind: "Module", Namespaces: []string{"n"},
				Failed: func(err error) { failed <- err },
			}
			_, err := client.watcher.Watch(ctx, spec, nil, nil)
			must(t, err)
			return failed
		}
		join()
		synctest.Wait()
		go s.run(ctx)
		<-time.After(10 * time.Minute) // virtual: the attempts are half a minute apart
		failed, began := join(), time.Now()
		if err := <-failed; !apierrors.IsForbidden(err) || time.Since(began) > time.Second {
			t.Errorf("told after %s: %v", time.Since(began), err)
		}
		stop()
		synctest.Wait()
	})
}
