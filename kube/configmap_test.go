package kube

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// D24: what is a conflict and what is not.
func TestMergeKeys(t *testing.T) {
	type keys = map[string]string
	tests := map[string]struct {
		current, base keys
		set           map[string]*string
		want          keys
		conflict      string
	}{
		"a new key":                        {nil, nil, map[string]*string{"a": new("1")}, keys{"a": "1"}, ""},
		"a key as in base":                 {keys{"a": "1", "b": "x"}, keys{"a": "1"}, map[string]*string{"a": new("2")}, keys{"a": "2", "b": "x"}, ""},
		"another key has changed":          {keys{"a": "1", "b": "y"}, keys{"a": "1", "b": "x"}, map[string]*string{"a": new("2")}, keys{"a": "2", "b": "y"}, ""},
		"a key to delete":                  {keys{"a": "1"}, keys{"a": "1"}, map[string]*string{"a": nil}, keys{}, ""},
		"the key has changed":              {keys{"a": "3"}, keys{"a": "1"}, map[string]*string{"a": new("2")}, nil, "a"},
		"the key has appeared":             {keys{"a": ""}, nil, map[string]*string{"a": new("2")}, nil, "a"},
		"the key is gone":                  {nil, keys{"a": "1"}, map[string]*string{"a": new("2")}, nil, "a"},
		"the key is as wanted already":     {keys{"a": "2"}, keys{"a": "1"}, map[string]*string{"a": new("2")}, keys{"a": "2"}, ""},
		"the key is deleted already":       {nil, keys{"a": "1"}, map[string]*string{"a": nil}, keys{}, ""},
		"two of three keys have changed":   {keys{"a": "3", "b": "1", "c": "3"}, keys{"a": "1", "b": "1", "c": "1"}, map[string]*string{"a": nil, "b": nil, "c": nil}, nil, `["a" "c"]`},
		"a key to delete that has changed": {keys{"a": "3"}, keys{"a": "1"}, map[string]*string{"a": nil}, nil, "a"},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			got, err := mergeKeys(test.current, test.base, test.set)
			if test.conflict != "" {
				if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), test.conflict) {
					t.Errorf("error %v, want a conflict that names %s", err, test.conflict)
				}
				return
			}
			if err != nil || !maps.Equal(got, test.want) {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// D13, D24: created on the first write; nothing but the keys is touched.
func TestWriteConfigMap(t *testing.T) {
	t.Parallel()
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	client, ctx := world.client, t.Context()

	written, err := client.ConfigMap(ns, "values").Write(ctx, nil, map[string]*string{"a": nil})
	if err != nil || written.Exists() {
		t.Errorf("deleting a key of nothing: %+v, %v; want no ConfigMap and no error", written, err)
	}
	text := "# comment\n  x:   1 \r\n"
	written, err = client.ConfigMap(ns, "values").Write(ctx, nil, map[string]*string{"a": &text})
	if err != nil || written.Data["a"] != text || !written.Exists() {
		t.Fatalf("the first write: %+v, %v", written, err)
	}
	world.updateConfigMap(ns, "values", func(c *corev1.ConfigMap) {
		c.Labels, c.Annotations = map[string]string{"l": "1"}, map[string]string{"a": "1"}
		c.BinaryData = map[string][]byte{"bin": {0, 255}}
		c.Data["other"] = "other # as it is"
	})
	written, err = client.ConfigMap(ns, "values").Write(ctx, written.Data, map[string]*string{"b": new("2"), "a": nil})
	must(t, err)
	if want := map[string]string{"b": "2", "other": "other # as it is"}; !maps.Equal(written.Data, want) {
		t.Errorf("data %q, want %q", written.Data, want)
	}
	object, err := world.admin.CoreV1().ConfigMaps(ns).Get(ctx, "values", metav1.GetOptions{})
	must(t, err)
	if object.Labels["l"] != "1" || object.Annotations["a"] != "1" || string(object.BinaryData["bin"]) != "\x00\xff" {
		t.Errorf("labels, annotations or binary data were touched: %v", object)
	}
	read, err := client.ConfigMap(ns, "values").Read(ctx)
	if err != nil || read.ResourceVersion != written.ResourceVersion || !maps.Equal(read.Data, written.Data) {
		t.Errorf("read %+v, %v; written %+v", read, err, written)
	}
	again, err := client.ConfigMap(ns, "values").Write(ctx, read.Data, map[string]*string{"b": new("2")})
	if err != nil || again.ResourceVersion != read.ResourceVersion {
		t.Errorf("writing what is there made a version: %+v, %v", again, err)
	}
	stale, err := client.ConfigMap(ns, "values").Write(ctx, map[string]string{"b": "1"}, map[string]*string{"b": new("3")})
	if !errors.Is(err, ErrConflict) || stale.Data["b"] != "2" || !strings.Contains(err.Error(), "values") {
		t.Errorf("over a foreign change: %+v, %v; want ErrConflict with what is there", stale, err)
	}
}

// P1: a ConfigMap that was deleted comes back as the writer knew it, also in other keys; an
// empty one that somebody put into its place does not.
func TestWriteConfigMapAfterItsDeletion(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	client, ctx := world.client, t.Context()
	known := map[string]string{"a": "1 # comment", "b": "2"}

	none, err := client.ConfigMap(ns, "values").Write(ctx, known, map[string]*string{"b": new("2"), "c": nil})
	if err != nil || none.Exists() || none.Data != nil {
		t.Errorf("nothing to write: %+v, %v; want no ConfigMap and no error", none, err)
	}
	written, err := client.ConfigMap(ns, "values").Write(ctx, known, map[string]*string{"b": nil, "c": new("3")})
	if want := map[string]string{"a": "1 # comment", "c": "3"}; err != nil || !maps.Equal(written.Data, want) {
		t.Errorf("data %q, %v; want %q", written.Data, err, want)
	}
	if want := map[string]string{"a": "1 # comment", "b": "2"}; !maps.Equal(known, want) {
		t.Errorf("the writer's data are %q now", known)
	}
	world.deleteConfigMap(ns, "values")
	world.createConfigMap(ns, "values", nil)
	written, err = client.ConfigMap(ns, "values").Write(ctx, known, map[string]*string{"c": new("3")})
	if want := map[string]string{"c": "3"}; err != nil || !maps.Equal(written.Data, want) {
		t.Errorf("into an empty one: data %q, %v; want %q", written.Data, err, want)
	}
}

// Writers of different keys never lose a write, writers of one key take turns.
func TestWriteConfigMapConcurrently(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	const writers, rounds = 4, 10
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			var known ConfigMap
			for round := range rounds {
				own := fmt.Sprintf("own%d", writer)
				var err error
				known, err = world.client.ConfigMap(ns, "values").Write(t.Context(), known.Data, map[string]*string{own: new(fmt.Sprint(round))})
				if err != nil {
					t.Errorf("writer %d: %v", writer, err)
					return
				}
				known = world.increment(ns, known)
			}
		})
	}
	group.Wait()
	got, err := world.client.ConfigMap(ns, "values").Read(t.Context())
	must(t, err)
	if n := len(got.Data["shared"]); n != writers*rounds {
		t.Errorf("the shared key was incremented %d times, want %d", n, writers*rounds)
	}
	for writer := range writers {
		if text := got.Data[fmt.Sprintf("own%d", writer)]; text != fmt.Sprint(rounds-1) {
			t.Errorf("the key of writer %d is %q", writer, text)
		}
	}
}

// increment adds a character to the shared key, deciding again after each
// conflict. A wanted text that is there already counts as written, so that of
// each turn has to be unique.
func (w *world) increment(ns string, known ConfigMap) ConfigMap {
	for {
		next := known.Data["shared"] + "x"
		set := map[string]*string{"shared": &next, "turn": new(rand.Text())}
		written, err := w.client.ConfigMap(ns, "values").Write(w.t.Context(), known.Data, set)
		if err == nil {
			return written
		}
		if !errors.Is(err, ErrConflict) {
			w.t.Error(err)
			return known
		}
		known = written
	}
}

// D14, P1: the first state, each change of data, the deletion; nothing else.
func TestWatchConfigMap(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	world.createConfigMap(ns, "values", map[string]string{"a": "1"})
	states, first := make(chan ConfigMap, 100), true
	world.client.ConfigMap(ns, "values").Watch(t.Context(), func(c ConfigMap) { states <- c })
	expect := func(want string) {
		t.Helper()
		c := await(t, want, states)
		if first && !c.Exists() { // the watch begins with the cache of the API server, which may not have it yet
			c = await(t, want, states)
		}
		first = false
		if got := fmt.Sprint(c.Exists(), c.Data) + c.ConfirmPurge; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	}
	expect("true map[a:1]")
	world.createConfigMap(ns, "other", map[string]string{"a": "2"})
	world.updateConfigMap(ns, "values", func(c *corev1.ConfigMap) { c.Labels["test"] = "changed" })
	world.updateConfigMap(ns, "values", func(c *corev1.ConfigMap) { c.Data["a"] = "2" })
	expect("true map[a:2]")
	world.updateConfigMap(ns, "values", func(c *corev1.ConfigMap) { c.Annotations = map[string]string{ConfirmPurgeAnnotation: "yes"} })
	expect("true map[a:2]yes")
	world.deleteConfigMap(ns, "values")
	expect("false map[]")
	world.createConfigMap(ns, "values", nil)
	expect("true map[]")
}

// P1.2: a confirmation is removed once it was looked at, and nothing else; a newer one stays.
func TestRemoveConfirmation(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	remove := func(value, want string) {
		t.Helper()
		left, err := world.client.ConfigMap(ns, "values").RemoveConfirmation(t.Context(), value)
		if got := fmt.Sprint(left.Exists(), left.Data) + left.ConfirmPurge; err != nil || got != want {
			t.Errorf("removed %s: left %s, %v; want %s", value, got, err, want)
		}
	}
	remove("one", "false map[]")
	world.createConfigMap(ns, "values", map[string]string{"a": "1"})
	remove("one", "true map[a:1]")
	world.updateConfigMap(ns, "values", func(c *corev1.ConfigMap) {
		c.Annotations = map[string]string{ConfirmPurgeAnnotation: "two", "other": "stays"}
	})
	remove("one", "true map[a:1]two")
	remove("two", "true map[a:1]")
	object, err := world.admin.CoreV1().ConfigMaps(ns).Get(t.Context(), "values", metav1.GetOptions{})
	must(t, err)
	if got := fmt.Sprint(object.Annotations); got != "map[other:stays]" {
		t.Errorf("annotations %s", got)
	}
}
