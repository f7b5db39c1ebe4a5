package helm

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"
)

// noise is text that cannot be packed.
func noise(size int) string {
	rnd := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, size*3/4)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	return base64.StdEncoding.EncodeToString(data)
}

// A manifest that no record can hold is refused before anything is applied, with what to
// do; large files of the chart that no object shows do not count.
func TestApplyTooLargeRecord(t *testing.T) {
	if raced {
		t.Skip("make test plays it without the race detector")
	}
	f := start(t)
	m := moduleOf(t, "large", "-- Chart.yaml --\napiVersion: v2\nname: large\nversion: 1.0.0\n-- templates/all.yaml --\n"+
		"{{ range $i := until (int .Values.large.count) }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-{{ $i }}}\ndata: {text: {{ $.Files.Get (printf \"files/%d\" $i) | quote }}}\n{{ end }}\n")
	for i := range 4 {
		write(t, m, fmt.Sprintf("files/%d", i), noise(600_000)+fmt.Sprint(i))
	}
	err := f.refuse(m.with("count", int64(2)), Invalid)
	wantError(t, err, "split the module")
	f.wantRevisions("large")
	if f.configMap("large-0") != nil {
		t.Error("objects were applied without a record")
	}
	f.apply(m.with("count", int64(1)), Installed, 1)
	wantError(t, f.refuse(m.with("count", int64(2)), Invalid), "split the module")
	f.wantRevisions("large", "1 deployed")
	f.apply(m.with("count", int64(1)), Skipped, 1)
}
