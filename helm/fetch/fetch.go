package fetch

import (
	"bytes"
	"cmp"
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

	"addon-operator/helm/charts"
)

// Request identifies the chart to download, by the options of 'helm pull'.
type Request struct {
	// Ref is a directory, an archive, oci://HOST/PATH/CHART, REPO/CHART of 'helm repo add', the URL
	// of an archive, or with RepoURL the name of a chart.
	Ref string
	action.ChartPathOptions
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
	Loaded *chart.Chart
	// Subcharts are the sections of the values that belong to subcharts.
	Subcharts []string
}

// Get writes a chart to a directory, which is created, and completes its dependencies. On an error
// the directory may hold a part of it; the caller removes it. Errors show no credentials. Helm's library takes no
// context, so a download goes on until it or the process ends.
func Get(r Request, dir string) (*Chart, error) {
	tmp, err := os.MkdirTemp("", "addon-operator-chart-")
	if err != nil {
		return nil, fmt.Errorf("temporary directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	c, settings, ref := &Chart{}, cli.New(), shown(r.Ref)
	info, err := os.Stat(r.Ref)
	local := err == nil && r.RepoURL == ""
	if err = nil; !local {
		c.Repository, err = r.resolve(settings)
	}
	switch {
	case err != nil:
	case local && info.IsDir():
		err = copyDir(r.Ref, dir)
	default:
		c.Digest, err = download(r, settings, tmp, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", ref, hidden(err))
	}
	if err := c.read(dir); err != nil {
		return nil, fmt.Errorf("chart %s: %w", ref, err)
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
	if registry.IsOCI(r.Ref) {
		options = append(options, registry.ClientOptBasicAuth(r.Username, r.Password))
	}
	if r.PlainHTTP {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	return registry.NewClient(options...)
}

// download unpacks the archive to which a reference leads, which may be a file of this machine.
func download(r Request, settings *cli.EnvSettings, tmp, dir string) (digest string, err error) {
	client, err := registryClient(r, settings)
	if err != nil {
		return "", err
	}
	// The repository is resolved, and the cache may have an archive of the same name from elsewhere.
	own := *settings
	own.RepositoryConfig, own.RepositoryCache = filepath.Join(tmp, "none.yaml"), filepath.Join(tmp, "cache")
	install := action.NewInstall(&action.Configuration{})
	install.ChartPathOptions = r.ChartPathOptions
	install.SetRegistryClient(client)
	home, _ := os.UserHomeDir()
	gnupg := cmp.Or(os.Getenv("GNUPGHOME"), filepath.Join(home, ".gnupg"))
	install.Keyring = cmp.Or(r.Keyring, filepath.Join(gnupg, "pubring.gpg"))
	archive, err := install.LocateChart(r.Ref, &own)
	if err != nil {
		return "", err
	}
	return unpack(archive, dir)
}

// unpack writes the files of an archive to a directory, and returns its digest. Helm's loader refuses
// names that lead out of the chart, and bounds what the archive unpacks to.
func unpack(archive, dir string) (digest string, err error) {
	info, err := os.Stat(archive)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxArchive) {
		err = fmt.Errorf("it is no regular file, or larger than %d MiB", maxArchive>>20)
	}
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		return "", err
	}
	files, err := loader.LoadArchiveFiles(bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("it is no archive of a chart: %w", err)
	}
	all := make([]*chart.File, len(files))
	for i, f := range files {
		all[i] = &chart.File{Name: f.Name, Data: f.Data}
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data)), charts.Write(dir, all)
}

// maxArchive bounds an archive, packed, in bytes. The operator accepts 64 MiB of files in a chart
// (package charts), so a larger archive could not be used.
const maxArchive = 64 << 20

// resolve turns REPO/CHART into the chart of the repository of 'helm repo add', with its URL and
// credentials, and an OCI repository with a name into one reference. It returns the URL for Origin.
func (r *Request) resolve(settings *cli.EnvSettings) (repository string, err error) {
	if registry.IsOCI(r.RepoURL) {
		r.Ref, r.RepoURL = strings.TrimSuffix(r.RepoURL, "/")+"/"+r.Ref, ""
	}
	if registry.IsOCI(r.Ref) {
		repository, _ = path.Split(strings.TrimSuffix(r.Ref, "/"))
		return shown(strings.TrimSuffix(repository, "/")), nil
	}
	if r.RepoURL == "" && strings.Contains(r.Ref, "://") {
		return shown(r.Ref), nil
	}
	known, err := repo.LoadFile(settings.RepositoryConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name, chartName, _ := strings.Cut(r.Ref, "/")
	i := slices.IndexFunc(known.Repositories, func(e *repo.Entry) bool {
		if r.RepoURL == "" {
			return e.Name == name
		}
		return strings.TrimSuffix(e.URL, "/") == strings.TrimSuffix(r.RepoURL, "/")
	})
	if r.RepoURL == "" {
		if i < 0 || chartName == "" {
			return "", fmt.Errorf("there is no such path, and no repository %s; name the URL of the repository with --repo, or write REPO/CHART after 'helm repo add REPO URL'", name)
		}
		r.Ref = chartName
	}
	if i >= 0 {
		entry := known.Repositories[i]
		r.RepoURL = entry.URL
		r.Username, r.Password = cmp.Or(r.Username, entry.Username), cmp.Or(r.Password, entry.Password)
		r.CaFile, r.CertFile = cmp.Or(r.CaFile, entry.CAFile), cmp.Or(r.CertFile, entry.CertFile)
		r.KeyFile = cmp.Or(r.KeyFile, entry.KeyFile)
		r.PassCredentialsAll = r.PassCredentialsAll || entry.PassCredentialsAll
		r.InsecureSkipTLSverify = r.InsecureSkipTLSverify || entry.InsecureSkipTLSverify
	}
	return shown(r.RepoURL), nil
}

// complete adds the dependencies that Chart.yaml declares and charts/ lacks, as 'helm dependency
// build' does. A dependency next to the source of the chart is not fetched: a copy is elsewhere, and
// a downloaded chart could name any path.
func (c *Chart) complete(plainHTTP bool, settings *cli.EnvSettings, tmp, dir string) error {
	missing := action.CheckDependencies(c.Loaded, c.Loaded.Metadata.Dependencies)
	if missing == nil {
		return nil
	}
	for _, d := range c.Loaded.Metadata.Dependencies {
		if strings.HasPrefix(d.Repository, "file://") || d.Repository == "" {
			return fmt.Errorf("%w: run 'helm dependency build' in the directory of the chart first", missing)
		}
	}
	// Without the credentials of the request: the author of the chart could name any host here.
	var own Request
	own.PlainHTTP = plainHTTP
	client, err := registryClient(own, settings)
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
	return c.read(dir)
}

// copyDir copies the files of a chart without those that .helmignore names. A link is followed, but
// not out of the chart: a chart from elsewhere must not copy files of the person into the module.
func copyDir(from, to string) error {
	loaded, err := load(from)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range loaded.Raw {
		if _, err := root.Stat(filepath.FromSlash(f.Name)); err != nil {
			return fmt.Errorf("%s is a link to a place outside of the chart: %w", f.Name, err)
		}
	}
	return charts.Write(to, loaded.Raw)
}

// Read describes the chart in a directory, whose origin is not known apart from Chart.yaml.
func Read(dir string) (*Chart, error) {
	c := &Chart{}
	return c, c.read(dir)
}

func (c *Chart) read(dir string) (err error) {
	if c.Loaded, err = load(dir); err != nil {
		return err
	}
	c.Name, c.Version, c.Subcharts = c.Loaded.Metadata.Name, c.Loaded.Metadata.Version, nil
	for _, sub := range c.Loaded.Dependencies() {
		c.Subcharts = append(c.Subcharts, charts.Sections(c.Loaded, sub)...)
	}
	return nil
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
