package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/downloader"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"
)

const (
	// maxDownload bounds what one connection may receive, in bytes: Helm keeps an answer in memory,
	// however long it is. The index of a large repository has 30 MiB.
	maxDownload = 128 << 20
	// patience bounds one download, as Helm does.
	patience = 2 * time.Minute
)

// entryOf is a repository by its URL: the entry of 'helm repo add', if there is one. The fields of the
// request override it (overlaid).
func (f *fetcher) entryOf(address string) *repo.Entry {
	entry := &repo.Entry{URL: address}
	if known, err := repo.LoadFile(f.settings.RepositoryConfig); err == nil {
		for _, e := range known.Repositories {
			if strings.TrimSuffix(e.URL, "/") == strings.TrimSuffix(address, "/") {
				entry = e
			}
		}
	}
	return f.overlaid(entry)
}

// named is a repository by the name that 'helm repo add' gave it.
func (f *fetcher) named(name string) (*repo.Entry, error) {
	known, err := repo.LoadFile(f.settings.RepositoryConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if known != nil {
		if entry := known.Get(name); entry != nil && entry.URL != "" {
			return f.overlaid(entry), nil
		}
	}
	return nil, fmt.Errorf("there is no repository %s: 'helm repo add %s URL', or give its URL with --repo", name, name)
}

// overlaid is a copy of an entry with the fields of the request. A request can only add permissions:
// those that 'helm repo add' has stored remain.
func (f *fetcher) overlaid(entry *repo.Entry) *repo.Entry {
	e := *entry
	for field, value := range map[*string]string{&e.Username: f.Username, &e.Password: f.Password, &e.CAFile: f.CAFile, &e.CertFile: f.CertFile, &e.KeyFile: f.KeyFile} {
		if value != "" {
			*field = value
		}
	}
	e.PassCredentialsAll = e.PassCredentialsAll || f.PassCredentials
	e.InsecureSkipTLSverify = e.InsecureSkipTLSverify || f.InsecureSkipTLS
	return &e
}

// fromRepository downloads a chart of a repository, by the first of its URLs, as Helm does. The
// index is downloaded each time, so 'helm repo update' is not needed. The archive must have the
// digest of the index, if there is one.
func (f *fetcher) fromRepository(entry *repo.Entry, name, version string) (string, error) {
	getters, err := f.getters(entry)
	if err != nil {
		return "", err
	}
	entry.Name = "repository" // Helm names the file of the index after it, in a directory of ours
	r, err := repo.NewChartRepository(entry, getters)
	if err != nil {
		return "", err
	}
	r.CachePath = filepath.Join(f.tmp, "cache")
	file, err := r.DownloadIndexFile()
	if err != nil {
		return "", fmt.Errorf("%s is not a chart repository, or cannot be reached: %w", shown(entry.URL), hidden(err))
	}
	index, err := repo.LoadIndexFile(file)
	if err != nil {
		return "", err
	}
	found, err := index.Get(name, version)
	switch {
	case err != nil && version != "":
		return "", fmt.Errorf("the repository %s has no chart %s with the version %s: %w", shown(entry.URL), name, version, err)
	case err != nil:
		return "", fmt.Errorf("the repository %s has no chart %s; --devel includes pre-releases", shown(entry.URL), name)
	case len(found.URLs) == 0:
		return "", fmt.Errorf("the repository %s has no URL for %s %s", shown(entry.URL), name, found.Version)
	}
	address, err := repo.ResolveReferenceURL(entry.URL, found.URLs[0])
	if err != nil {
		return "", err
	}
	if registry.IsOCI(address) {
		return f.fromRegistryOf(entry, address)
	}
	archive, err := f.to(address, getters, entry)
	if err != nil {
		return "", err
	}
	return archive, checkDigest(archive, found.Digest)
}

// checkDigest compares an archive with its digest in the index, if there is one. The index may be on
// another server than the archive.
func checkDigest(archive, want string) error {
	want = strings.TrimPrefix(want, "sha256:")
	if want == "" {
		return nil
	}
	data, err := readArchive(archive)
	if err != nil {
		return err
	}
	if got := strings.TrimPrefix(digest(data), "sha256:"); !strings.EqualFold(got, want) {
		return fmt.Errorf("the archive has the digest sha256:%s, but the index of its repository lists sha256:%s", got, want)
	}
	return nil
}

// fromURL downloads an archive by its own address, which counts as its repository: credentials of
// the request are for this host.
func (f *fetcher) fromURL(address string) (string, error) {
	entry := f.overlaid(&repo.Entry{URL: address})
	getters, err := f.getters(entry)
	if err != nil {
		return "", err
	}
	return f.to(address, getters, entry)
}

// fromRegistryOf downloads a chart from the registry that the index of a repository names. Another
// host gets the credentials of the repository only if the person allows that.
func (f *fetcher) fromRegistryOf(entry *repo.Entry, address string) (string, error) {
	other := *f
	other.Username, other.Password = "", ""
	if entry.PassCredentialsAll || hostOf(address) == hostOf(entry.URL) {
		other.Username, other.Password = entry.Username, entry.Password
	}
	return other.fromRegistry(address, "")
}

// fromRegistry downloads a chart of a registry. An address with a tag or digest needs no version.
// Helm's client gets a transport of ours, because it would read answers of any length.
func (f *fetcher) fromRegistry(ref, version string) (string, error) {
	entry := f.overlaid(&repo.Entry{URL: ref})
	transport, err := f.transport(entry)
	if err != nil {
		return "", err
	}
	options := []registry.ClientOption{
		registry.ClientOptEnableCache(true),
		registry.ClientOptCredentialsFile(f.settings.RegistryConfig),
		registry.ClientOptHTTPClient(&http.Client{Transport: transport, Timeout: patience}),
		registry.ClientOptBasicAuth(f.Username, f.Password),
	}
	if f.PlainHTTP {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return "", err
	}
	f.registry = client
	d := f.downloader(getter.All(f.settings), getter.WithRegistryClient(client))
	archive, _, err := d.DownloadTo(ref, version, f.tmp)
	if err != nil && mustLogIn(err) {
		host, _, _ := strings.Cut(strings.TrimPrefix(ref, registry.OCIScheme+"://"), "/")
		err = fmt.Errorf("%w; log in with 'helm registry login %s', or use --username and --password", hidden(err), host)
	}
	return archive, wrapped(ref, hidden(err))
}

// mustLogIn recognises the answer of a registry to a client without valid credentials. Registries
// word it differently.
func mustLogIn(err error) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"unauthorized", "basic credential not found", "status code 403", "403 forbidden", ": denied:"}, func(part string) bool { return strings.Contains(text, part) })
}

// to downloads an archive. Credentials go to the host of the repository only, unless they are to be
// passed to others.
func (f *fetcher) to(address string, getters getter.Providers, entry *repo.Entry) (string, error) {
	var options []getter.Option
	if entry.PassCredentialsAll || sameHost(address, entry.URL) {
		options = append(options, getter.WithBasicAuth(entry.Username, entry.Password))
	}
	archive, _, err := f.downloader(getters, options...).DownloadTo(address, "", f.tmp)
	return archive, wrapped(address, hidden(err))
}

// hostOf is the host of an address, with its port; empty for what is no address. It is used where
// the schemes differ anyway: an address in a registry has oci://.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// sameHost decides whether a download gets the credentials of a repository. The scheme counts:
// otherwise an index read by HTTPS could lead a password to the same host without TLS.
func sameHost(a, b string) bool {
	x, err1 := url.Parse(a)
	y, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// downloader is Helm's, without the repositories of 'helm repo add': with these it would read the
// index of each to find the one that has the URL. It verifies signatures if the request asks for it.
func (f *fetcher) downloader(getters getter.Providers, options ...getter.Option) *downloader.ChartDownloader {
	d := &downloader.ChartDownloader{
		Out: new(bytes.Buffer), Keyring: f.Keyring, Getters: getters, Options: options, RegistryClient: f.registry,
		RepositoryConfig: filepath.Join(f.tmp, "none.yaml"), RepositoryCache: filepath.Join(f.tmp, "cache"),
	}
	if f.Verify {
		d.Verify = downloader.VerifyAlways
	}
	return d
}

// getters are those of Helm and of its plugins; downloads by HTTP are bounded.
func (f *fetcher) getters(entry *repo.Entry) (getter.Providers, error) {
	transport, err := f.transport(entry)
	if err != nil {
		return nil, err
	}
	return getter.All(f.settings, getter.WithTransport(transport), getter.WithTimeout(patience)), nil
}

// transport is what Helm would make of the TLS files, except that connections are bounded and end
// with f.ctx: the getters of Helm take no context. It speaks HTTP/1.1 only, since net/http leaves
// HTTP/2 off for a transport with its own dialer and TLS configuration.
func (f *fetcher) transport(entry *repo.Entry) (*http.Transport, error) {
	config := &tls.Config{InsecureSkipVerify: entry.InsecureSkipTLSverify}
	if entry.CertFile != "" && entry.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(entry.CertFile, entry.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if entry.CAFile != "" {
		pem, err := os.ReadFile(entry.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA file %s contains no certificate", entry.CAFile)
		}
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	return &http.Transport{
		DisableCompression: true, Proxy: http.ProxyFromEnvironment, TLSClientConfig: config,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			stop := context.AfterFunc(f.ctx, func() { _ = conn.Close() })
			return &boundedConn{Conn: conn, left: maxDownload, stop: stop}, nil
		},
	}, nil
}

// boundedConn fails after left bytes were read. net/http reads a connection in one goroutine, so
// left needs no lock. The limit is for a connection, so it holds for all answers that arrive on it.
type boundedConn struct {
	net.Conn
	left int
	stop func() bool // releases the connection from the context of the fetcher
}

// Read implements net.Conn.
func (c *boundedConn) Read(into []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("more than %d MiB were received", maxDownload>>20)
	}
	n, err := c.Conn.Read(into)
	c.left -= n
	return n, err
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// hidden removes user, password and parameters from the URL of an error, in place.
func hidden(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		failed.URL = shown(failed.URL)
	}
	return err
}
