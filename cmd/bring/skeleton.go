package bring

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/actors/scenario"
	"addon-operator/cmd/cli"
	"addon-operator/values"
)

// skeleton is a module whose test passes. Its placeholders are [[ … ]], because {{ … }}
// belongs to the chart.
//
//go:embed skeleton
var skeleton embed.FS

// Init returns the command init, which writes modules to begin with.
func Init() *cobra.Command {
	cmd := cli.Group("init", "Scaffold a module")
	dir := "modules"
	// These are set by flags, so the commands that read them are closures.
	var from fromChart
	module := &cobra.Command{
		Use: "module [NAME]", Short: "Scaffold a module with a passing test, from a new chart or a third-party chart",
		Long: `Writes a module with a chart, a hook, schemas and a test. With --from-chart it fetches a third-party chart as 'helm
pull' does, unchanged and with its dependencies, and writes module.yaml, values.yaml, a schema, a test of all objects,
and a README.md; NAME is then optional. Repositories, logins, plugins and HELM_* variables are those of Helm.`,
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
			if from.Ref != "" {
				if from.Dir = dir; len(args) > 0 {
					from.Base = args[0]
				}
				return from.write(cmd.Context(), cmd.OutOrStdout())
			}
			// A flag that would be ignored is a mistake.
			if alone := withoutChart(cmd.LocalNonPersistentFlags()); alone != "" {
				return cli.Usagef("--%s needs --from-chart", alone)
			}
			// Files are listed also after an error, so that they can be found and removed.
			written, err := initModule(dir, args[0])
			for _, path := range written {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			if err == nil {
				err = tryIt(cmd.OutOrStdout(), filepath.Join(dir, args[0]))
			}
			return err
		},
	}
	f := module.Flags()
	f.StringVar(&dir, "dir", dir, "directory of modules")
	f.StringVar(&from.Ref, "from-chart", "", "third-party chart: a directory, an archive, oci://HOST/PATH/CHART, REPO/CHART, the URL of an archive, or a name with --repo")
	f.StringVar(&from.ValuesFile, "values", "", "file with values of the chart, as for helm install -f, which become values of the module")
	chartFlags(f, &from.Request)
	cmd.AddCommand(module)
	return cmd
}

// withoutChart returns a flag that was given and has no effect without --from-chart; "" when there
// is none.
func withoutChart(f *pflag.FlagSet) (name string) {
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && flag.Name != "dir" {
			name = flag.Name
		}
	})
	return name
}

// tryIt says what an author does next with a module; modules are disabled by default (E2).
func tryIt(w io.Writer, root string) error {
	_, key, err := names(filepath.Base(root))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nTry it: addon-operator test %s\nRun it: addon-operator dev %s\nEnable it in a cluster: addon-operator values set %s true\n", root, root, values.FlagKey(key))
	return err
}

// initModule writes the skeleton into a new directory and returns the paths of its files, also of
// those that it wrote before an error. A directory that exists is left alone.
func initModule(dir, base string) (written []string, err error) {
	name, key, err := names(base)
	if err != nil {
		return nil, cli.Usagef("init module %s: %w", base, err)
	}
	root := filepath.Join(dir, base)
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("init module: %s exists; choose another name, or remove it", root)
	}
	data := map[string]string{"Name": name, "Key": key, "Schema": testSchema}
	err = fs.WalkDir(skeleton, "skeleton", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		// The suffix keeps editors and linters from reading templates as what they become.
		target := filepath.Join(root, strings.TrimSuffix(strings.TrimPrefix(path, "skeleton/"), ".tmpl"))
		written = append(written, target)
		return writeSkeleton(path, target, data)
	})
	if err != nil {
		return written, err
	}
	// The schema is that of the program, not of the skeleton, so that they never differ.
	schema := filepath.Join(root, "tests", testSchema)
	return append(written, schema), os.WriteFile(schema, scenario.Schema(), 0o644)
}

// writeSkeleton writes one file with its placeholders filled in. Files of an embedded tree have no
// mode, so hooks get theirs here. A file that exists is an error.
func writeSkeleton(source, target string, data map[string]string) error {
	text, err := skeleton.ReadFile(source)
	if err != nil {
		return err
	}
	parsed, err := template.New(source).Delims("[[ ", " ]]").Parse(string(text))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if strings.Contains(source, "/hooks/") {
		mode = 0o755
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	return errors.Join(parsed.Execute(file, data), file.Close())
}
