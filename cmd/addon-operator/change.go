package main

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
)

// logCommand reads and changes the level of the log while the operator runs.
func logCommand(c *Config) *cobra.Command {
	cmd := group("log", "Show or change how much the running operator logs")
	level := &cobra.Command{
		Use: "level [LEVEL [DURATION]]", Short: "Print the level of the log, or change it at once",
		Long: `Prints the level of the log of the running operator, or changes it at once: to debug,
info, warn or error. With a duration it goes back by itself.`,
		Example: "  addon-operator log level\n  addon-operator log level debug 10m",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usageError{errors.New("log level takes a level and a duration, as 'log level debug 10m'")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return setParameter(cmd, c, append([]string{"log.level"}, args...))
			}
			body, err := get(cmd.Context(), c, "/config/list")
			if err != nil {
				return err
			}
			return tellParameter(cmd, body, "log.level")
		},
		ValidArgsFunction: first(fixed("debug", "info", "warn", "error")),
	}
	cmd.AddCommand(level)
	return cmd
}

// configCommand lists and changes what may change while the operator runs (J4).
func configCommand(c *Config, names *completer) *cobra.Command {
	cmd := group("config", "Show or change parameters of the running operator")
	a := &asking{config: c}
	list := &cobra.Command{
		Use: "list", Short: "Print what can be changed while the operator runs", Args: noArgs, Example: "  addon-operator config list",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.show(cmd, "/config/list", nil, parameterTable) },
	}
	a.format(list, "table", "json", "yaml")
	set := &cobra.Command{
		Use: "set NAME VALUE [DURATION]", Short: "Change a parameter at once; with a duration it goes back by itself",
		Example: "  addon-operator config set log.level debug\n  addon-operator config set debug.keep-tmp-files true 10m",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usageError{errors.New("config set needs a name and a value, and takes a duration, as 'config set log.level debug 10m'")}
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return setParameter(cmd, c, args) },
		ValidArgsFunction: names.parameter,
	}
	cmd.AddCommand(list, set)
	return cmd
}

// setParameter sets a parameter to a value, for a time when there is a third argument.
func setParameter(cmd *cobra.Command, c *Config, args []string) error {
	form := url.Values{"name": {args[0]}, "value": {args[1]}}
	if len(args) == 3 {
		form.Set("duration", args[2])
	}
	body, err := post(cmd.Context(), c, "/config/set", form)
	if err != nil {
		return err
	}
	return tellParameter(cmd, body, args[0])
}

// tellParameter says in a line what a parameter is now.
func tellParameter(cmd *cobra.Command, body []byte, name string) error {
	list, err := parametersIn(body)
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.Name != name {
			continue
		}
		text := fmt.Sprintf("%s is %s", p.Name, p.Value)
		if !p.Until.IsZero() {
			text += fmt.Sprintf(" until %s, then %s again", at(p.Until), p.Default)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	}
	return fmt.Errorf("the operator knows no parameter %s", name)
}
