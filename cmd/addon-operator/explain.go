package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"addon-operator/values"
)

// asking is what the commands share that ask the running operator about values.
type asking struct {
	config  *Config
	output  string
	formats []string
	secrets bool
}

// flags declares the flags; the first format is the default.
func (a *asking) flags(cmd *cobra.Command, formats ...string) {
	a.format(cmd, formats...)
	cmd.Flags().BoolVar(&a.secrets, "show-secrets", false, "show values of keys that look like secrets")
}

// format declares the flag for the format only: for pages that hold no values.
func (a *asking) format(cmd *cobra.Command, formats ...string) {
	a.formats = formats
	cmd.Flags().StringVarP(&a.output, "output", "o", formats[0], "format: "+strings.Join(formats, ", "))
}

// page asks for a debug page.
func (a *asking) page(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if query == nil {
		query = url.Values{}
	}
	if a.secrets {
		query.Set("show-secrets", "true")
	}
	return get(ctx, a.config, path+"?"+query.Encode())
}

// print writes an answer as it is, or as YAML, or with a function as a table.
func (a *asking) print(w io.Writer, body []byte, table func(io.Writer, []byte) error) error {
	switch a.output {
	case "table", "text":
		return table(w, body)
	case "yaml":
		text, err := yaml.JSONToYAML(body)
		if err != nil {
			return fmt.Errorf("the operator's answer: %w", err)
		}
		body = text
	}
	_, err := w.Write(body)
	return err
}

// checked refuses a format that there is not, before anybody is asked.
func (a *asking) checked() error {
	for _, format := range a.formats {
		if a.output == format {
			return nil
		}
	}
	return usageError{fmt.Errorf("output: %q is none of %s", a.output, strings.Join(a.formats, ", "))}
}

func explainCommand(c *Config) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "explain [MODULE] PATH", Short: "Print where values come from, and what they override",
		Long: `Prints for each value at a path of the running operator which layer it comes from: a
file, the ConfigMap, a default of a schema or a hook; for hooks the task and the time;
and below it what it overrides. A path to a map explains everything in it, "*" stands
for any key. The path begins with global or with the module, unless MODULE is given.`,
		Example: "  addon-operator values explain global.clusterName\n  addon-operator values explain ingress-nginx controller.replicas",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError{errors.New("explain needs a path, as global.a.b, or a module and a path")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"path": {args[len(args)-1]}}
			if len(args) == 2 {
				query.Set("module", args[0])
			}
			return a.show(cmd, "/values/explain", query, explainTable)
		},
	}
	a.flags(cmd, "table", "json", "yaml")
	return cmd
}

func diffCommand(c *Config) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "diff [MODULE]", Short: "Print which values changed since the last converge, and who changed them",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{errors.New("diff takes one module, or none for all")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) == 1 {
				query.Set("module", args[0])
			}
			return a.show(cmd, "/values/diff", query, diffTable)
		},
	}
	a.flags(cmd, "table", "json", "yaml")
	return cmd
}

// decoded reads an answer; numbers stay as they are written.
func decoded(body []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("the operator's answer: %w", err)
	}
	return nil
}

// explainTable has a line for each source; what is overridden stands below what overrides it.
func explainTable(w io.Writer, body []byte) error {
	var leaves []values.Leaf
	if err := decoded(body, &leaves); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATH\tVALUE\tLAYER\tFROM\tTASK\tSINCE")
	for _, leaf := range leaves {
		path := leaf.Path
		for _, source := range leaf.Sources {
			value := shown(source.Value)
			if source.Removed {
				value = "(removed)"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", path, value, source.Layer, from(source), orDash(source.Task), at(source.Time))
			path = "  overrides"
		}
	}
	return table.Flush()
}

// diffTable has a line for each changed value.
func diffTable(w io.Writer, body []byte) error {
	var diffs []struct {
		Since   time.Time
		Changes []values.Change
	}
	if err := decoded(body, &diffs); err != nil {
		return err
	}
	if len(diffs) == 0 {
		_, err := fmt.Fprintln(w, "No values changed since the last converge.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATH\tBEFORE\tNOW\tLAYER\tFROM\tTASK\tSINCE")
	for _, diff := range diffs {
		for _, c := range diff.Changes {
			before, now := shown(c.Before), shown(c.After)
			if c.Added {
				before = "(none)"
			}
			if c.Gone {
				now = "(none)"
			}
			by := values.Source{}
			if c.By != nil {
				by = *c.By
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Path, before, now, orDash(by.Layer), from(by), orDash(by.Task), at(by.Time))
		}
	}
	return table.Flush()
}

// from names the file, the hook or the state of the ConfigMap that said it.
func from(s values.Source) string {
	switch {
	case s.File != "":
		return s.File
	case s.Hook != "":
		return s.Hook
	case s.Revision != "":
		return "resourceVersion " + s.Revision
	}
	return "-"
}

func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shown is a value in a cell of a table: JSON, shortened.
func shown(v any) string {
	const longest = 60
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err.Error()
	}
	text := []rune(strings.TrimSpace(out.String()))
	if len(text) > longest {
		return string(text[:longest-1]) + "…"
	}
	return string(text)
}
