package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/cmd/bring"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/dev"
	"addon-operator/cmd/lint"
	"addon-operator/cmd/local"
	"addon-operator/cmd/operator"
	"addon-operator/cmd/rbac"
	"addon-operator/cmd/remote"
)

// plugin is the name under which kubectl finds this program as its command 'kubectl addon'.
const plugin = "kubectl-addon"

// command builds the command line; lookup reads environment variables. Without a command the
// program starts the operator (B2), except as a plugin. Packages of cmd/ get functions of others
// here, so that most of them do not import each other.
func command(lookup func(string) (string, bool)) *cobra.Command {
	root, cfg := cli.Root(version, lookup)
	root.Short = "Keeps the add-ons of a Kubernetes cluster installed"
	root.Long = `addon-operator turns Helm charts into modules: charts with hooks that run at the
start, on schedules, on Kubernetes events and around Helm, an enabled script, values
and schemas. Without a command it starts the operator.`
	start := operator.Start(cfg)
	root.RunE = start.RunE
	if filepath.Base(os.Args[0]) == plugin { // a person at a laptop does not mean to start an operator
		cfg.Plugin = true
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: cfg.Program()}
		root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	root.Version = version
	root.SetVersionTemplate("addon-operator {{.Version}}\n")
	remote.DumpActors(cfg, root)

	values, hook, module := remote.Values(cfg), remote.Hook(cfg), remote.Module(cfg)
	module.AddCommand(bring.UpgradeChart(cfg))
	values.AddCommand(local.CheckValues(cfg))
	hook.AddCommand(local.HookConfig(cfg), local.HookRun(cfg))
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add(cli.GroupRun, start, versionCommand(), debugOptions(), rbac.Command(cfg), operator.KeepHooks(cfg))
	add(cli.GroupChange, slices.Concat(remote.Edits(cfg), remote.Requests(cfg))...)
	add(cli.GroupLook, remote.Status(cfg), remote.Get(cfg), remote.Logs(cfg), remote.Events(cfg), remote.Why(cfg), remote.Tree(cfg), remote.Progress(cfg), remote.Wait(cfg), remote.History(cfg), remote.Diff(cfg), remote.Plan(cfg, operator.Plan), values, hook, module, remote.Global(cfg),
		remote.Queue(cfg), remote.Config(cfg), remote.Log(cfg), remote.Raw(cfg))
	add(cli.GroupMake, bring.Init(), dev.Command(cfg, lint.Repeatedly), bring.Import(cfg, operator.Plan, remote.ModulePlanText), local.Test(cfg), lint.Command(cfg), local.APIServer())
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), globalFlags, shortGlobalFlags, 1))
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

// globalFlags is the part of cobra's template that lists the options of the operator below each
// command. There are dozens, so shortGlobalFlags takes its place; the program itself documents them
// once. If an update of cobra words the part in another way, nothing is replaced.
const globalFlags = `Global Flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}`

const shortGlobalFlags = `Options of the operator, such as --debug-address and --modules-dir, apply to every command:
  {{.Root.Name}} --help`
