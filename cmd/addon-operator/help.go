package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// The groups of commands in help texts.
const (
	groupRun  = "run"
	groupLook = "look"
	groupMake = "make"
)

// describe groups the commands and shortens their help: the options of the operator, which
// every command knows, are documented once, by the program itself.
func describe(root *cobra.Command) {
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run the operator:"}, &cobra.Group{ID: groupLook, Title: "Look into a running operator:"},
		&cobra.Group{ID: groupMake, Title: "Write and check modules, without a cluster:"})
	groups := map[string]string{"start": groupRun, "version": groupRun, "rbac": groupRun, "init": groupMake, "test": groupMake, "apiserver": groupMake}
	for _, cmd := range root.Commands() {
		cmd.GroupID = groupLook
		if id, ok := groups[cmd.Name()]; ok {
			cmd.GroupID = id
		}
	}
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), globalFlags, shortGlobalFlags, 1))
}

// globalFlags is the part of the library's template that lists the options of the operator.
const globalFlags = `Global Flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}`

const shortGlobalFlags = `Options of the operator, as --debug-address and --modules-dir, hold for every command:
  {{.Root.Name}} --help`
