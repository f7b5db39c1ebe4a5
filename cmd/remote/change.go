package remote

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// Log is the group log. Its command level does what config set log.level does, under a name that
// people look for.
func Log(c *cli.Config) *cobra.Command {
	cmd := cli.Group("log", "Show or change how much the running operator logs")
	a := &asking{config: c}
	level := &cobra.Command{
		Use: "level [LEVEL [DURATION]]", Short: "Print the log level, or change it at once",
		Long: `Prints the log level of the running operator, or changes it at once to debug, info, warn
or error. After a duration, if one is given, it reverts to the default.`,
		Example: "  addon-operator log level\n  addon-operator log level debug 10m",
		Args:    cli.AtMost(2, "a level and a duration, such as 'log level debug 10m'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.setParameter(cmd, append([]string{"log.level"}, args...))
			}
			// Without a level, the command only prints it.
			return a.parameter(cmd, "log.level", func() ([]byte, error) { return a.page(cmd.Context(), "/config/list", nil) })
		},
		// The choices are known here, so completion needs no operator.
		ValidArgsFunction: first(fixed("debug", "info", "warn", "error")),
	}
	a.format(level, "text", "json", "yaml")
	cmd.AddCommand(level)
	return cmd
}

// Config is the group config: it lists and changes parameters of the running operator (J4).
// Only the operator has the list of parameters and their values.
func Config(c *cli.Config) *cobra.Command {
	names := &completer{c}
	cmd := cli.Group("config", "Show or change parameters of the running operator")
	a := &asking{config: c}
	list := &cobra.Command{
		Use: "list", Short: "Print the parameters that can be changed while the operator runs", Args: cli.NoArgs, Example: "  addon-operator config list",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.show(cmd, "/config/list", nil, parameterTable) },
	}
	a.format(list, "table", "json", "yaml")
	change := &asking{config: c}
	set := &cobra.Command{
		Use: "set NAME VALUE [DURATION]", Short: "Change a parameter at once, until the operator ends or for a duration",
		Example: "  addon-operator config set log.level debug\n  addon-operator config set debug.keep-tmp-files true 10m",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return cli.Usagef("config set needs a name and a value, and optionally a duration, such as 'config set log.level debug 10m'")
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return change.setParameter(cmd, args) },
		ValidArgsFunction: names.parameter,
	}
	change.format(set, "text", "json", "yaml")
	cmd.AddCommand(list, set)
	return cmd
}

// setParameter sets a parameter to a value, and back after the duration in a third argument. The
// operator checks all of them.
func (a *asking) setParameter(cmd *cobra.Command, args []string) error {
	form := url.Values{"name": {args[0]}, "value": {args[1]}}
	// Without a duration the change lasts until the next one, or until the operator ends.
	if len(args) == 3 {
		form.Set("duration", args[2])
	}
	return a.parameter(cmd, args[0], func() ([]byte, error) {
		return send(cmd.Context(), a.config, answerLimit, http.MethodPost, "/config/set", "application/x-www-form-urlencoded", form.Encode())
	})
}

// parameter prints one parameter of an answer with several: as a sentence, or as an object. answer
// is called only when the format is valid, so that a mistake in -o changes nothing.
func (a *asking) parameter(cmd *cobra.Command, name string, answer func() ([]byte, error)) error {
	if err := a.checked(); err != nil {
		return err
	}
	body, err := answer()
	if err != nil {
		return err
	}
	list, err := parametersIn(body)
	if err != nil {
		return err
	}
	// The answer of /config/list has all parameters, that of /config/set the changed one.
	i := slices.IndexFunc(list, func(p view.Parameter) bool { return p.Name == name })
	switch {
	case i < 0:
		return fmt.Errorf("the operator has no parameter %s", name)
	case a.output != "text":
		return writeData(cmd.OutOrStdout(), a.output, list[i])
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), parameterSentence(list[i]))
	return err
}

// parameterSentence is the value of a parameter, and its end, in a sentence.
func parameterSentence(p view.Parameter) string {
	text := fmt.Sprintf("%s is %s", p.Name, p.Value)
	if !p.Until.IsZero() {
		text += fmt.Sprintf(" until %s, then %s again", at(p.Until), p.Default)
	}
	return text
}
