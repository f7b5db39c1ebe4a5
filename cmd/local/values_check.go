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

// CheckValues validates without a cluster, so that it can guard a pipeline.
func CheckValues(c *cli.Config) *cobra.Command {
	var file, secretFile string
	cmd := &cobra.Command{
		Use: "check", Short: "Validate values.yaml files, schemas and a proposed ConfigMap, without a cluster",
		Long: `Validates values.yaml files and schemas below the modules and global hooks directories
and, when they are given, a proposed ConfigMap and the Secret with values above it: manifests,
or only their data (texts, for the Secret not in base64). What a schema requires may lie in the
Secret, so give that, too, when there is one. Charts are checked as well: their dependencies,
and values.schema.json of charts and subcharts. Every violation is printed; the exit code is 1
when there is one. A value that no template reads is a warning.`,
		Example: "  addon-operator values check --modules-dir ./modules --global-hooks-dir ./global-hooks --config-map cm.yaml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := cli.ReadConfigMap(file)
			secret, secretErr := readSecret(secretFile)
			err = errors.Join(err, secretErr)
			tree, loadErr := addons.Load(c.Dirs)
			warn := cli.Log(cmd, slog.LevelInfo)
			for _, warning := range tree.Warnings {
				if !slices.Contains(tree.Problems, warning) {
					warn.Warn(warning)
				}
			}
			if err := errors.Join(loadErr, err, check.ConfigMap(tree, data, secret, warn, nil), check.Tree(tree, nil)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The values are valid: global ones, and those of %s.\n", view.Count(len(tree.Modules), "module"))
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config-map", "", "file with the proposed ConfigMap")
	cmd.Flags().StringVar(&secretFile, "secret", "", "file with the Secret with values")
	return cmd
}

// readSecret reads the data of a Secret from a manifest, with data and stringData, or from a
// file that holds only its texts. Errors show nothing of them.
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
	var secret corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &secret); err != nil {
		return nil, fmt.Errorf("%s: it is no manifest of a Secret: its data must be strings in base64, its stringData strings", path)
	}
	if secret.StringData == nil {
		secret.StringData = map[string]string{}
	}
	for key, value := range secret.Data {
		if _, there := secret.StringData[key]; !there { // as the API server does
			secret.StringData[key] = string(value)
		}
	}
	return secret.StringData, nil
}
