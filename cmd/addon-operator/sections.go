package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"
)

// moduleCommand shows the values of modules of the running operator (J6).
func moduleCommand(c *Config) *cobra.Command {
	cmd := group("module", "Show modules of the running operator and their values")
	a := &asking{config: c}
	list := &cobra.Command{
		Use: "list", Short: "Print the enabled modules", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd, "/module/list", nil, moduleNames)
		},
	}
	a.format(list, "text", "json", "yaml")
	cmd.AddCommand(list, moduleSection(c, "values", "Print the merged values of a module"),
		moduleSection(c, "config", "Print what the ConfigMap says about a module"),
		moduleSection(c, "patches", "Print the saved patches of the hooks of a module"))
	return cmd
}

func moduleSection(c *Config, page, short string) *cobra.Command {
	a := &asking{config: c}
	var global bool
	cmd := &cobra.Command{
		Use: page + " NAME", Short: short,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New(page + " needs the name of one module, as 'dns' of 010-dns")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if global {
				query.Set("global", "true")
			}
			return a.show(cmd, "/module/"+url.PathEscape(args[0])+"/"+page, query, nil)
		},
	}
	a.flags(cmd, "yaml", "json")
	if page != "patches" {
		cmd.Flags().BoolVarP(&global, "global", "g", false, "with the global values, each below its key")
	}
	return cmd
}

// globalCommand shows the global values of the running operator (J6).
func globalCommand(c *Config) *cobra.Command {
	cmd := group("global", "Show the global values of the running operator")
	for page, short := range map[string]string{
		"values": "Print the merged global values", "config": "Print what the ConfigMap says about global values",
		"patches": "Print the saved patches of global hooks",
	} {
		a := &asking{config: c}
		sub := &cobra.Command{Use: page, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd, "/global/"+page, nil, nil)
		}}
		a.flags(sub, "yaml", "json")
		cmd.AddCommand(sub)
	}
	return cmd
}

// group is a command that only has others below it.
func group(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
}

// show asks for a page and prints it.
func (a *asking) show(cmd *cobra.Command, path string, query url.Values, table func(io.Writer, []byte) error) error {
	if err := a.checked(); err != nil {
		return err
	}
	body, err := a.page(cmd.Context(), path, query)
	if err != nil {
		return err
	}
	return a.print(cmd.OutOrStdout(), body, table)
}

func moduleNames(w io.Writer, body []byte) error {
	var list struct{ EnabledModules []string }
	if err := decoded(body, &list); err != nil {
		return err
	}
	for _, name := range list.EnabledModules {
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}

// queueCommand shows the queues of the running operator (J6).
func queueCommand(c *Config) *cobra.Command {
	cmd := group("queue", "Show the queues of the running operator")
	var empty bool
	a := &asking{config: c}
	list := &cobra.Command{Use: "list", Short: "Print all queues and their tasks", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if empty {
			query.Set("showEmpty", "true")
		}
		return a.queues(cmd, "list", query)
	}}
	list.Flags().BoolVarP(&empty, "show-empty", "e", false, "with queues that are empty")
	b := &asking{config: c}
	main := &cobra.Command{Use: "main", Short: "Print the tasks of the main queue", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return b.queues(cmd, "main", nil)
	}}
	a.format(list, "text", "json", "yaml")
	b.format(main, "text", "json", "yaml")
	cmd.AddCommand(list, main)
	return cmd
}

// queues prints a page of queues; the operator makes the text.
func (a *asking) queues(cmd *cobra.Command, name string, query url.Values) error {
	made := a.output
	if made == "yaml" {
		made = "json" // print makes YAML of it
	}
	return a.show(cmd, "/queue/"+name+"."+made, query, func(w io.Writer, body []byte) error {
		_, err := w.Write(body)
		return err
	})
}
