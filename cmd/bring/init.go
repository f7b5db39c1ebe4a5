package bring

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/actors/scenario"
	"addon-operator/cmd/cli"
	"addon-operator/helm/fetch"
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
