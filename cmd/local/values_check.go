package local

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"addon-operator/actors/check"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// CheckValues is the command values check. It validates without a cluster, so that it can guard a
// pipeline, and with the code with which the operator decides (actors/check), so that both agree.
// It collects all problems, of files and of values, before it fails.
func CheckValues(c *cli.Config) *cobra.Command {
	var file, secretFile string
	cmd := &cobra.Command{
		Use: "check [DIR]", Short: "Validate values.yaml files, schemas and a proposed ConfigMap, without a cluster",
		Long: `Validates the values.yaml files, schemas and charts in the modules and global hooks directories and, if given, a
proposed ConfigMap and the Secret with values above it: manifests, or only their data. Pass the Secret if a schema
requires a value that is in it. The command prints every violation, and exits with code 1 if there is one. DIR contains modules/ and global-hooks/, or modules. Without it the
directories of the options are checked, or else the current one.`,
		Example: "  addon-operator values check\n  addon-operator values check ~/add-ons -f configmap.yaml",
		Args:    cli.OneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, done, err := c.UseDirectory(args)
			if err != nil {
				return err
			}
			defer done()
			data, err := cli.ReadConfigMap(file)
			secret, secretErr := readSecret(secretFile)
			err = errors.Join(err, secretErr)
			// None of these errors keeps the others from being found.
			tree, loadErr := addons.Load(c.Dirs)
			// Warnings go to stderr as a log, and leave the exit code 0.
			warn := cli.Log(cmd, slog.LevelInfo)
			// Problems are errors of this command (check.Tree), so they are not also warnings.
			for _, warning := range tree.Warnings {
				if !slices.Contains(tree.Problems, warning) {
					warn.Warn(warning)
				}
			}
			// A tree with errors has what could be read, so the rest is checked all the same.
			if err := errors.Join(loadErr, err, check.ConfigMap(tree, data, secret, warn), check.Charts(tree, data, secret), check.Tree(tree)); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), validText(len(tree.Modules), check.Unchecked(tree, data)))
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with a ConfigMap to check: a manifest, or only its data")
	// The name of the global option would take it silently for the name of a ConfigMap.
	cmd.Flags().StringVar(&file, "config-map", "", "")
	_ = cmd.Flags().MarkDeprecated("config-map", "use -f") // it exists
	cmd.Flags().StringVar(&secretFile, "secret", "", "file with the Secret with values")
	return cmd
}

// validText says what was checked.
func validText(modules, unchecked int) string {
	text := fmt.Sprintf("The global values and the values of %s are valid", view.Count(modules-unchecked, "module"))
	switch unchecked {
	case 0:
		return text + "."
	case 1:
		return text + "; 1 module is disabled and was not checked."
	}
	return fmt.Sprintf("%s; %d modules are disabled and were not checked.", text, unchecked)
}

// readSecret reads the data of a Secret from a manifest, with data and stringData, or from a file
// that holds only its texts, not in base64. An empty path gives nil. Errors name keys and never
// show values: the log of a pipeline is no place for them.
func readSecret(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the Secret: %w", err)
	}
	tree, err := values.ParseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	content, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: it must be the manifest of a Secret, or its data: a map of keys to strings", path)
	}
	kind, isManifest := content["kind"]
	if !isManifest {
		return cli.Texts(path, content)
	}
	if kind != "Secret" {
		return nil, fmt.Errorf("%s: kind is %v, not Secret", path, kind)
	}
	// The error of the conversion is not passed on, because it quotes what it cannot convert.
	var secret corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &secret); err != nil {
		return nil, fmt.Errorf("%s: it is not the manifest of a Secret: its data must be base64 strings, its stringData plain strings", path)
	}
	if secret.StringData == nil {
		secret.StringData = map[string]string{}
	}
	// The conversion has decoded base64. In both fields stringData wins, as in the API server.
	for key, value := range secret.Data {
		if _, there := secret.StringData[key]; !there {
			secret.StringData[key] = string(value)
		}
	}
	return secret.StringData, nil
}
