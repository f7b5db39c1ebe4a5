package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/bring"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/coldstart"
	"addon-operator/cmd/dev"
	"addon-operator/cmd/lint"
	"addon-operator/cmd/local"
	"addon-operator/cmd/operator"
	"addon-operator/cmd/rbac"
	"addon-operator/cmd/remote"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/supervisor"
)

// These are exit codes (Design 9). A [cli.ExitError] has another one.
const (
	exitStopped = 0
	exitRefused = 1 // start-up refused, or a command failed
	exitUsage   = 2
)

func main() { os.Exit(runCommand()) }

// runCommand runs the command line and returns the exit code. os.Exit runs no deferred functions,
// so main calls it alone.
func runCommand() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal must end the process at once: give the default action back.
	context.AfterFunc(ctx, stop)
	// Until start redirects it to the log of the operator.
	lines := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: cli.WithoutTime})
	charts.RedirectLog(slog.New(supervisor.Sparing(lines)))
	// It returns the command that ran, whose help is named after a usage error.
	cmd, err := command(os.LookupEnv).ExecuteContextC(ctx)
	report(cmd.CommandPath(), err)
	return exitCode(err)
}

// exitCode decides by the type of the error, at any depth.
func exitCode(err error) int {
	var code cli.ExitError
	switch {
	case err == nil:
		return exitStopped
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, new(cli.UsageError)):
		return exitUsage
	}
	return exitRefused
}

// report prints why the program ends and, after a usage error, whose help to read. A command that
// ends with an exit code of its own has printed the reason. Control characters are escaped (J10).
func report(command string, err error) {
	if err == nil || errors.As(err, new(cli.ExitError)) {
		return
	}
	fmt.Fprintf(os.Stderr, "addon-operator: %s\n", hooks.Printable(err.Error()))
	if errors.As(err, new(cli.UsageError)) {
		fmt.Fprintf(os.Stderr, "See '%s --help'.\n", command)
	}
}

// plugin is the name under which kubectl finds this program as its command 'kubectl addon'.
const plugin = "kubectl-addon"

// command builds the command line; lookup reads environment variables. Without a command the
// program starts the operator (B2), except as a plugin. Packages of cmd/ get functions of others
// here, so that most of them do not import each other.
func command(lookup func(string) (string, bool)) *cobra.Command {
	root, cfg := cli.Root(version, lookup)
	root.Short = "Keeps the add-ons of a Kubernetes cluster installed"
	root.Long = "addon-operator runs Helm charts with hooks as modules. Without a command it starts the operator."
	start := operator.Start(cfg)
	root.RunE = start.RunE
	read := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if cmd != root && cmd != start { // which say themselves when their start is over
			coldstart.Over()
		}
		return read(cmd, args)
	}
	if filepath.Base(os.Args[0]) == plugin { // a person at a laptop does not mean to start an operator
		cfg.Plugin = true
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: cfg.Program()}
		root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	root.Version = version
	root.SetVersionTemplate("addon-operator {{.Version}}\n")
	remote.DumpActors(cfg, root)

	pages := remote.Pages(cfg)
	for _, group := range pages {
		switch group.Name() {
		case "module":
			group.AddCommand(bring.UpgradeChart(cfg))
		case "values":
			group.AddCommand(local.CheckValues(cfg))
		}
	}
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add(cli.GroupRun, start, versionCommand(), debugOptions(), rbac.Command(cfg), operator.WebhooksCommand(cfg))
	add(cli.GroupChange, remote.Requests(cfg)...)
	add(cli.GroupLook, append(pages, remote.Wait(cfg), remote.Plan(cfg, operator.Plan), remote.Raw(cfg))...)
	add(cli.GroupMake, bring.Init(), dev.Command(cfg, lint.Look), bring.Import(cfg, operator.Plan), local.Test(cfg), lint.Command(cfg), local.APIServer())
	root.SetCompletionCommandGroupID(cli.GroupRun)
	root.SetHelpCommandGroupID(cli.GroupRun)
	root.SetUsageTemplate(strings.NewReplacer(localFlags, ownFlags, globalFlags, shortGlobalFlags, moreHelp, "").Replace(root.UsageTemplate()))
	return root
}

// debugOptions prints the options that help to find a fault. Installations of the existing operator
// have the command under this name, so it exists, hidden.
func debugOptions() *cobra.Command {
	return &cobra.Command{Use: "debug-options", Short: "Print the options for debugging the operator", Args: cli.NoArgs, Hidden: true, Run: func(cmd *cobra.Command, _ []string) {
		shown := pflag.NewFlagSet("", pflag.ContinueOnError)
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if strings.HasPrefix(f.Name, "debug-") || strings.HasPrefix(f.Name, "log-") {
				shown.AddFlag(f)
			}
		})
		fmt.Fprint(cmd.OutOrStdout(), shown.FlagUsages())
	}}
}

// The parts of cobra's template that list flags. The options of the operator are dozens, so only the
// help of start lists them; the other commands show those that select an operator. If an update of
// cobra words the parts in another way, nothing is replaced, and a test fails.
const (
	localFlags = `{{if .HasAvailableLocalFlags}}`

	ownFlags = `{{if and .HasParent .HasAvailableLocalFlags}}`

	globalFlags = `{{if .HasAvailableInheritedFlags}}

Global Flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}`

	moreHelp = `{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more information about a command.{{end}}`

	shortGlobalFlags = `{{if eq .Name "start"}}

Options of the operator:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{else}}

Flags of every command, which select the operator; its options: {{.Root.Name}} start --help
      --kubeconfig FILE, --context NAME   its cluster; by default that of the current context
  -n, --namespace NAME                    its namespace
      --debug-address ADDRESS             its debug address, HOST:PORT or unix:PATH, elsewhere{{end}}`
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
