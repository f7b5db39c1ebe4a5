package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	if state.FilterErrors != 5 {
		t.Errorf("state %+v, want 5 errors", state)
	}
}

// J7: jq quotes what it fails on; of a Secret that is not shown.
func TestFilterErrorsQuoteNoSecret(t *testing.T) {
	b := newSourceBench(t)
	var log bytes.Buffer
	l := b.watch(Spec{Filter: valueOf})
	l.watch.watcher.log = slog.New(slog.NewTextHandler(&log, nil))
	secret := object("a", "1", "broken")
	secret.SetKind("Secret")
	b.list("1", secret)
	if got := log.String(); !strings.Contains(got, errFilterOfSecret.Error()) || strings.Contains(got, "cannot filter this") {
		t.Errorf("the log has %q", got)
	}
}

// Watches with the same spec share the JSON of the objects.
func TestObjectsAreKeptOnce(t *testing.T) {
	b := newSourceBench(t)
	first, second := b.watch(Spec{KeepObjects: true}), b.watch(Spec{KeepObjects: true, Filter: valueOf})
	b.list("1", object("a", "1", "x"))
	must(t, b.source.Add(object("b", "2", "x")))
	third := b.watch(Spec{KeepObjects: true})
	b.list("2", object("a", "1", "x"), object("b", "2", "x"))
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

// A Watch that joins a running source has the reflector list again, sees each object once, whatever happens before
// that list, and the others see nothing of it.
func TestJoinARunningSource(t *testing.T) {
	b := newSourceBench(t)
	again := make(chan struct{}, 1)
	b.source.again = func() { again <- struct{}{} }
	first := b.watch(Spec{Filter: valueOf})
	b.list("10", object("a", "1", "x"), object("b", "2", "x"))
	second := b.watch(Spec{Filter: valueOf})
	await(t, "the wish for another list", again)
	must(t, b.source.Update(object("a", "11", "y"))) // in the list, too
	b.source.startList()
	third := b.watch(Spec{Filter: valueOf}) // too late for this list
	b.endList("13", object("a", "11", "y"), object("c", "13", "x"))
	await(t, "synced", second.synced)
	must(t, b.source.Delete(object("c", "15", "x")))
	await(t, "the wish for another list", again)
	b.list("15", object("a", "11", "y"))
	await(t, "synced", third.synced)
	must(t, b.source.Update(object("a", "16", "z")))

	first.wants(`Modified n/a "y"`, `Deleted n/b "x"`, `Added n/c "x"`, `Deleted n/c "x"`, `Modified n/a "z"`)
	second.wants(`Deleted n/c "x"`, `Modified n/a "z"`)
	third.wants(`Modified n/a "z"`)
}

// C17: what is known when a permission is lost is as of then, until the list
// that the reflector makes afterwards is complete. Its end is notified.
func TestListAfterADenial(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{KeepObjects: true, Filter: valueOf})
	b.list("10", object("a", "1", "x"))
	await(t, "synced", l.synced)
	denial := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
	b.source.note(t.Context(), "watch", denial)
	if state := l.watch.State(); state.Phase != Forbidden || state.Whole() {
		t.Errorf("denied: %+v", state)
	}
	b.source.startList()
	b.source.note(t.Context(), "watch", nil) // granted; the list comes
	if state := l.watch.State(); state.Phase != Syncing || state.Whole() {
		t.Errorf("while it is listed: %+v", state)
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
