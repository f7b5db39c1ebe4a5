package helm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readRecords notes which records are read.
type readRecords struct {
	recordObjects
	read []string
}

// Get implements recordObjects.
func (r *readRecords) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error) {
	r.read = append(r.read, name)
	return r.recordObjects.Get(ctx, name, o)
}

// J4: the newest revisions are described from their records; no other record is read. A record that cannot be read is among
// them, with the reason.
func TestHistory(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "history", `
-- Chart.yaml --
{apiVersion: v2, name: history, version: 1.2.3, appVersion: v7}
-- templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: history}
data: {size: {{ .Values.history.size | quote }}}
`)
	if found, recorded, err := f.client.History(t.Context(), m.Name, 5); len(found) != 0 || recorded != 0 || err != nil {
		t.Errorf("before the install: %v, %d, %v", found, recorded, err)
	}
	f.apply(m.with("size", "1"), Installed, 1)
	f.apply(m.with("size", "2"), Upgraded, 2)
	f.apply(m.with("size", "3"), Upgraded, 3)
	f.caughtUp()

	records := &readRecords{recordObjects: f.client.root.objects}
	f.client.root.objects = records
	if numbers, err := f.client.Revisions(t.Context(), m.Name); !slices.Equal(numbers, []int{3, 2, 1}) || err != nil || len(records.read) != 0 {
		t.Errorf("revisions: %v, %v, read %s", numbers, err, records.read)
	}
	found, recorded, err := f.client.History(t.Context(), m.Name, 2)
	if err != nil || recorded != 3 || len(found) != 2 {
		t.Fatalf("%+v of %d, %v", found, recorded, err)
	}
	var got []string
	for _, r := range found {
		got = append(got, fmt.Sprint(r.Revision, " ", r.Status, " ", r.Chart, " ", r.ChartVersion, " ", r.AppVersion, " ", r.Description))
		if r.Updated.IsZero() || r.Err != nil {
			t.Errorf("revision %d: updated %s, %v", r.Revision, r.Updated, r.Err)
		}
	}
	if want := "3 deployed history 1.2.3 v7 Upgrade complete\n2 superseded history 1.2.3 v7 Upgrade complete"; strings.Join(got, "\n") != want {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
	if want := []string{secretName(m.Name, 3), secretName(m.Name, 2)}; !slices.Equal(records.read, want) {
		t.Errorf("%s were read, want %s", records.read, want)
	}

	f.editRecord(m.Name, 2, func(s *corev1.Secret) { s.Data[recordKey] = []byte("nonsense") })
	if found, _, err = f.client.History(t.Context(), m.Name, 3); err != nil || len(found) != 3 || found[1].Err == nil || found[1].Status != "superseded" || found[2].Err != nil {
		t.Errorf("with a record that cannot be read: %+v, %v", found, err)
	}
	f.uninstall(m.Name, true)
}
