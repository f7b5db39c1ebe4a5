package bring

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/helm/fetch"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// testSchema is the schema of tests, next to them, for editors.
const testSchema = "tests/module-test.v1.schema.json"

// Init returns the command init, which writes modules to begin with.
func Init() *cobra.Command {
	cmd := cli.Group("init", "Scaffold a module")
	// These are set by flags.
	dir, from := "modules", fromChart{}
	module := &cobra.Command{
		Use: "module [NAME]", Short: "Scaffold a module with a passing test, from a new chart or a third-party chart",
		Long: `Writes a module with a chart, a hook, schemas and a test. With --from-chart it fetches a third-party
chart as 'helm pull' does, unchanged and with its dependencies, and writes module.yaml with the source
of the chart, values.yaml, a schema, a test of all objects, and a README.md. The default of NAME is then
the name of the chart, with the next number. Repositories, logins, plugins and HELM_* variables are those
of Helm.`,
		Example: `  addon-operator init module 010-dns
  addon-operator init module --from-chart oci://registry.example.com/charts/podinfo --version 6.9.0
  addon-operator init module 020-web --from-chart nginx --repo https://charts.example.com --values values.yaml
  addon-operator test modules`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && from.Ref == "" {
				return cli.Usagef("init module needs one name, such as 010-dns: the number is the order in which modules run")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			base := ""
			if len(args) > 0 {
				base = args[0]
				if _, _, err := nameOf(base); err != nil {
					return cli.Usagef("init module %s: %w", base, err)
				}
			}
			if from.Ref == "" && from != (fromChart{}) { // it would be ignored
				return cli.Usagef("flags about a chart need --from-chart")
			}
			return onStage(cmd, dir, func(s *stage) (err error) {
				if from.Ref != "" {
					base, err = from.make(cmd.Context(), s, base)
				} else {
					err = s.skeleton(base)
				}
				if err == nil {
					err = s.publish(base)
				}
				if err != nil {
					return fmt.Errorf("init module: %w", err)
				}
				_, key, err := nameOf(base)
				root := filepath.Join(dir, base)
				// Modules are disabled by default (E2).
				fmt.Fprintf(&s.out, "\nTry it: addon-operator test %s\nRun it: addon-operator dev %s\nEnable it in a cluster: addon-operator values set %s true\n", root, root, values.FlagKey(key))
				return err
			})
		},
	}
	f := module.Flags()
	f.StringVar(&dir, "dir", dir, "directory of modules")
	f.StringVar(&from.Ref, "from-chart", "", "third-party chart: a directory, an archive, oci://HOST/PATH/CHART, REPO/CHART, the URL of an archive, or a name with --repo")
	f.StringVar(&from.values, "values", "", "file with values of the chart, as for helm install -f, which become values of the module")
	chartFlags(f, &from.Request)
	cmd.AddCommand(module)
	return cmd
}

// stage is a hidden directory next to the modules in which one is made. It is in the same file system,
// so that a rename moves the result. An operator reads directories of modules without hidden ones.
type stage struct {
	dir     string // of the modules that stay
	root    string // the hidden directory
	modules string // the directory of modules in it
	out     bytes.Buffer
}

// skeleton writes a module with a chart of its own.
func (s *stage) skeleton(base string) error {
	name, key, err := nameOf(base)
	if err == nil {
		_, err = place([]string{s.dir}, base, name)
	}
	if err != nil {
		return err
	}
	data := map[string]string{"Name": name, "Key": key, "Schema": filepath.Base(testSchema)}
	// The schema is that of the program, not a template, so that they never differ.
	return errors.Join(s.fill(base, "skeleton", data), s.write(base, testSchema, scenario.Schema()))
}

// chartFlags declares the flags by which a chart is found and fetched, with the names that Helm
// gives them.
func chartFlags(f *pflag.FlagSet, r *fetch.Request) {
	f.StringVar(&r.Version, "version", "", "version of the chart, or a range such as ^1.2, or >0.0.0-0 for pre-releases, too (default: the newest)")
	f.StringVar(&r.RepoURL, "repo", "", "URL of the chart repository that contains the chart")
	f.StringVar(&r.Username, "username", "", "user of the repository or registry")
	f.StringVar(&r.Password, "password", "", "password of the repository or registry")
	f.BoolVar(&r.PassCredentialsAll, "pass-credentials", false, "send user and password to all hosts")
	f.StringVar(&r.CaFile, "ca-file", "", "file with the CA certificate of the server")
	f.StringVar(&r.CertFile, "cert-file", "", "file with the client certificate")
	f.StringVar(&r.KeyFile, "key-file", "", "file with the key of the client certificate")
	f.BoolVar(&r.InsecureSkipTLSverify, "insecure-skip-tls-verify", false, "do not verify the certificate of the server")
	f.BoolVar(&r.PlainHTTP, "plain-http", false, "connect to the registry without TLS")
	f.BoolVar(&r.Verify, "verify", false, "verify the signature of the archive")
	f.StringVar(&r.Keyring, "keyring", "", "file with public keys for --verify (default: pubring.gpg of GnuPG)")
}

// chartDir holds the chart as it was published (A20).
const chartDir = "chart"

// onStage makes a module, or a part of one, on a stage, and removes the stage. A directory of modules
// that did not exist is made, and removed again after a failure. What work prints is printed at the
// end, so that a closed pipe does not stop the work.
func onStage(cmd *cobra.Command, dir string, work func(*stage) error) error {
	_, missing := os.Stat(dir)
	err := os.MkdirAll(dir, 0o755)
	s := &stage{dir: dir}
	if err == nil {
		s.root, err = os.MkdirTemp(dir, ".addon-operator-")
	}
	if s.modules = filepath.Join(s.root, "modules"); err == nil {
		err = os.Mkdir(s.modules, 0o755)
	}
	if err == nil {
		err = work(s)
	}
	_ = os.RemoveAll(s.root) // it is hidden, should it stay
	if err != nil && missing != nil {
		_ = os.Remove(dir) // only when it is empty
	}
	for line := range strings.Lines(s.out.String()) {
		fmt.Fprintln(cmd.OutOrStdout(), view.Printable(strings.TrimSuffix(line, "\n")))
	}
	return err
}

// share brings the values of all modules and the global hooks to the stage: tests and renders of
// the module depend on both. Global hooks that do not exist are an empty directory, which loading
// needs (B8).
func (s *stage) share(global string) error {
	const common = "values.yaml"
	for place, from := range map[string]string{s.global(): global, s.path(common, ""): filepath.Join(s.dir, common)} {
		from, err := filepath.Abs(from)
		if _, missing := os.Stat(from); err == nil && missing == nil {
			err = os.Symlink(from, place)
		}
		if err != nil {
			return err
		}
	}
	return os.MkdirAll(s.global(), 0o755)
}

func (s *stage) global() string { return filepath.Join(s.root, "global-hooks") }

// placed is a text about a module on the stage, with the paths that its files will have.
func (s *stage) placed(text string) string { return strings.ReplaceAll(text, s.modules, s.dir) }

// path is that of a file of a module, whose name has slashes.
func (s *stage) path(base, name string) string {
	return filepath.Join(s.modules, base, filepath.FromSlash(name))
}

// write writes a file of a module. Only hooks are programs.
func (s *stage) write(base, name string, text []byte) error {
	path, mode := s.path(base, name), os.FileMode(0o644)
	if strings.HasPrefix(name, "hooks/") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, mode)
}

// Templates are the files of modules to begin with: skeleton has a chart of its own. Their
// placeholders are [[ … ]], because {{ … }} belongs to the chart.
//
//go:embed skeleton third-party
var templates embed.FS

// fill writes the files of a directory of templates. Their suffix keeps editors and linters from
// reading them as what they become.
func (s *stage) fill(base, from string, data any) error {
	return fs.WalkDir(templates, from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		parsed, err := template.New(filepath.Base(path)).Delims("[[", "]]").ParseFS(templates, path)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, data); err != nil {
			return err
		}
		return s.write(base, strings.TrimSuffix(strings.TrimPrefix(path, from+"/"), ".tmpl"), text.Bytes())
	})
}

// load reads a module on the stage, as the operator would: what it refuses is an error.
func (s *stage) load(base string) (*addons.Tree, addons.Module, error) {
	tree, err := addons.Load(addons.Dirs{Modules: []string{s.modules}, Global: s.global(), UnnumberedOrder: 1})
	if err != nil {
		return nil, addons.Module{}, err
	}
	i := slices.IndexFunc(tree.Modules, func(m addons.Module) bool { return m.Base == base })
	if i < 0 {
		return nil, addons.Module{}, fmt.Errorf("%s is not a module", base)
	}
	return tree, tree.Modules[i], nil
}

// publish moves a module to its place.
func (s *stage) publish(base string) error {
	root := filepath.Join(s.dir, base)
	if err := os.Rename(filepath.Join(s.modules, base), root); err != nil {
		return err
	}
	_, err := fmt.Fprintln(&s.out, root)
	return err
}

// nameOf is the name of a module from that of its directory, as the operator reads it (A4, A6), with
// the key of its values. It refuses a path.
func nameOf(base string) (name, key string, err error) {
	_, name = addons.SplitNumber(base, 0)
	key, err = values.Key(name)
	if err == nil && strings.ContainsAny(base, `/\`) {
		err = errors.New("it is the name of a directory, not a path")
	}
	return name, key, err
}

// place is the name of the directory for a new module in the first of some directories. If none is
// given, its number is the next multiple of ten after the highest one, so that the module runs last,
// with room between. The name of another module is refused, whatever its number, as the operator would.
func place(dirs []string, base, name string) (string, error) {
	highest := 0
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // a directory that is not there holds no modules
		for _, e := range entries {
			order, other := addons.SplitNumber(e.Name(), 0)
			if other == name {
				place := filepath.Join(dir, e.Name())
				return "", fmt.Errorf("the module %s exists already, in %s; choose another name, or remove it", name, place)
			}
			highest = max(highest, order)
		}
	}
	if base == "" {
		base = fmt.Sprintf("%03d-%s", (highest/10+1)*10, name)
	}
	return base, nil
}

// source is chart in module.yaml (A21), without what is not known.
func source(o fetch.Origin) map[string]any {
	fields := map[string]any{"repository": o.Repository, "name": o.Name, "version": o.Version, "digest": o.Digest}
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == "" })
	return fields
}

// moduleFile is the text of a new module.yaml: where the chart is from, and the namespace of the
// release.
func moduleFile(o fetch.Origin, namespace string) ([]byte, error) {
	file := map[string]any{"chart": source(o)}
	if namespace != "" {
		file["namespace"] = namespace
	}
	const head = "# Where chart/ is from. 'addon-operator module upgrade-chart' writes it, and keeps the rest of this file.\n"
	text, err := values.YAML(file)
	return append([]byte(head), text...), err
}
