package kube

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

func valueOf(object map[string]any) (json.RawMessage, error) {
	value, _, _ := unstructured.NestedString(object, "data", "v")
	if value == "broken" {
		return nil, errors.New("cannot filter this")
	}
	return json.Marshal(value)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call whose result is not needed.
func second[V any](_ V, err error) error { return err }

// wantError expects an error that tells of everything.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not tell of %q", err, part)
		}
	}
}

// C36: the first list is reported by synced alone.
func TestFirstListIsSilent(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{Filter: valueOf})
	b.list("2", object("b", "2", "x"), object("a", "1", "x"))
	await(t, "synced", l.synced)
	must(t, b.source.Add(object("c", "3", "x")))
	l.wants(`Added n/c "x"`)
	if got, want := strings.Join(l.snapshot(), ", "), `n/a "x", n/b "x", n/c "x"`; got != want {
		t.Errorf("snapshot %s, want %s", got, want)
	}
}

// C38: what changes nothing in the filter result fires nothing, Deleted always.
func TestChecksumRule(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{Filter: valueOf, KeepObjects: true})
	b.list("1", object("a", "1", "x"))
	must(t, b.source.Update(object("a", "2", "x")))
	objects, seq := l.watch.Snapshot()
	if seq != 0 || !strings.Contains(string(objects[0].Object), `"resourceVersion":"2"`) {
		t.Errorf("after an update without effect: seq %d, object %s; want 0 and the new object", seq, objects[0].Object)
	}
	must(t, b.source.Update(object("a", "3", "y")))
	must(t, b.source.Add(object("a", "4", "y")))
	must(t, b.source.Delete(object("a", "5", "y")))
	must(t, b.source.Delete(object("a", "5", "y")))
	must(t, b.source.Add(object("a", "6", "y")))
	l.wants(`Modified n/a "y"`, `Deleted n/a "y"`, `Added n/a "y"`)
}

// C38: without a filter the whole object counts.
func TestWithoutFilterEachVersionIsAChange(t *testing.T) {
	for situation, keep := range map[string]bool{"objects kept": true, "objects not kept": false} {
		t.Run(situation, func(t *testing.T) {
			b := newSourceBench(t)
			l := b.watch(Spec{KeepObjects: keep})
			b.list("1", object("a", "1", "x"))
			must(t, b.source.Update(object("a", "2", "x")))
			must(t, b.source.Update(object("a", "2", "x")))
			l.wants("Modified n/a ")
			objects, _ := l.watch.Snapshot()
			if (objects[0].Object != nil) != keep {
				t.Errorf("object in the cache: %s", objects[0].Object)
			}
			if strings.Contains(string(objects[0].Object), "managedFields") {
				t.Error("managedFields are kept")
			}
		})
	}
}

// A list made again, after a 410 or a lost connection, stands for the events
// that were not seen: it reports them, and no others.
func TestListAgainTellsExactlyTheMissedChanges(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{Filter: valueOf})
	recreated := object("recreated", "9", "x")
	recreated.SetUID("another")
	b.list("5", object("same", "1", "x"), object("changed", "2", "x"), object("gone", "3", "x"), object("recreated", "4", "x"), object("touched", "5", "x"))
	b.list("10", object("same", "1", "x"), object("changed", "8", "y"), object("new", "7", "x"), recreated, object("touched", "10", "x"))
	b.list("10", object("same", "1", "x"), object("changed", "8", "y"), object("new", "7", "x"), recreated, object("touched", "10", "x"))
	must(t, b.source.Delete(object("same", "11", "x")))
	l.wants(`Deleted n/gone "x"`, `Modified n/changed "y"`, `Added n/new "x"`,
		`Deleted n/recreated "x"`, `Added n/recreated "x"`, `Deleted n/same "x"`)
}

// C39: a failing filter loses nothing and is visible.
func TestFilterErrors(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{Filter: valueOf})
	b.list("1", object("a", "1", "broken"), object("b", "1", "x"))
	must(t, b.source.Update(object("a", "2", "broken"))) // changed, in an unknown way
	must(t, b.source.Update(object("a", "2", "broken"))) // not changed
	must(t, b.source.Update(object("a", "3", "y")))
	must(t, b.source.Update(object("a", "4", "broken")))
	must(t, b.source.Update(object("b", "5", "z")))
	must(t, b.source.Delete(object("b", "6", "broken")))
	l.wants(`Modified n/a `, `Modified n/a "y"`, `Modified n/a `, `Modified n/b "z"`, `Deleted n/b "z"`)
	state := l.watch.State()
	if state.FilterErrors != 5 || state.FilterMessage != "cannot filter this" {
		t.Errorf("state %+v, want 5 errors with their message", state)
	}
}

// J7: jq quotes what it fails on; of a Secret that is not shown.
func TestFilterErrorsQuoteNoSecret(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{Filter: valueOf})
	secret := object("a", "1", "broken")
	secret.SetKind("Secret")
	b.list("1", secret)
	if got := l.watch.State().FilterMessage; got != errFilterOfSecret.Error() {
		t.Errorf("the state says %q", got)
	}
}

// Watches with the same spec share the JSON of the objects.
func TestObjectsAreKeptOnce(t *testing.T) {
	b := newSourceBench(t)
	first, second := b.watch(Spec{KeepObjects: true}), b.watch(Spec{KeepObjects: true, Filter: valueOf})
	b.list("1", object("a", "1", "x"))
	must(t, b.source.Add(object("b", "2", "x")))
	b.source.started = true
	third := b.watch(Spec{KeepObjects: true})
	if !b.source.admit(t.Context()) {
		t.Fatal("the third Watch is not let in")
	}
	objects, _ := first.watch.Snapshot()
	for _, other := range []*listener{second, third} {
		others, _ := other.watch.Snapshot()
		for i := range objects {
			if &objects[i].Object[0] != &others[i].Object[0] {
				t.Errorf("object %s appears twice", objects[i].Name)
			}
		}
	}
}

// listStub answers lists; meanwhile runs while the list is on its way.
type listStub struct {
	dynamic.ResourceInterface
	lists     int
	meanwhile func()
	list      *unstructured.UnstructuredList
}

func (s *listStub) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.lists++
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return s.list, nil
}

func listOf(version string, objects ...*unstructured.Unstructured) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	list.SetResourceVersion(version)
	for _, o := range objects {
		list.Items = append(list.Items, *o)
	}
	return list
}

// A Watch that joins a running source sees each object once, whatever happens
// while its list is on its way.
func TestJoinARunningSource(t *testing.T) {
	b := newSourceBench(t)
	api := &listStub{}
	b.source.api = api
	first := b.watch(Spec{Filter: valueOf})
	b.list("10", object("a", "1", "x"), object("b", "2", "x"))
	b.source.started = true

	second, third := b.watch(Spec{Filter: valueOf}), b.watch(Spec{Filter: valueOf})
	must(t, b.source.Update(object("a", "11", "y"))) // in the list already
	api.list = listOf("13", object("a", "11", "y"), object("c", "13", "x"))
	api.meanwhile = func() {
		must(t, b.source.Delete(object("b", "12", "x"))) // in the list already
		must(t, b.source.Update(object("a", "14", "z"))) // newer
	}
	if !b.source.admit(t.Context()) || api.lists != 1 {
		t.Fatalf("%d lists for two Watches, want 1", api.lists)
	}
	must(t, b.source.Add(object("c", "13", "x"))) // the stream is behind the list
	must(t, b.source.Delete(object("c", "15", "x")))

	first.wants(`Modified n/a "y"`, `Deleted n/b "x"`, `Modified n/a "z"`, `Added n/c "x"`, `Deleted n/c "x"`)
	for _, l := range []*listener{second, third} {
		await(t, "synced", l.synced)
		l.wants(`Modified n/a "z"`, `Deleted n/c "x"`)
	}
}

// The reflector may have lost its place, and events with it, while a list for
// a joining Watch was on its way: then that list is not good enough.
func TestJoinWhileTheReflectorListsAgain(t *testing.T) {
	b := newSourceBench(t)
	api := &listStub{list: listOf("13", object("a", "1", "x"))}
	b.source.api = api
	b.watch(Spec{Filter: valueOf})
	b.list("10", object("a", "1", "x"))
	b.source.started = true
	second := b.watch(Spec{Filter: valueOf})
	api.meanwhile = func() { b.list("20", object("b", "19", "x")) }
	if b.source.admit(t.Context()) {
		t.Fatal("let in with a list older than the reflector's")
	}
	api.meanwhile, api.list = nil, listOf("20", object("b", "19", "x"))
	if !b.source.admit(t.Context()) {
		t.Fatal("not let in")
	}
	if got := strings.Join(second.snapshot(), ", "); got != `n/b "x"` {
		t.Errorf("snapshot %s, want b only", got)
	}
}

// A Watch that was let in while the reflector listed again takes no part in
// that list: it has to join once more, and is not taken back in time.
func TestListAgainThatStartedBeforeTheJoin(t *testing.T) {
	b := newSourceBench(t)
	api := &listStub{list: listOf("13", object("a", "1", "x"), object("b", "13", "x"))}
	b.source.api = api
	b.watch(Spec{Filter: valueOf})
	b.list("10", object("a", "1", "x"))
	b.source.started = true
	second := b.watch(Spec{Filter: valueOf})
	b.source.startList()
	if !b.source.admit(t.Context()) {
		t.Fatal("not let in")
	}
	b.endList("11", object("a", "1", "x"))
	must(t, b.source.Add(object("b", "13", "x")))
	must(t, b.source.Add(object("c", "14", "x")))
	api.list = listOf("14", object("a", "1", "x"), object("b", "13", "x"), object("c", "14", "x"))
	if !b.source.admit(t.Context()) {
		t.Fatal("not let in again")
	}
	second.wants(`Added n/c "x"`)
}

// A Watch that ends while another joins has nothing to give: its objects are
// forgotten before its source knows.
func TestJoinWhileTheKeeperEnds(t *testing.T) {
	b := newSourceBench(t)
	api := &listStub{list: listOf("10", object("a", "1", "x"))}
	b.source.api = api
	keeper := b.watch(Spec{KeepObjects: true})
	b.list("10", object("a", "1", "x"))
	b.source.started = true
	keeper.watch.withdraw(nil, kind{})
	second := b.watch(Spec{Filter: valueOf})
	if !b.source.admit(t.Context()) {
		t.Fatal("not let in")
	}
	if got := strings.Join(second.snapshot(), ", "); got != `n/a "x"` || api.lists != 1 {
		t.Errorf("snapshot %q after %d lists, want a, listed once", got, api.lists)
	}
}

// C17: a role may allow to list and not to watch: that one may join is no sign
// that the watch works. A failed list is over with one that succeeds.
func TestJoinIsNoSignOfAWatch(t *testing.T) {
	for verb, want := range map[string]Phase{"watch": Forbidden, "list": Complete} {
		t.Run(verb, func(t *testing.T) {
			b := newSourceBench(t)
			b.source.api = &listStub{list: listOf("10")}
			first := b.watch(Spec{Filter: valueOf})
			b.list("10")
			b.source.started = true
			denial := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
			b.source.feed.note(t.Context(), verb, denial)
			second := b.watch(Spec{Filter: valueOf})
			if !b.source.admit(t.Context()) {
				t.Fatal("not let in")
			}
			for _, l := range []*listener{first, second} {
				if state := l.watch.State(); state.Phase != want {
					t.Errorf("state %+v, want %s", state, want)
				}
			}
		})
	}
}

// C17: what is known when a permission is lost is as of then, also for who joins, until the list
// that the reflector makes afterwards is complete. Its end is notified.
func TestListAfterADenial(t *testing.T) {
	b := newSourceBench(t)
	api := &listStub{list: listOf("11", object("b", "11", "x"))}
	b.source.api = api
	l := b.watch(Spec{KeepObjects: true, Filter: valueOf})
	b.list("10", object("a", "1", "x"))
	await(t, "synced", l.synced)
	b.source.started = true
	denial := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
	b.source.refused(denial)
	b.source.feed.note(t.Context(), "watch", denial)
	if state := l.watch.State(); state.Phase != Forbidden || state.Whole() {
		t.Errorf("denied: %+v", state)
	}
	b.source.startList()
	b.source.feed.note(t.Context(), "watch", nil) // granted; the list comes
	if state := l.watch.State(); state.Phase != Syncing || state.Whole() {
		t.Errorf("while it is listed: %+v", state)
	}
	second := b.watch(Spec{Filter: valueOf})
	if !b.source.admit(t.Context()) {
		t.Fatal("not let in")
	}
	if got := strings.Join(second.snapshot(), ", "); got != `n/b "x"` || api.lists != 1 {
		t.Errorf("who joins has %s after %d lists, want what is true now", got, api.lists)
	}
	b.endList("12", object("b", "11", "x"))
	await(t, "synced again", l.synced)
	l.wants(`Deleted n/a "x"`, `Added n/b "x"`)
	if state := l.watch.State(); state.Phase != Complete || !state.Whole() {
		t.Errorf("afterwards: %+v", state)
	}
}

// C16, C17: a kind that is gone has no objects, and that is no secret: a hook may see it, also when
// the API server is away then. One that was never there, or is too large, is no snapshot.
func TestWholeWithoutKind(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{Filter: valueOf})
	l.watch.problem, l.watch.settled = errNoKind, false
	if l.watch.State().Whole() {
		t.Error("whole though its kind was never there")
	}
	l.watch.synced = true
	l.watch.kindUnknown(errors.New("nobody answers"))
	if state := l.watch.State(); state.Phase != WaitingForKind || !state.Whole() {
		t.Errorf("gone: %+v", state)
	}
	if (WatchState{Phase: TooLarge}).Whole() {
		t.Error("whole though it is too large")
	}
}

// A detached part gets nothing more.
func TestDetach(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{Filter: valueOf})
	b.list("1", object("a", "1", "x"))
	b.source.detach(l.watch.parts[scope{}])
	must(t, b.source.Add(object("b", "2", "x")))
	if got := strings.Join(l.snapshot(), ", "); got != `n/a "x"` {
		t.Errorf("snapshot %s, want a only", got)
	}
}
