package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"

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

// oldestKubernetes is the minor version that the chart of the Deployment requires at least; a test
// compares them.
const oldestKubernetes = "1.25"

// testedKubernetes are the minor versions in docs/compatibility.md; a test compares them with the
// control planes that make matrix builds.
func testedKubernetes() []string { return []string{"1.34", "1.35", "1.36"} }

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
	// Kubernetes is the range of minor versions: from what the chart of the Deployment asks for, to
	// what the client library was made for. The tests of a release run on those that are tested.
	Kubernetes struct {
		Oldest string   `json:"oldest"`
		Newest string   `json:"newest"`
		Tested []string `json:"tested"`
	} `json:"kubernetes"`
}

// ownVersions reads the versions of libraries from what the linker has recorded in the program.
func ownVersions() versions {
	const unknown = "unknown"
	v := versions{
		Version: version, Commit: commit, Date: date, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Helm: unknown, ClientGo: unknown,
	}
	v.Kubernetes.Oldest, v.Kubernetes.Newest, v.Kubernetes.Tested = oldestKubernetes, unknown, testedKubernetes()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "helm.sh/helm/v3":
				v.Helm = module.Version
			case "k8s.io/client-go":
				v.ClientGo = module.Version
				if minor, ok := strings.CutPrefix(module.Version, "v0."); ok { // v0.36.3 is made for Kubernetes 1.36
					minor, _, _ = strings.Cut(minor, ".")
					v.Kubernetes.Newest = "1." + minor
				}
			}
		}
	}
	// An empty text would look like a mistake of the program.
	for _, text := range []*string{&v.Commit, &v.Date} {
		if *text == "" {
			*text = unknown
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
		Long: `Prints the version; with -o json or yaml also the commit and its date, the versions of Go and of the libraries of
Helm and Kubernetes, and the versions of Kubernetes that are supported and tested.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var text []byte
			var err error
			switch output {
			case "text":
				text = []byte("addon-operator " + version + "\n")
			case "json":
				text, err = json.MarshalIndent(ownVersions(), "", "  ")
				text = append(text, '\n')
			case "yaml":
				text, err = yaml.Marshal(ownVersions())
			default:
				return cli.Usagef("--output is %q; it must be text, json or yaml", output)
			}
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text, json, yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)) // it was declared a line above
	return cmd
}
