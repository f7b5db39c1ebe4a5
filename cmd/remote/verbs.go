package remote

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/values"
)

// Get has the lists of a running operator under the names of kubectl. Its
// commands are those of the other groups, so that they have the same flags and answers.
func Get(c *cli.Config) *cobra.Command {
	cmd := cli.Group("get", "Print modules, hooks, queues, tasks or values")
	cmd.AddCommand(
		under("modules", "module", child(Module(c), "list")),
		under("hooks", "hook", child(Hook(c), "list")),
		getQueues(c, "queues [NAME]", "queue", "Print the queues and what they do now", queueTable, namesOfQueues),
		getQueues(c, "tasks [QUEUE]", "task", "Print the tasks of the queues: up to 100 of each", taskTable, namesOfTasks),
		// No alias: the singular of values would mean one value.
		under("values MODULE", "", child(Module(c), "values")),
	)
	return cmd
}

// child takes a command out of a group that was made for it: a cobra command has one parent only.
func child(group *cobra.Command, name string) *cobra.Command {
	all := group.Commands()
	cmd := all[slices.IndexFunc(all, func(c *cobra.Command) bool { return c.Name() == name })]
	group.RemoveCommand(cmd)
	return cmd
}

// under gives a command another name, by its use line, and the singular as an alias. The example
// follows from both.
func under(use, alias string, cmd *cobra.Command) *cobra.Command {
	name, _, _ := strings.Cut(use, " ")
	cmd.Use, cmd.Example = use, "  addon-operator get "+name
	if alias != "" {
		cmd.Aliases = []string{alias}
	}
	if strings.HasSuffix(use, "MODULE") {
		cmd.Example += " ingress-nginx"
	}
	return cmd
}

// Edits are the commands that change the ConfigMap: set and unset, which are those below values,
// and enable and disable.
func Edits(c *cli.Config) []*cobra.Command {
	names := &completer{c}
	set, unset := setCommand(c, names), unsetCommand(c, names)
	// They differ from those below values only in their place, so the texts are derived.
	for _, cmd := range []*cobra.Command{set, unset} {
		cmd.Short += ", as values " + cmd.Name()
		cmd.Example = strings.ReplaceAll(cmd.Example, "addon-operator values ", "addon-operator ")
	}
	return []*cobra.Command{set, unset, switchCommand(c, "enable", "Enable", true), switchCommand(c, "disable", "Disable", false)}
}

// switchCommand switches modules on or off by their flags in the ConfigMap. Each flag is an edit of
// its own, with its own write: one that fails does not keep the others from being written.
func switchCommand(c *cli.Config, name, verb string, on bool) *cobra.Command {
	v := &valueEdit{config: c, edit: values.Edit{Value: on}}
	names := &completer{c}
	cmd := &cobra.Command{
		Use: name + " MODULE...", Short: verb + " modules in the ConfigMap",
		Long: verb + `s modules by their flags in the ConfigMap, as values set NAMEEnabled does. The flag overrides
the files, but an enabled script of the module may still disable it. values unset NAMEEnabled removes the flag.`,
		Example: "  addon-operator " + name + " ingress-nginx\n  addon-operator " + name + " grafana prometheus --dry-run",
		Args:    cli.SomeArgs("the names of modules, such as 'dns' for 010-dns"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, module := range args {
				// A name that is no name of a module fails before anything is read.
				key, err := values.Key(module)
				if err == nil {
					err = v.run(cmd, key+"Enabled")
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
		ValidArgsFunction: each(names.modules),
	}
	v.flags(cmd)
	return cmd
}
