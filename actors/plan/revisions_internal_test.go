package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"addon-operator/helm"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// recorded stands for the records of a release.
type recorded struct {
	numbers []int
	objects map[int][]map[string]any
	text    string // what Helm says about each revision
}

func (r recorded) Revisions(context.Context, string) ([]int, error) { return r.numbers, nil }

func (r recorded) History(_ context.Context, _ string, most int) (newest []helm.Recorded, recorded int, err error) {
	for _, n := range r.numbers[:min(most, len(r.numbers))] {
		newest = append(newest, helm.Recorded{Revision: n, Description: r.text})
	}
	return newest, len(r.numbers), nil
}

func (r recorded) Deployed(_ context.Context, _ string, n int) (objects []map[string]any, revision int, err error) {
	if r.objects[n] == nil {
		return nil, 0, nil
	}
	return r.objects[n], n, nil
}

// J4: without numbers the two newest revisions are compared; a number that is not recorded is refused with those that are.
func TestWhichRevisionsAreCompared(t *testing.T) {
	old, now := objectsOf(t, "{kind: Service, metadata: {name: a}}"), objectsOf(t, "{kind: Service, metadata: {name: b}}")
	r := recorded{numbers: []int{9, 7, 6, 4}, objects: map[int][]map[string]any{9: now, 7: old, 6: old}} // 4 goes in this moment
	for _, c := range []struct{ from, to, wantFrom, wantTo int }{{0, 0, 7, 9}, {0, 7, 6, 7}, {6, 0, 6, 9}, {9, 6, 9, 6}, {7, 7, 7, 7}} {
		diff, err := Compare(t.Context(), r, "web", nil, view.DiffRequest{From: c.from, To: c.to})
		if err != nil || diff.From != c.wantFrom || diff.To != c.wantTo {
			t.Errorf("%+v: %+v, %v", c, diff, err)
		}
	}
	diff, _ := Compare(t.Context(), r, "web", nil, view.DiffRequest{})
	if len(diff.Changes) != 2 || diff.Changes[0].Action != "removed" || diff.Changes[1].Action != "added" || !strings.Contains(diff.Changes[1].Diff, "+++ revision 9\n") {
		t.Errorf("%+v", diff.Changes)
	}
	var none *view.NoRevisionError
	for request, want := range map[view.DiffRequest]string{
		{From: 8}:        "revision 8 of module web is not recorded; recorded revisions: 9, 7, 6, 4",
		{From: 4}:        "revision 4 of module web is not recorded; recorded revisions: 9, 7, 6",
		{From: 6, To: 5}: "revision 5 of module web is not recorded; recorded revisions: 9, 7, 6, 4",
	} {
		if _, err := Compare(t.Context(), r, "web", nil, request); !errors.As(err, &none) || err.Error() != want {
			t.Errorf("%+v: %v, want %s", request, err, want)
		}
	}
	if _, err := Compare(t.Context(), recorded{}, "web", nil, view.DiffRequest{}); !errors.As(err, &none) || !strings.Contains(err.Error(), "no revision of module web") {
		t.Errorf("without a release: %v", err)
	}
	if _, err := Compare(t.Context(), recorded{numbers: []int{3}}, "web", nil, view.DiffRequest{}); err == nil || !strings.Contains(err.Error(), "no earlier revision to compare it with") {
		t.Errorf("with one revision: %v", err)
	}
	many := recorded{}
	for n := range 100 {
		many.numbers = append(many.numbers, 100-n)
	}
	if _, err := Compare(t.Context(), many, "web", nil, view.DiffRequest{From: 1000}); err == nil || !strings.HasSuffix(err.Error(), "82, 81 and 80 older ones") {
		t.Errorf("with many: %v", err)
	}
}

// J4: a difference that is too long is cut between lines, and says so.
func TestLongDifferencesAreCut(t *testing.T) {
	var before, after []map[string]any
	long := strings.Repeat("a line of forty characters, or about that\n", 10_000)
	for i := range 1500 {
		object := map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("c%04d", i)}}
		if before = append(before, object); i < 3 {
			object = map[string]any{"kind": "ConfigMap", "metadata": object["metadata"], "data": map[string]any{"text": long}}
		} else {
			object = map[string]any{"kind": "ConfigMap", "metadata": object["metadata"], "data": map[string]any{"text": "b"}}
		}
		after = append(after, object)
	}
	r := recorded{numbers: []int{2, 1}, objects: map[int][]map[string]any{1: before, 2: after}}
	diff, err := Compare(t.Context(), r, "web", nil, view.DiffRequest{})
	if err != nil || len(diff.Changes) != mostDiffs {
		t.Fatalf("%d changes, %v", len(diff.Changes), err)
	}
	size := 0
	for _, c := range diff.Changes {
		size += len(c.Diff)
		if len(c.Diff) > longestDiff+100 || !strings.HasSuffix(c.Diff, "\n") {
			t.Errorf("%s has %d bytes", c.Object, len(c.Diff))
		}
	}
	if size > longestDiffs+mostDiffs*30 {
		t.Errorf("%d bytes", size)
	}
	if !strings.HasSuffix(diff.Changes[0].Diff, " lines more\n") || !strings.HasPrefix(diff.Cut, "truncated: ") || !strings.HasSuffix(diff.Cut, " lines and 500 changed objects omitted") {
		t.Errorf("cut: %q, %q", diff.Cut, diff.Changes[0].Diff[len(diff.Changes[0].Diff)-80:])
	}
}

// D41, J9: a secret is hidden before a text is cut.
func TestHistoryHidesSecrets(t *testing.T) {
	secret := "s3cret-of-some-length"
	text := strings.Repeat("x", longestDescription-len(secret)/2) + secret + strings.Repeat("y", longestDescription)
	h, err := History(t.Context(), recorded{numbers: []int{2, 1}, text: text}, "web", values.NewHider([]string{secret}), 1)
	if err != nil || len(h.Revisions) != 1 || h.Recorded != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	if got := h.Revisions[0].Description; strings.Contains(got, "s3cret") || !strings.HasSuffix(got, "…") {
		t.Errorf("the description ends with %s", got[longestDescription-40:])
	}
}
