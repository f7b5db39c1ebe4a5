package fetch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/downloader"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"
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
	// Added are the archives of dependencies that were missing and are in charts/ now.
	Added []string

	loaded *chart.Chart
}

// Get writes a chart to a directory, which is created, and completes its dependencies. On an error
// the directory may hold a part of it; the caller removes it. Errors show no credentials. When ctx
// ends, Get returns at once: Helm's library takes no context, so a download may go on until the
// process ends.
func Get(ctx context.Context, r Request, dir string) (*Chart, error) {
	if r.Ref == "" {
		return nil, errors.New("no chart is given")
	}
	type result struct {
		chart *Chart
		err   error
	}
	done := make(chan result, 1)
	go func() {
		c, err := get(r, dir)
		done <- result{c, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-done:
		return got.chart, got.err
	}
}

func get(r Request, dir string) (*Chart, error) {
	tmp, err := os.MkdirTemp("", "addon-operator-chart-")
	if err != nil {
		return nil, fmt.Errorf("temporary directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	settings := cli.New()
	origin, local, err := place(r, settings, tmp, dir)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", shown(r.Ref), hidden(err))
	}
	c := &Chart{Origin: origin}
	if err := c.read(dir); err != nil {
		return nil, fmt.Errorf("chart %s: %w", shown(r.Ref), err)
	}
	if local && r.Version != "" && !chartutil.IsCompatibleRange(r.Version, c.Version) {
		return nil, fmt.Errorf("the chart in %s has the version %s, not %s", r.Ref, c.Version, r.Version)
	}
	if err := c.complete(r.PlainHTTP, settings, tmp, dir); err != nil {
		return nil, fmt.Errorf("chart %s: dependencies: %w", c.Origin, hidden(err))
	}
	return c, nil
}

// registryClient is Helm's. The credentials of a request for a repository are not for a registry that
// its index names.
func registryClient(r Request, settings *cli.EnvSettings) (*registry.Client, error) {
	options := []registry.ClientOption{
		registry.ClientOptEnableCache(true), registry.ClientOptWriter(io.Discard), registry.ClientOptCredentialsFile(settings.RegistryConfig),
	}
	if registry.IsOCI(r.Ref) || registry.IsOCI(r.Repo) {
		options = append(options, registry.ClientOptBasicAuth(r.Username, r.Password))
	}
	if r.PlainHTTP {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	return registry.NewClient(options...)
}

// place unpacks, or copies, what a reference leads to. local: it is a path on this machine.
func place(r Request, settings *cli.EnvSettings, tmp, dir string) (o Origin, local bool, err error) {
	info, statErr := os.Stat(r.Ref)
	local = statErr == nil && r.Repo == ""
	if local && info.IsDir() {
		return o, true, copyDir(r.Ref, dir)
	}
	if !local {
		if o.Repository, err = r.resolve(settings); err != nil {
			return o, false, err
		}
	}
	client, err := registryClient(r, settings)
	if err != nil {
		return o, local, err
	}
	// The repository is resolved, and the cache may have an archive of the same name from elsewhere.
	own := *settings
	own.RepositoryConfig, own.RepositoryCache = filepath.Join(tmp, "none.yaml"), filepath.Join(tmp, "cache")
	install := action.NewInstall(&action.Configuration{RegistryClient: client})
	options := &install.ChartPathOptions
	options.Version, options.RepoURL, options.Username, options.Password, options.PassCredentialsAll = r.Version, r.Repo, r.Username, r.Password, r.PassCredentials
	options.CaFile, options.CertFile, options.KeyFile = r.CAFile, r.CertFile, r.KeyFile
	options.InsecureSkipTLSverify, options.PlainHTTP, options.Verify = r.InsecureSkipTLS, r.PlainHTTP, r.Verify
	if r.Version == "" && r.Devel {
		options.Version = ">0.0.0-0" // as Helm does: only a range that names a pre-release includes others
	}
	options.Keyring = cmp.Or(r.Keyring, keyring())
	archive, err := options.LocateChart(r.Ref, &own)
	if err != nil {
		return o, local, err
	}
	o.Digest, err = unpack(archive, dir)
	return o, local, err
}

// unpack writes the files of an archive to a directory, and returns its digest.
func unpack(archive, dir string) (digest string, err error) {
	info, err := os.Stat(archive)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxArchive) {
		err = fmt.Errorf("it is no regular file, or larger than %d MiB", maxArchive>>20)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(archive)
	}
	if err != nil {
		return "", err
	}
	files, err := loader.LoadArchiveFiles(bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("it is no archive of a chart: %w", err)
	}
	for _, f := range files {
		if err := writeFile(dir, f.Name, f.Data); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data)), nil
}

// maxArchive bounds an archive, packed, in bytes. The operator accepts 64 MiB of files in a chart
// (package charts), so a larger archive could not be used.
const maxArchive = 64 << 20

// keyring is the public keyring of GnuPG.
func keyring() string {
	home, _ := os.UserHomeDir()
	return filepath.Join(cmp.Or(os.Getenv("GNUPGHOME"), filepath.Join(home, ".gnupg")), "pubring.gpg")
}

// resolve turns REPO/CHART into the chart of the repository of 'helm repo add', with its URL and
// credentials, and an OCI repository with a name into one reference. It returns the URL for Origin.
func (r *Request) resolve(settings *cli.EnvSettings) (repository string, err error) {
	if registry.IsOCI(r.Repo) {
		r.Ref, r.Repo = strings.TrimSuffix(r.Repo, "/")+"/"+r.Ref, ""
	}
	known, err := repo.LoadFile(settings.RepositoryConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var entry *repo.Entry
	switch name, chartName, isNamed := strings.Cut(r.Ref, "/"); {
	case registry.IsOCI(r.Ref):
		repository, _ = path.Split(strings.TrimSuffix(r.Ref, "/"))
		return shown(strings.TrimSuffix(repository, "/")), nil
	case r.Repo != "":
		i := slices.IndexFunc(known.Repositories, func(e *repo.Entry) bool { return strings.TrimSuffix(e.URL, "/") == strings.TrimSuffix(r.Repo, "/") })
		if i >= 0 {
			entry = known.Repositories[i]
		}
	case strings.Contains(r.Ref, "://"):
		return shown(r.Ref), nil
	case isPath(r.Ref):
		return "", errors.New("there is no such path")
	case !isNamed:
		return "", errors.New("there is no such path; name the repository of the chart with --repo URL, or write REPO/CHART after 'helm repo add'")
	default:
		if entry = known.Get(name); entry == nil {
			return "", fmt.Errorf("there is no repository %s: 'helm repo add %s URL', or name its URL with --repo; the path of a directory begins with ./", name, name)
		}
		r.Ref, r.Repo = chartName, entry.URL
	}
	if entry != nil {
		r.from(entry)
	}
	return shown(r.Repo), nil
}

// isPath reports whether a reference can be nothing but a path: REPO/CHART has one slash.
func isPath(ref string) bool {
	return filepath.IsAbs(ref) || strings.HasPrefix(ref, ".") || strings.HasSuffix(ref, ".tgz") || strings.Count(ref, "/") > 1
}

// from completes the request with an entry of 'helm repo add'.
func (r *Request) from(entry *repo.Entry) {
	r.Repo = entry.URL
	r.Username, r.Password = cmp.Or(r.Username, entry.Username), cmp.Or(r.Password, entry.Password)
	r.CAFile, r.CertFile, r.KeyFile = cmp.Or(r.CAFile, entry.CAFile), cmp.Or(r.CertFile, entry.CertFile), cmp.Or(r.KeyFile, entry.KeyFile)
	r.PassCredentials = r.PassCredentials || entry.PassCredentialsAll
	r.InsecureSkipTLS = r.InsecureSkipTLS || entry.InsecureSkipTLSverify
}

// complete adds the dependencies that Chart.yaml declares and charts/ lacks, as 'helm dependency
// build' does. A dependency next to the source of the chart is not fetched: a copy is elsewhere, and
// a downloaded chart could name any path.
func (c *Chart) complete(plainHTTP bool, settings *cli.EnvSettings, tmp, dir string) error {
	missing := action.CheckDependencies(c.loaded, c.Metadata.Dependencies)
	if missing == nil {
		return nil
	}
	for _, d := range c.Metadata.Dependencies {
		if strings.HasPrefix(d.Repository, "file://") || d.Repository == "" {
			return fmt.Errorf("%w: run 'helm dependency build' in the directory of the chart first", missing)
		}
	}
	// Without the credentials of the request: the author of the chart could name any host here.
	client, err := registryClient(Request{PlainHTTP: plainHTTP}, settings)
	if err != nil {
		return err
	}
	manager := &downloader.Manager{
		Out: io.Discard, ChartPath: dir, Getters: getter.All(settings), RegistryClient: client,
		RepositoryConfig: settings.RepositoryConfig, RepositoryCache: filepath.Join(tmp, "repositories"),
	}
	if err := manager.Build(); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "charts", "*.tgz"))
	for _, archive := range archives {
		c.Added = append(c.Added, filepath.Base(archive))
	}
	return errors.Join(err, c.read(dir))
}

// copyDir copies the files of a chart without those that .helmignore names. A link is followed, but
// not out of the chart: a chart from elsewhere must not copy files of the person into the module.
func copyDir(from, to string) error {
	loaded, err := load(from)
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	for _, f := range loaded.Raw {
		target, err := filepath.EvalSymlinks(filepath.Join(root, filepath.FromSlash(f.Name)))
		if err == nil && !strings.HasPrefix(target, root+string(filepath.Separator)) {
			err = fmt.Errorf("%s is a link to a place outside of the chart", f.Name)
		}
		if err == nil {
			err = writeFile(to, f.Name, f.Data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFile creates a file of a chart below dir. Its name has slashes, and is refused if it is
// absolute or leads upwards. A file that exists is an error.
func writeFile(dir, name string, data []byte) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("%q is not a valid file name", name)
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
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
	c.loaded, c.Metadata, c.Values, c.Schema = loaded, loaded.Metadata, loaded.Values, loaded.Schema
	c.Name, c.Version = loaded.Metadata.Name, loaded.Metadata.Version
	c.Subcharts = nil
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

// hidden removes user, password and parameters from the URL of an error, in place.
func hidden(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		failed.URL = shown(failed.URL)
	}
	return err
}

// Describe writes the dependencies that were added, for people.
func (c *Chart) Describe(w io.Writer) {
	for _, archive := range c.Added {
		fmt.Fprintf(w, "dependency %s is in charts/ now\n", archive)
	}
}
