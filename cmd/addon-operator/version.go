package main

import (
	"cmp"
	"encoding/json"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/cli"
)

// The linker sets these three: .ci/build, the Dockerfile and the release do. commit and date, of
// that commit in RFC 3339 and UTC, are empty where there is no history.
var (
	version = "dev"
	commit  = "" //nolint:gochecknoglobals // the linker sets nothing else
	date    = "" //nolint:gochecknoglobals // the same
)

// versions is what `version -o json` prints. Versions of libraries are those in the program, as
// their modules name them; "unknown" where the program has none.
type versions struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"` // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"` // linux/amd64
	Helm     string `json:"helm"`
	ClientGo string `json:"clientGo"`
}

// ownVersions reads the versions of libraries from what the linker has recorded in the program.
func ownVersions() versions {
	const unknown = "unknown"
	v := versions{
		Version: version, Commit: cmp.Or(commit, unknown), Date: cmp.Or(date, unknown), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Helm: unknown, ClientGo: unknown,
	}
	libraries := map[string]*string{"helm.sh/helm/v3": &v.Helm, "k8s.io/client-go": &v.ClientGo}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if of := libraries[module.Path]; of != nil {
				*of = module.Version
			}
		}
	}
	return v
}

// versionCommand prints only the version without -o, as scripts expect it.
func versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version; with -o json or yaml also the commit and its date, and the versions of Go and of the libraries
of Helm and Kubernetes.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := []byte("addon-operator "+version+"\n"), error(nil)
			switch output {
			case "text":
			case "json":
				text, err = json.MarshalIndent(ownVersions(), "", "  ")
				text = append(text, '\n')
			case "yaml":
				text, err = yaml.Marshal(ownVersions())
			default:
				return cli.Usagef("--output is %q; it must be text, json or yaml", output)
			}
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text, json, yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)) // it was declared a line above
	return cmd
}
