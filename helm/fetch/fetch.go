package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/registry"
	"k8s.io/apimachinery/pkg/runtime"

	"addon-operator/helm/charts"
)

// Request identifies the chart to download. Apart from Ref, its fields are the flags of 'helm pull'.
type Request struct {
	// Ref is a directory, an archive, oci://HOST/PATH/CHART, REPO/CHART of 'helm repo add', the URL
	// of an archive, or with Repo the name of a chart.
	Ref     string
	Version string // exact, or a range such as ^1.2; empty for the newest one
	Repo    string // URL of a chart repository
	Devel   bool   // pre-releases are versions, too

	Username, Password         string
	PassCredentials            bool // also to other hosts than that of the repository
	CAFile, CertFile, KeyFile  string
	InsecureSkipTLS, PlainHTTP bool
	Verify                     bool   // the archive must be signed, by a key of Keyring
	Keyring                    string // file with public keys; empty for that of GnuPG
}

// Origin is the source of a chart. It lacks facts that are true on one machine only: the path of a
// directory or file, a user and a password in a URL.
type Origin struct {
	Repository string // URL of the repository, of the registry with its path, or of the archive itself; empty for a path
	Name       string
	Version    string
	Digest     string // of the archive, as sha256:…; empty for a directory
}

// String names the chart.
func (o Origin) String() string { return o.Name + " " + o.Version }

// Chart is a chart that is unpacked in a directory, complete with its dependencies.
type Chart struct {
	Origin
	Metadata *chart.Metadata
	// Values are the defaults: values.yaml of the chart.
	Values map[string]any
	// All are the defaults with those of subcharts below their sections.
	All map[string]any
	// Schema is values.schema.json; nil when there is none.
	Schema []byte
	// Subcharts are the sections of the values that belong to subcharts.
	Subcharts []string
	// Added are the dependencies that were missing and are in charts/ now.
	Added []Origin
}

// Get writes a chart to a directory, which is created, and completes its dependencies. On an error
// the directory may hold a part of it; the caller removes it. Errors contain the fix, and show no
// credentials.
func Get(ctx context.Context, r Request, dir string) (*Chart, error) {
	f, err := newFetcher(ctx, r)
	if err != nil {
		return nil, err
	}
	defer f.close()
	origin, source, err := f.place(r.Ref, dir)
	if err != nil {
		return nil, err
	}
	loaded, err := load(dir)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", r.Ref, err)
	}
	origin.Name, origin.Version = loaded.Metadata.Name, loaded.Metadata.Version
	if source != "" && r.Version != "" && !matches(r.Version, origin.Version) {
		return nil, fmt.Errorf("the chart in %s has the version %s, not %s", r.Ref, origin.Version, r.Version)
	}
	c := &Chart{Origin: origin}
	if c.Added, err = f.dependencies(loaded, dir, source); err != nil {
		return nil, fmt.Errorf("chart %s: %w", origin, err)
	}
	return c, c.read(dir)
}

// Read describes the chart in a directory, whose origin is not known apart from Chart.yaml.
func Read(dir string) (*Chart, error) {
	c := &Chart{}
	return c, c.read(dir)
}

func (c *Chart) read(dir string) error {
	loaded, err := load(dir)
	if err != nil {
		return err
	}
	c.Metadata, c.Values, c.Schema = loaded.Metadata, loaded.Values, loaded.Schema
	c.Name, c.Version = loaded.Metadata.Name, loaded.Metadata.Version
	for _, sub := range loaded.Dependencies() {
		c.Subcharts = append(c.Subcharts, charts.Sections(loaded, sub)...)
	}
	c.All = defaults(loaded)
	return nil
}

// defaults are those of a chart over those of its subcharts, as Helm merges them. A subchart with
// aliases has its defaults in the section of each. The chart is not changed.
func defaults(c *chart.Chart) map[string]any {
	all := map[string]any{}
	if c.Values != nil {
		all = runtime.DeepCopyJSON(c.Values)
	}
	for _, sub := range c.Dependencies() {
		for _, key := range charts.Sections(c, sub) {
			own, _ := all[key].(map[string]any)
			if own == nil {
				own = map[string]any{}
			}
			all[key] = chartutil.CoalesceTables(own, defaults(sub))
		}
	}
	return all
}

// load reads a chart as the operator will, within its limits, so that a chart which it would refuse
// is refused now. Dependencies may still be missing.
func load(dir string) (*chart.Chart, error) {
	if _, err := os.Stat(filepath.Join(dir, "Chart.yaml")); err != nil {
		return nil, errors.New("not a chart: it has no Chart.yaml")
	}
	loaded, err := charts.Read(charts.Module{Name: filepath.Base(dir), Dir: dir})
	if err != nil {
		return nil, fmt.Errorf("load chart in %s: %w", dir, err)
	}
	return loaded, loaded.Validate()
}

// fetcher gets one chart. A copy of it, with another Request, gets a dependency.
type fetcher struct {
	Request
	ctx      context.Context  // also ends connections, which Helm's library opens without one
	settings *cli.EnvSettings // Helm's, from HELM_* variables
	tmp      string           // for what is downloaded; removed by close
	registry *registry.Client // of the last registry; Helm's downloader needs it for oci:// URLs
}

// newFetcher completes a request with Helm's defaults. The caller closes the fetcher.
func newFetcher(ctx context.Context, r Request) (*fetcher, error) {
	if r.Ref == "" {
		return nil, errors.New("no chart is given")
	}
	tmp, err := os.MkdirTemp("", "addon-operator-chart-")
	if err != nil {
		return nil, fmt.Errorf("temporary directory: %w", err)
	}
	if r.Version == "" && r.Devel {
		r.Version = ">0.0.0-0" // as Helm does: only a range that names a pre-release includes others
	}
	if r.Keyring == "" {
		gnupg := os.Getenv("GNUPGHOME")
		if home, err := os.UserHomeDir(); gnupg == "" && err == nil {
			gnupg = filepath.Join(home, ".gnupg")
		}
		r.Keyring = filepath.Join(gnupg, "pubring.gpg")
	}
	return &fetcher{Request: r, ctx: ctx, settings: cli.New(), tmp: tmp}, nil
}

func (f *fetcher) close() { _ = os.RemoveAll(f.tmp) } // a directory in the temporary one is no reason to fail

// place unpacks, or copies, what a reference leads to. What exists on disk wins over a name of
// 'helm repo add'. source is the directory that was copied, or that of the archive, for a reference
// that is a path; empty for a download.
func (f *fetcher) place(ref, dir string) (o Origin, source string, err error) {
	info, statErr := os.Stat(ref)
	remote := f.Repo != "" || strings.Contains(ref, "://")
	switch {
	case !remote && statErr == nil && info.IsDir():
		return o, ref, copyDir(ref, dir)
	case !remote && statErr == nil:
		data, err := readArchive(ref)
		if err == nil && f.Verify {
			err = verify(ref, f.Keyring)
		}
		if err == nil {
			o.Digest, err = digest(data), unpack(data, dir)
		}
		return o, filepath.Dir(ref), wrapped(ref, err)
	case !remote && isPath(ref):
		hint := ""
		if !strings.ContainsAny(ref, "/.") {
			hint = "; give the repository of a chart with --repo URL, or as REPO/CHART after 'helm repo add'"
		}
		return o, "", fmt.Errorf("there is no chart at %s%s", ref, hint)
	}
	archive, repository, err := f.download(ref)
	if err != nil {
		return o, "", err
	}
	data, err := readArchive(archive)
	if err == nil {
		o.Repository, o.Digest = repository, digest(data)
		err = unpack(data, dir)
	}
	return o, "", wrapped(ref, err)
}

// wrapped names the chart in an error, without credentials; nil stays nil.
func wrapped(ref string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("chart %s: %w", shown(ref), err)
}

// isPath reports whether a reference can be nothing but a path: REPO/CHART has one slash.
func isPath(ref string) bool {
	return filepath.IsAbs(ref) || strings.HasPrefix(ref, ".") || strings.HasSuffix(ref, ".tgz") || strings.Count(ref, "/") != 1
}

// download gets an archive, and returns its file, and for Origin the URL that it came from. With
// Repo, the reference is a name in it.
func (f *fetcher) download(ref string) (archive, repository string, err error) {
	switch {
	// A registry has no index: its address and the name are the reference.
	case registry.IsOCI(f.Repo):
		ref = strings.TrimSuffix(f.Repo, "/") + "/" + ref
		fallthrough
	case f.Repo == "" && registry.IsOCI(ref):
		archive, err = f.fromRegistry(ref, f.Version)
		repository, _ = path.Split(strings.TrimSuffix(ref, "/"))
		return archive, shown(strings.TrimSuffix(repository, "/")), err
	case f.Repo != "":
		entry := f.entryOf(f.Repo)
		archive, err = f.fromRepository(entry, ref, f.Version)
		return archive, shown(entry.URL), err
	case strings.Contains(ref, "://"):
		archive, err = f.fromURL(ref)
		return archive, shown(ref), err
	}
	name, chartName, _ := strings.Cut(ref, "/")
	entry, err := f.named(name)
	if err != nil {
		return "", "", fmt.Errorf("chart %s: %w; the path of a directory begins with ./", ref, err)
	}
	archive, err = f.fromRepository(entry, chartName, f.Version)
	return archive, shown(entry.URL), err
}

// shown is a reference without a user, a password and parameters, which may be secrets. A path, and
// what cannot be parsed, is shown as it is.
func shown(ref string) string {
	u, err := url.Parse(ref)
	if err != nil || u.Host == "" {
		return ref
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// Describe writes the dependencies that were added, for people.
func (c *Chart) Describe(w io.Writer) {
	for _, o := range c.Added {
		fmt.Fprintf(w, "dependency %s is in charts/ now: %s\n", o, o.Repository)
	}
}
