package helm

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What the watch reports late does not undo what is known.
func TestMemoryOfRecords(t *testing.T) {
	rev := func(version int, resourceVersion string) Revision {
		return Revision{Version: version, secret: secretName("m", version), resourceVersion: resourceVersion}
	}
	state := func(revisions ...Revision) map[string]State {
		return map[string]State{"m": {Release: "m", Revisions: revisions}}
	}
	tests := []struct {
		name  string
		steps func(r *records) (news bool)
		want  string
		news  bool
	}{
		{"the watch reports our own write", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			return r.memory.put("m", rev(1, "10"))
		}, "1@10", false},
		{"the watch is behind our second write", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			r.wrote("m", rev(1, "12"))
			return r.memory.put("m", rev(1, "10"))
		}, "1@12", false},
		{"somebody else changes a revision", func(r *records) bool {
			r.wrote("m", rev(1, "99"))
			return r.memory.put("m", rev(1, "100"))
		}, "1@100", true},
		{"somebody else adds a revision", func(r *records) bool {
			r.wrote("m", rev(2, "10"))
			return r.memory.put("m", rev(1, "11"))
		}, "1@11 2@10", true},
		{"the watch reports late what we deleted", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			r.deleted("m", rev(1, "10"))
			return r.memory.put("m", rev(1, "10")) || r.memory.vanished("m", rev(1, "13"))
		}, "", false},
		{"we deleted and created the same revision", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			r.deleted("m", rev(1, "10"))
			r.wrote("m", rev(1, "12"))
			return r.memory.put("m", rev(1, "10")) || r.memory.vanished("m", rev(1, "11"))
		}, "1@12", false},
		{"somebody else creates what we deleted", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			r.deleted("m", rev(1, "10"))
			return r.memory.put("m", rev(1, "14"))
		}, "1@14", true},
		{"somebody else deletes", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			return r.memory.vanished("m", rev(1, "11"))
		}, "", true},
		{"a list is older than our write", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			r.wrote("m", rev(2, "20"))
			r.memory.replaceAll(state(rev(1, "10")), "15")
			return false
		}, "1@10 2@20", false},
		{"a list lacks what was known", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			r.memory.replaceAll(nil, "15")
			return false
		}, "", false},
		{"a list still has what we deleted", func(r *records) bool {
			r.wrote("m", rev(1, "10"))
			r.deleted("m", rev(1, "10"))
			r.memory.replaceAll(state(rev(1, "10")), "10")
			return false
		}, "", false},
		{"versions that cannot be compared", func(r *records) bool {
			r.wrote("m", rev(1, "a"))
			return r.memory.put("m", rev(1, "b"))
		}, "1@b", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &records{}
			r.watch(func(string) {}, func(string) bool { return false })
			if news := tt.steps(r); news != tt.news {
				t.Errorf("news: %v", news)
			}
			var got []string
			for _, v := range r.memory.stateOf("m").Revisions {
				got = append(got, fmt.Sprintf("%d@%s", v.Version, v.resourceVersion))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// An operation writes a record, the watch reports it before the API server has answered,
// and the operation ends while that news is taken in: it is no news of somebody else.
func TestOwnWriteIsSeenAtTheEndOfItsOperation(t *testing.T) {
	var l locks
	var told []string
	r := &records{}
	r.watch(func(name string) { told = append(told, name) }, l.busy)
	ours := Revision{Version: 1, secret: secretName("m", 1), resourceVersion: "10"}
	end := l.lock("m")
	r.seen("m", func() bool {
		defer end()
		return r.memory.put("m", ours)
	})
	r.wrote("m", ours) // the answer to the write, before the end for all others
	if len(told) > 0 {
		t.Errorf("somebody else is said to have changed %q", told)
	}

	theirs := Revision{Version: 1, secret: secretName("m", 1), resourceVersion: "11"}
	r.seen("m", func() bool { return r.memory.put("m", theirs) })
	if len(told) != 1 {
		t.Errorf("a change by another client is reported %d times, want 1", len(told))
	}
}

// deaf is a Watcher that never lists anything.
type deaf struct{}

func (deaf) WatchMetadata(context.Context, schema.GroupVersionResource, string, string, metadataStore) {
}

func (deaf) WatchKinds(context.Context) func(context.Context, time.Time) bool { return nil }

// F18: a stop ends the watches, and waits for what Helm writes: that must not wait for a list that never comes.
func TestRecordsWhoseWatchHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &home{homes: &homes{}, options: Options{Watcher: deaf{}}, records: &records{}, locks: &locks{}}
		ctx, stop := context.WithCancel(t.Context())
		h.watchRecords(ctx, News{})
		stop()
		if h.records.await(t.Context()) {
			t.Error("the memory counts as complete")
		}
	})
}
