package local

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"addon-operator/actors/scenario"
	"addon-operator/cmd/cli"
	"addon-operator/values"
)

// skeleton is a module whose test passes. Its placeholders are [[ … ]], because {{ … }}
// belongs to the chart.
//
//go:embed skeleton
var skeleton embed.FS

// Init writes skeletons.
func Init() *cobra.Command {
	cmd := cli.Group("init", "Write the beginning of something")
	dir := "modules"
	module := &cobra.Command{
		Use: "module NAME", Short: "Write a module with a chart, a hook, schemas and a test that passes",
		Example: "  addon-operator init module 010-dns\n  addon-operator test modules",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("init module needs one name, as 010-dns: the number is the order in which modules run")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			written, err := initModule(dir, args[0])
			for _, path := range written {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nTry it: addon-operator test %s\n", filepath.Join(dir, args[0]))
			}
			return err
		},
	}
	module.Flags().StringVar(&dir, "dir", dir, "directory of modules")
	cmd.AddCommand(module)
	return cmd
}

// initModule writes the files and returns their paths. A directory that exists is left alone.
func initModule(dir, base string) (written []string, err error) {
	name := strings.TrimLeft(base, "0123456789")
	if name != base {
		name = strings.TrimPrefix(name, "-")
	}
	key, err := values.Key(name)
	if err != nil {
		return nil, cli.Usagef("init module %s: %w", base, err)
	}
	root := filepath.Join(dir, base)
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("init module: %s exists; choose another name, or remove it", root)
	}
	data := map[string]string{"Name": name, "Key": key, "Schema": schemaName}
	err = fs.WalkDir(skeleton, "skeleton", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		target := filepath.Join(root, strings.TrimSuffix(strings.TrimPrefix(path, "skeleton/"), ".tmpl"))
		written = append(written, target)
		return writeSkeleton(path, target, data)
	})
	if err != nil {
		return written, err
	}
	schema := filepath.Join(root, "tests", schemaName)
	return append(written, schema), os.WriteFile(schema, scenario.Schema(), 0o644)
}

// schemaName is the file next to the tests by which editors complete and check them.
const schemaName = "module-test.v1.schema.json"

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
