package bring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"addon-operator/cmd/cli"
	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// chartFlags declares the flags by which a chart is found and fetched, with the names that Helm
// gives them.
func chartFlags(f *pflag.FlagSet, r *fetch.Request) {
	f.StringVar(&r.Version, "version", "", "version of the chart, or a range such as ^1.2 (default: the newest)")
	f.StringVar(&r.Repo, "repo", "", "URL of the chart repository that contains the chart")
	f.BoolVar(&r.Devel, "devel", false, "include pre-releases when choosing the newest version")
	f.StringVar(&r.Username, "username", "", "user of the repository or registry")
	f.StringVar(&r.Password, "password", "", "password of the repository or registry")
	f.BoolVar(&r.PassCredentials, "pass-credentials", false, "send user and password to all hosts")
	f.StringVar(&r.CAFile, "ca-file", "", "file with the CA certificate of the server")
	f.StringVar(&r.CertFile, "cert-file", "", "file with the client certificate")
	f.StringVar(&r.KeyFile, "key-file", "", "file with the key of the client certificate")
	f.BoolVar(&r.InsecureSkipTLS, "insecure-skip-tls-verify", false, "do not verify the certificate of the server")
	f.BoolVar(&r.PlainHTTP, "plain-http", false, "connect to the registry without TLS")
	f.BoolVar(&r.Verify, "verify", false, "verify the signature of the archive")
	f.StringVar(&r.Keyring, "keyring", "", "file with public keys for --verify (default: pubring.gpg of GnuPG)")
}

// fromChart are the flags for a module that is made of a chart.
type fromChart struct {
	fetch.Request
	Dir        string // of modules
	Base       string // of the directory of the module; empty: the name of the chart, with the next number
	ValuesFile string // values for helm install -f, which become those of the module; may be empty
}

// write makes the module and reports what it wrote. The directory of modules is made when it does
// not exist, and removed again after a failure.
func (o fromChart) write(ctx context.Context, w io.Writer) error {
	// Arguments and files first: a download may take long.
	if o.Base != "" {
		if _, _, err := names(o.Base); err != nil {
			return cli.Usagef("init module %s: %w", o.Base, err)
		}
	}
	given, err := readGiven(o.ValuesFile)
	if err != nil {
		return err
	}
	made, err := ensureDir(o.Dir)
	if err != nil {
		return fmt.Errorf("init module: %w", err)
	}
	var text bytes.Buffer // printed at the end: a closed pipe must not stop the work
	root, err := o.make(ctx, &text, given)
	if err != nil {
		if made != "" {
			_ = os.Remove(made) // only when it is empty
		}
		return fmt.Errorf("init module: %w", err)
	}
	err = tryIt(&text, root)
	_, writeErr := text.WriteTo(w)
	return errors.Join(err, writeErr)
}

// make makes the module on a stage and moves it to its place, which it returns. given is the text
// of the values, or "".
func (o fromChart) make(ctx context.Context, w io.Writer, given string) (root string, err error) {
	s, err := newStage(o.Dir, filepath.Join(o.Dir, "..", "global-hooks"))
	// A stage that is made only in part is removed, too.
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return "", err
	}
	// The name of the module, and so of its directory, may depend on the chart, which comes first.
	arrived := filepath.Join(s.root, chartDir)
	c, err := fetch.Get(ctx, o.Request, arrived)
	if err != nil {
		return "", err
	}
	if c.Metadata.Type == "library" {
		return "", fmt.Errorf("%s is a library for other charts, and installs nothing", c.Origin)
	}
	n := &newModule{stage: s, base: o.Base, chart: c, given: given}
	if n.base == "" {
		n.base = nextBase(o.Dir, c.Name)
	}
	// Charts may have names that modules cannot have, such as Web-2.
	if n.name, n.key, err = names(n.base); err != nil {
		return "", fmt.Errorf("the name of the chart, %s, cannot be that of a module; specify one before --from-chart: %w", c.Name, err)
	}
	// Before the module is rendered and its test is played, which takes a while.
	if err := o.free(n); err != nil {
		return "", err
	}
	if err := os.MkdirAll(n.dir(), 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(arrived, filepath.Join(n.dir(), chartDir)); err != nil {
		return "", err
	}
	// This renders the chart and plays the test, so the module is complete before it is visible.
	if err := n.fill(ctx); err != nil {
		return "", err
	}
	root = filepath.Join(o.Dir, n.base)
	if err := os.Rename(n.dir(), root); err != nil {
		return "", err
	}
	c.Describe(w)
	if c.Metadata.Deprecated {
		n.note("the chart is deprecated by its authors")
	}
	for _, note := range n.notes {
		fmt.Fprintln(w, "Note:", note)
	}
	return root, list(w, root)
}

// free refuses a directory that exists, and the name of another module, whatever its number: the
// operator would refuse both.
func (o fromChart) free(n *newModule) error {
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name, _, err := names(e.Name()); e.Name() == n.base || err == nil && e.IsDir() && name == n.name {
			return fmt.Errorf("%s exists; choose another name, or remove it", filepath.Join(o.Dir, e.Name()))
		}
	}
	return nil
}

// names takes the name of a module's directory apart, as the operator does (A4, A6), and returns
// its name and key. It refuses a path.
func names(base string) (name, key string, err error) {
	number, rest, ok := strings.Cut(base, "-")
	if name = base; ok && number != "" && strings.Trim(number, "0123456789") == "" {
		name = rest
	}
	key, err = values.Key(name)
	if err == nil && strings.ContainsAny(base, `/\`) {
		err = errors.New("it is the name of a directory, not a path")
	}
	return name, key, err
}

// readGiven reads the file of --values as text, so that its comments can be kept, after checking
// that it can be parsed.
func readGiven(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err == nil {
		err = values.CheckSize(info.Size())
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err == nil {
		_, err = values.ParseYAML(text)
	}
	if err != nil {
		return "", fmt.Errorf("--values %s: %w", path, err)
	}
	return string(text), nil
}

// ensureDir makes a directory if it does not exist, and returns it then; "" when it was there.
func ensureDir(dir string) (made string, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return dir, os.MkdirAll(dir, 0o755)
	}
	return "", nil
}
