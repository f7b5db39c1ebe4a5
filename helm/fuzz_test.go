package helm

import (
	"bytes"
	"reflect"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/manifest"
)

func FuzzParseManifest(f *testing.F) {
	for _, seed := range []string{
		"", "---", "null", "- a", "text", configMap, "kind: List\nitems: [1]", "kind: List\nitems: [{kind: A}]\n---\nkind: B",
		"kind: A\nmetadata: 1", "kind: A\nmetadata: {labels: {a: }, annotations: 5}", "a: &x [*x]", "kind: A\nn: 12345678901234567890123",
		"kind: {}\n", "# comment\n---\n#\n", "\x00", "kind: A\nkind: B", "apiVersion: 7\nkind: A",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := manifest.Parse(text)
		if err != nil {
			return
		}
		for _, o := range objects {
			if manifest.Of(o).GVK.Kind == "" {
				t.Errorf("an object without a kind: %v", o.Object)
			}
			_ = checkObject(o)
		}
	})
}

func FuzzDecodeRelease(f *testing.F) {
	rel := &release.Release{Name: "m", Version: 3, Info: &release.Info{Status: release.StatusDeployed}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}}}
	data, err := new(encoder).encode(rel)
	must(f, err)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte(""))
	f.Add([]byte("e30="))
	f.Add([]byte("H4sIAAAA"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rel, err := decodeRelease(data)
		if err != nil {
			return
		}
		again, err := new(encoder).encode(rel)
		if err != nil {
			return // e.g. a time that JSON cannot hold
		}
		back, err := decodeRelease(again)
		if err != nil {
			t.Fatalf("a written record cannot be read: %v", err)
		}
		if !reflect.DeepEqual(jsonOf(rel), jsonOf(back)) {
			t.Errorf("%s became %s", jsonOf(rel), jsonOf(back))
		}
	})
}

// A record is what Helm writes: base64 of gzip of JSON.
func TestCodec(t *testing.T) {
	rel := &release.Release{
		Name: "m", Namespace: "n", Version: 3, Manifest: "text", Config: map[string]any{"a": "b"},
		Info: &release.Info{Status: release.StatusFailed, Description: "d"}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}},
	}
	data, err := new(encoder).encode(rel)
	must(t, err)
	if !bytes.HasPrefix(data, []byte("H4sI")) {
		t.Errorf("record begins with %q, which is no packed text", data[:8])
	}
	back, err := decodeRelease(data)
	if err != nil || jsonOf(back) != jsonOf(rel) {
		t.Errorf("read %s, %v; want %s", jsonOf(back), err, jsonOf(rel))
	}
	for name, bad := range map[string][]byte{"empty": nil, "no base64": []byte("!"), "cut": data[:20], "empty object": []byte("e30=")} {
		if _, err := decodeRelease(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
