package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/messages"
)

// whyCommand prints what led to the last run of a module.
func whyCommand(c *Config) *cobra.Command {
	return &cobra.Command{
		Use: "why MODULE", Short: "Print what led to the last run of a module",
		Long: `Prints the chain of causes of a module's last run, the latest first: the release, the
change of values, the hook, the binding, and the object, tick or edit that began it.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("why needs the name of one module, as 'dns' of 010-dns")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return why(cmd.Context(), cmd.OutOrStdout(), c, args[0])
		},
	}
}

// moduleNode is the part of the actor dump that why needs.
type moduleNode struct {
	Path     string `json:"path"`
	Status   json.RawMessage
	Children []moduleNode `json:"children"`
}

func why(ctx context.Context, w io.Writer, c *Config, module string) error {
	body, err := get(ctx, c, "/actors?output=json")
	if err != nil {
		return err
	}
	var roots []moduleNode
	if err := json.Unmarshal(body, &roots); err != nil {
		return fmt.Errorf("the operator's answer: %w", err)
	}
	status, known, err := findModule(roots, module)
	switch {
	case err != nil:
		return err
	case status == nil:
		return fmt.Errorf("there is no module %q; there are %s", module, strings.Join(known, ", "))
	case status.LastRun == nil:
		_, err := fmt.Fprintf(w, "module %s has not run since the operator started (%s)\n", module, status.Phase)
		return err
	}
	return writeWhy(w, module, *status)
}

func findModule(nodes []moduleNode, module string) (found *messages.ModuleStatus, known []string, err error) {
	for _, n := range nodes {
		if _, name, ok := strings.Cut(n.Path, "/module/"); ok && !strings.Contains(name, "/") {
			known = append(known, name)
			if name == module {
				found = &messages.ModuleStatus{}
				if err := json.Unmarshal(n.Status, found); err != nil {
					return nil, nil, fmt.Errorf("the operator's answer: %w", err)
				}
				return found, known, nil
			}
		}
		below, more, err := findModule(n.Children, module)
		known = append(known, more...)
		if below != nil || err != nil {
			return below, known, err
		}
	}
	return nil, known, nil
}

func writeWhy(w io.Writer, module string, s messages.ModuleStatus) error {
	var out strings.Builder
	release := s.LastRun.Release
	if release == "" {
		release = "not finished"
	}
	fmt.Fprintf(&out, "module %s: %s\nlast run began %s (%s ago)\nrelease: %s\n", module, s.Phase,
		s.LastRun.Began.Format(time.RFC3339), time.Since(s.LastRun.Began).Round(time.Second), release)
	for i, cause := range s.LastRun.Causes {
		fmt.Fprintf(&out, "%sbecause of %s\n", strings.Repeat("  ", i+1), cause)
	}
	for _, f := range s.Failing {
		fmt.Fprintf(&out, "%s\n", f)
	}
	_, err := io.WriteString(w, out.String())
	return err
}
