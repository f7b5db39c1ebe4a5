package fetch_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"

	"addon-operator/helm/fetch"
	"addon-operator/helm/fetch/fetchtest"
)

// helm are the options of 'helm pull'.
type helm = action.ChartPathOptions

// web is a chart in one version.
func web(t testing.TB, version string) []byte {
	return fetchtest.Chart(t, "-- Chart.yaml --\n{apiVersion: v2, name: web, version: "+version+"}\n-- values.yaml --\nreplicas: 1\n-- templates/a.yaml --\n-- crds/deep/b.yaml --\n")
}

// alone is a home of Helm's in which there is nothing.
func alone(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for name, below := range map[string]string{
		"HELM_REPOSITORY_CONFIG": "repositories.yaml", "HELM_REGISTRY_CONFIG": "registry.json", "HELM_REPOSITORY_CACHE": "cache",
		"HELM_CACHE_HOME": "cache-home", "HELM_PLUGINS": "plugins", "DOCKER_CONFIG": "docker",
	} {
		t.Setenv(name, filepath.Join(home, below))
	}
	return home
}

func write(t testing.TB, path string, data []byte) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, data, 0o644))
	return path
}

// files lists what lies below a directory.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(dir)+"/"))
		}
		return err
	})
	must(t, err)
	return names
}

// A chart comes from everywhere that Helm takes one from, with where that was.
func TestSources(t *testing.T) {
	home := alone(t)
	old, current := web(t, "1.0.0"), web(t, "1.1.0")
	repository, secretRepository := fetchtest.Repository(t, false, old, current), fetchtest.Repository(t, true, current)
	registry, secretRegistry := fetchtest.Registry(t, false, old, current), fetchtest.Registry(t, true, current)
	write(t, filepath.Join(home, "repositories.yaml"), []byte("apiVersion: v1\nrepositories:\n"+
		"- {name: open, url: "+repository+"}\n- {name: closed, url: "+secretRepository+", username: "+fetchtest.User+", password: "+fetchtest.Password+"}\n"))
	write(t, filepath.Join(home, "registry.json"), []byte(`{"auths": {"`+strings.TrimSuffix(strings.TrimPrefix(secretRegistry, "oci://"), "/charts")+`": {"auth": "c29tZWJvZHk6b3BlbiBzZXNhbWU="}}}`))
	dir := fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: web, version: 1.1.0}\n-- values.yaml --\n-- .helmignore --\nsecret*\n-- secret.txt --\n-- templates/a.yaml --\n")
	file := write(t, filepath.Join(t.TempDir(), "web.tgz"), old)
	for name, c := range map[string]struct {
		fetch.Request
		repository, version string
		noDigest            bool
	}{
		"directory":                  {Request: fetch.Request{Ref: dir}, version: "1.1.0", noDigest: true},
		"archive":                    {Request: fetch.Request{Ref: file}, version: "1.0.0"},
		"newest of a repository":     {Request: fetch.Request{Ref: "open/web"}, version: "1.1.0", repository: repository},
		"version of a repository":    {Request: fetch.Request{Ref: "open/web", ChartPathOptions: helm{Version: "1.0.0"}}, version: "1.0.0", repository: repository},
		"range of a repository":      {Request: fetch.Request{Ref: "open/web", ChartPathOptions: helm{Version: "~1.0"}}, version: "1.0.0", repository: repository},
		"repository with a password": {Request: fetch.Request{Ref: "closed/web"}, version: "1.1.0", repository: secretRepository},
		"password of a URL's entry":  {Request: fetch.Request{Ref: "web", ChartPathOptions: helm{RepoURL: secretRepository + "/"}}, version: "1.1.0", repository: secretRepository},
		"repository by URL":          {Request: fetch.Request{Ref: "web", ChartPathOptions: helm{RepoURL: repository, Version: "1.0.0"}}, version: "1.0.0", repository: repository},
		"password as a flag":         {Request: fetch.Request{Ref: "web", ChartPathOptions: helm{RepoURL: "http://" + strings.TrimPrefix(secretRepository, "http://"), Username: fetchtest.User, Password: fetchtest.Password}}, version: "1.1.0", repository: secretRepository},
		"URL of an archive":          {Request: fetch.Request{Ref: repository + "/web-1.0.0.tgz?token=secret"}, version: "1.0.0", repository: repository + "/web-1.0.0.tgz"},
		"newest of a registry":       {Request: fetch.Request{Ref: registry + "/web", ChartPathOptions: helm{PlainHTTP: true}}, version: "1.1.0", repository: registry},
		"version of a registry":      {Request: fetch.Request{Ref: registry + "/web", ChartPathOptions: helm{PlainHTTP: true, Version: "1.0.0"}}, version: "1.0.0", repository: registry},
		"tag of a registry":          {Request: fetch.Request{Ref: registry + "/web:1.0.0", ChartPathOptions: helm{PlainHTTP: true}}, version: "1.0.0", repository: registry},
		"registry as repository":     {Request: fetch.Request{Ref: "web", ChartPathOptions: helm{RepoURL: registry, PlainHTTP: true, Version: "1.0.0"}}, version: "1.0.0", repository: registry},
		"registry after a login":     {Request: fetch.Request{Ref: secretRegistry + "/web", ChartPathOptions: helm{PlainHTTP: true}}, version: "1.1.0", repository: secretRegistry},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "chart")
			got, err := fetch.Get(c.Request, to)
			must(t, err)
			if got.Name != "web" || got.Version != c.version || got.Repository != c.repository || strings.HasPrefix(got.Digest, "sha256:") == c.noDigest {
				t.Errorf("got %+v", got.Origin)
			}
			want := []string{"Chart.yaml", "crds/deep/b.yaml", "templates/a.yaml", "values.yaml"}
			if c.noDigest {
				want = []string{".helmignore", "Chart.yaml", "templates/a.yaml", "values.yaml"}
			}
			if got := files(t, to); !slices.Equal(got, want) {
				t.Errorf("files %q", got)
			}
		})
	}
}

// What is wrong is said in a way that helps.
func TestWrongSources(t *testing.T) {
	home := alone(t)
	current := web(t, "1.1.0")
	repository := fetchtest.Repository(t, false, current)
	secretRepository := fetchtest.Repository(t, true, current)
	registry := fetchtest.Registry(t, true, current)
	write(t, filepath.Join(home, "repositories.yaml"), []byte("apiVersion: v1\nrepositories: [{name: open, url: "+repository+"}]\n"))
	file := write(t, filepath.Join(t.TempDir(), "web.tgz"), current)
	for name, c := range map[string]struct {
		fetch.Request
		want string
	}{
		"no such path":          {fetch.Request{Ref: "./nowhere"}, "chart ./nowhere: there is no such path"},
		"a name alone":          {fetch.Request{Ref: "podinfo"}, "name the URL of the repository with --repo"},
		"no version at all":     {fetch.Request{Ref: "open/web", ChartPathOptions: helm{Version: "latest"}}, "not found"},
		"no chart":              {fetch.Request{Ref: t.TempDir()}, "no Chart.yaml"},
		"no such repository":    {fetch.Request{Ref: "else/web"}, "no repository else;"},
		"no such chart":         {fetch.Request{Ref: "open/wep"}, `"wep"`},
		"no such version":       {fetch.Request{Ref: "open/web", ChartPathOptions: helm{Version: "9"}}, "9"},
		"other version":         {fetch.Request{Ref: file, ChartPathOptions: helm{Version: "9.0.0"}}, "has the version 1.1.0, not 9.0.0"},
		"no password":           {fetch.Request{Ref: "web", ChartPathOptions: helm{RepoURL: secretRepository}}, "401"},
		"no login":              {fetch.Request{Ref: registry + "/web", ChartPathOptions: helm{PlainHTTP: true}}, "basic credential not found"},
		"no repository at all":  {fetch.Request{Ref: "web", ChartPathOptions: helm{RepoURL: repository + "/nothing"}}, "404"},
		"not signed":            {fetch.Request{Ref: file, ChartPathOptions: helm{Verify: true}}, "provenance"},
		"secrets are not shown": {fetch.Request{Ref: "http://me:hidden@127.0.0.1:1/web.tgz?token=hidden"}, "127.0.0.1:1/web.tgz"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch.Get(c.Request, filepath.Join(t.TempDir(), "chart"))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// pack packs headers, each with its content, as they are, so that tests can make archives that
// 'helm package' would not: with links, with two files of one name, with names that lead upwards.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	for _, e := range entries {
		header := e.Header
		header.Size, header.Mode = int64(len(e.Data)), 0o644
		must(t, archive.WriteHeader(&header))
		_, err := archive.Write(e.Data)
		must(t, err)
	}
	must(t, archive.Close())
	must(t, packed.Close())
	return out.Bytes()
}

// entry is a file of an archive, or another type of entry (Typeflag). pack sets size and mode.
type entry struct {
	tar.Header
	Data []byte
}

// Archives of others may be anything.
func TestArchives(t *testing.T) {
	alone(t)
	chart := entry{Header: tar.Header{Name: "web/Chart.yaml", Typeflag: tar.TypeReg}, Data: []byte("{apiVersion: v2, name: web, version: 1.0.0}")}
	with := func(header tar.Header, data ...byte) []byte {
		return pack(t, chart, entry{Header: header, Data: data})
	}
	var bomb []entry
	bomb = append(bomb, chart)
	for i := range 30 {
		bomb = append(bomb, entry{Header: tar.Header{Name: "web/files/" + strings.Repeat("x", i+1), Typeflag: tar.TypeReg}, Data: make([]byte, 4<<20)})
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no archive":         {[]byte("apiVersion: v2"), "no archive of a chart"},
		"empty":              {nil, "no archive of a chart"},
		"parent":             {with(tar.Header{Name: "web/../../evil", Typeflag: tar.TypeReg}), "parent directory"},
		"absolute":           {with(tar.Header{Name: "web//etc/evil", Typeflag: tar.TypeReg}), "absolute"},
		"twice":              {with(tar.Header{Name: "web/Chart.yaml", Typeflag: tar.TypeReg}, []byte("{}")...), "duplicate path"},
		"no Chart.yaml":      {pack(t, entry{tar.Header{Name: "web/values.yaml", Typeflag: tar.TypeReg}, nil}), "no Chart.yaml"},
		"bomb":               {pack(t, bomb...), "no archive of a chart"},
		"file and directory": {with(tar.Header{Name: "web/Chart.yaml/a", Typeflag: tar.TypeReg}), "Chart.yaml"},
		"strange name":       {pack(t, entry{tar.Header{Name: "web/Chart.yaml", Typeflag: tar.TypeReg}, []byte("{apiVersion: v2, name: ../web, version: 1.0.0}")}), "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			file := write(t, filepath.Join(root, "web.tgz"), c.data)
			_, err := fetch.Get(fetch.Request{Ref: file}, filepath.Join(root, "a", "chart"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			for _, name := range files(t, root) {
				if name != "web.tgz" && !strings.HasPrefix(name, "a/chart/") {
					t.Errorf("%s was written", name)
				}
			}
		})
	}
}

// A directory may have links, but not to what is none of the chart's business.
func TestLinksOfADirectory(t *testing.T) {
	alone(t)
	outside := write(t, filepath.Join(t.TempDir(), "passwd"), []byte("a: secret"))
	for target, want := range map[string]string{"values-of-test.yaml": "", outside: "outside of the chart"} {
		dir := fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n-- values-of-test.yaml --\na: 1\n")
		must(t, os.Symlink(target, filepath.Join(dir, "values.yaml")))
		got, err := fetch.Get(fetch.Request{Ref: dir}, filepath.Join(t.TempDir(), "chart"))
		switch {
		case want == "" && (err != nil || got.Loaded.Values["a"] == nil):
			t.Errorf("%s: %v", target, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v", target, err)
		}
	}
}

// Dependencies that are missing come as 'helm dependency build' gets them; the others stay.
func TestDependencies(t *testing.T) {
	home := alone(t)
	repository := fetchtest.Repository(t, false, web(t, "1.0.0"), web(t, "1.1.0"))
	registry := fetchtest.Registry(t, false, web(t, "1.0.0"), web(t, "1.1.0"))
	write(t, filepath.Join(home, "repositories.yaml"), []byte("apiVersion: v1\nrepositories: [{name: open, url: "+repository+"}]\n"))
	const parent = "-- Chart.yaml --\napiVersion: v2\nname: parent\nversion: 0.1.0\ndependencies:\n"
	for name, c := range map[string]struct {
		files string
		want  []string // in charts/
		err   string
	}{
		"repository":    {files: parent + "- {name: web, version: 1.x.x, repository: '" + repository + "'}\n", want: []string{"web-1.1.0.tgz"}},
		"lock is stale": {files: parent + "- {name: web, version: ^2, repository: '" + repository + "'}\n-- Chart.lock --\ndependencies: [{name: web, version: 1.0.0}]\n", err: "out of sync"},
		"alias":         {files: parent + "- {name: web, version: 1.0.0, repository: '@open'}\n", want: []string{"web-1.0.0.tgz"}},
		"unknown alias": {files: parent + "- {name: web, version: 1.0.0, repository: 'alias:else'}\n", err: "alias"},
		"registry":      {files: parent + "- {name: web, version: 1.0.0, repository: '" + registry + "'}\n", want: []string{"web-1.0.0.tgz"}},
		"two aliases":   {files: parent + "- {name: web, alias: a, version: 1.0.0, repository: '" + repository + "'}\n- {name: web, alias: b, version: 1.0.0, repository: '" + repository + "'}\n", want: []string{"web-1.0.0.tgz"}},
		"there already": {files: parent + "- {name: web, version: 1.0.0, repository: 'http://127.0.0.1:1'}\n-- charts/web/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n", want: []string{"web/Chart.yaml"}},
		"next to it":    {files: parent + "- {name: near, version: 3.0.0, repository: 'file://sub/near'}\n-- sub/near/Chart.yaml --\n{apiVersion: v2, name: near, version: 2.0.0}\n", err: "run 'helm dependency build'"},
		"no repository": {files: parent + "- {name: web, version: 1.0.0}\n", err: "run 'helm dependency build'"},
		"no such chart": {files: parent + "- {name: none, version: 1.0.0, repository: '" + repository + "'}\n", err: "none"},
		"strange name":  {files: parent + "- {name: ../../evil, version: 1.0.0, repository: '" + repository + "'}\n", err: "evil"},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "chart")
			got, err := fetch.Get(fetch.Request{Ref: fetchtest.Dir(t, c.files), ChartPathOptions: helm{PlainHTTP: true}}, to)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			must(t, err)
			if names := files(t, filepath.Join(to, "charts")); !slices.Equal(names, c.want) {
				t.Errorf("charts/ has %q, want %q", names, c.want)
			}
			if name == "two aliases" && !maps.Equal(map[string]bool{"a": true, "b": true}, set(got.Subcharts)) {
				t.Errorf("sections of subcharts are %q", got.Subcharts)
			}
		})
	}
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// The credentials of a repository go to its own host: a registry that its index names never gets them.
func TestCredentialsStayWithTheirHost(t *testing.T) {
	alone(t)
	registry := fetchtest.Registry(t, true, web(t, "1.1.0"))
	var offered []string
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		offered = append(offered, user)
		_, _ = w.Write([]byte("apiVersion: v1\nentries: {web: [{apiVersion: v2, name: web, version: 1.1.0, urls: ['" + registry + "/web:1.1.0']}]}\n"))
	}))
	defer repository.Close()
	request := fetch.Request{Ref: "web", ChartPathOptions: helm{RepoURL: repository.URL, PlainHTTP: true, Username: fetchtest.User, Password: fetchtest.Password, PassCredentialsAll: true}}
	if _, err := fetch.Get(request, filepath.Join(t.TempDir(), "chart")); err == nil {
		t.Error("the registry got the credentials of the repository")
	}
	if !slices.Equal(offered, []string{fetchtest.User}) {
		t.Errorf("the repository itself got the users %q", offered)
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
