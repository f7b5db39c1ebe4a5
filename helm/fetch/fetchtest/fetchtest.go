// Package fetchtest serves charts on loopback, as a chart repository and as a registry do, for
// tests. Servers end with their test. Only tests import it.
package fetchtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"
)

// User and Password are what protected servers want.
const (
	User     = "somebody"
	Password = "open sesame"
)

// Dir writes the files of a txtar archive to a directory, which is removed with the test.
func Dir(t testing.TB, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, f.Data, 0o644))
	}
	return dir
}

// Chart packs the files of a txtar archive as 'helm package' does.
func Chart(t testing.TB, archive string) []byte {
	t.Helper()
	c, err := loader.LoadDir(Dir(t, archive))
	must(t, err)
	file, err := chartutil.Save(c, t.TempDir())
	must(t, err)
	data, err := os.ReadFile(file)
	must(t, err)
	return data
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// protected refuses requests without User and Password, with the challenge that makes clients send
// their credentials.
func protected(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != User || password != Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// serve serves a handler until the test ends, and returns its URL.
func serve(t testing.TB, h http.Handler, secret bool) string {
	t.Helper()
	if secret {
		h = protected(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// Repository serves archives, and the index of a chart repository that lists them. secret protects
// it by User and Password. It returns its URL.
func Repository(t testing.TB, secret bool, archives ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	for _, data := range archives {
		c, err := loader.LoadArchive(bytes.NewReader(data))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, c.Name()+"-"+c.Metadata.Version+".tgz"), data, 0o644))
	}
	index, err := repo.IndexDirectory(dir, "")
	must(t, err)
	index.SortEntries()
	must(t, index.WriteFile(filepath.Join(dir, "index.yaml"), 0o644))
	return serve(t, http.FileServer(http.Dir(dir)), secret)
}

// Registry serves archives as artifacts of a registry without TLS. It returns the address below
// which the charts are: oci://HOST/charts.
func Registry(t testing.TB, secret bool, archives ...[]byte) string {
	t.Helper()
	blobs := map[string][]byte{} // by path
	put := func(path, kind string, data []byte) map[string]any {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		blobs[path+"/"+digest] = data
		return map[string]any{"mediaType": kind, "digest": digest, "size": len(data)}
	}
	tags := map[string][]string{}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	for _, data := range archives {
		c, err := loader.LoadArchive(bytes.NewReader(data))
		must(t, err)
		at := "/v2/charts/" + c.Name()
		manifest, err := json.Marshal(map[string]any{
			"schemaVersion": 2, "mediaType": manifestType, "config": put(at+"/blobs", registry.ConfigMediaType, []byte("{}")),
			"layers": []any{put(at+"/blobs", registry.ChartLayerMediaType, data)},
		})
		must(t, err)
		put(at+"/manifests", manifestType, manifest)
		blobs[at+"/manifests/"+c.Metadata.Version] = manifest
		tags[at+"/tags/list"] = append(tags[at+"/tags/list"], c.Metadata.Version)
	}
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := blobs[r.URL.Path]
		if list := tags[r.URL.Path]; list != nil {
			_ = json.NewEncoder(w).Encode(map[string]any{"tags": list})
			return
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", manifestType)
		}
		w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(data)))
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data)
	}), secret)
	return "oci://" + strings.TrimPrefix(host, "http://") + "/charts"
}
