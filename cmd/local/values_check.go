package local

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// CheckValues is the command values check. It validates without a cluster, so that it can guard a
// pipeline, and with the code with which the operator decides (actors/plan), so that both agree.
// It collects all problems, of files and of values, before it fails.
func CheckValues(c *cli.Config) *cobra.Command {
	var file, secretFile string
	cmd := &cobra.Command{
		Use: "check [DIR]", Short: "Validate values.yaml files, schemas and a proposed ConfigMap, without a cluster",
		Long: `Validates the values.yaml files, schemas and charts in the modules and global hooks directories and, if given, a
proposed ConfigMap, as a manifest or only its data, and the manifest of the Secret with values above it. Pass the Secret
if a schema requires a value that is in it. The command prints every violation, and exits with code 1 if there is one.
DIR contains modules, as for lint.`,
		Example: "  addon-operator values check\n  addon-operator values check ~/add-ons -f configmap.yaml",
		Args:    cli.Arguments("[DIR]"),
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
			// Problems are errors of this command (plan.CheckTree), so they are not also warnings.
			for _, warning := range tree.Warnings {
				if !slices.Contains(tree.Problems, warning) {
					warn.Warn(warning)
				}
			}
			// A tree with errors has what could be read, so the rest is checked all the same.
			unchecked, valuesErr := plan.CheckConfigMap(tree, data, secret, warn)
			if err := errors.Join(loadErr, err, valuesErr, plan.CheckTree(tree)); err != nil {
				return err
			}
			text := fmt.Sprintf("The global values and the values of %s are valid", view.Count(len(tree.Modules)-unchecked, "module"))
			if unchecked > 0 {
				text += "; disabled, and not checked: " + view.Count(unchecked, "module")
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text+".")
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with a ConfigMap to check: a manifest, or only its data")
	// The name of the global option would take it silently for the name of a ConfigMap.
	cmd.Flags().StringVar(&file, "config-map", "", "")
	_ = cmd.Flags().MarkDeprecated("config-map", "use -f") // it exists
	cmd.Flags().StringVar(&secretFile, "secret", "", "file with the manifest of the Secret with values")
	return cmd
}

// readSecret reads the manifest of a Secret, with data and stringData. An empty path gives nil. Errors
// never show values: the log of a pipeline is no place for them.
func readSecret(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the Secret: %w", err)
	}
	secret := corev1.Secret{StringData: map[string]string{}}
	if err := yaml.UnmarshalStrict(text, &secret); err != nil || secret.Kind != "Secret" { // the error would quote what it cannot convert
		return nil, fmt.Errorf("%s: it is not the manifest of a Secret: kind must be Secret, its data base64 strings, its stringData plain strings", path)
	}
	// In both fields stringData wins, as in the API server.
	for key, value := range secret.Data {
		if _, there := secret.StringData[key]; !there {
			secret.StringData[key] = string(value)
		}
	}
	return secret.StringData, nil
}
