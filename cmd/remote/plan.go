package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// exitChanges is the exit code of plan --detailed-exitcode when something would be done.
const exitChanges cli.ExitError = 2

// planTimeout is how long a plan may take: enabled scripts run, and every chart is applied as a dry
// run.
const planTimeout = 10 * time.Minute

// planning are the flags of plan. It is no asking: a plan may also come from files.
type planning struct {
	config              *cli.Config
	file, output, color string
	secrets, detailed   bool
	withoutOperator     Planner
}

// Planner makes a plan from the modules directory and the cluster. It is passed in, so that this
// package does not import the operator.
type Planner func(context.Context, *cli.Config, *slog.Logger, view.PlanRequest) (view.Plan, error)

// Plan is the command plan. It asks the running operator, which has the values that hooks have set,
// or makes the plan of a directory.
func Plan(c *cli.Config, withoutOperator Planner) *cobra.Command {
	p := &planning{config: c, withoutOperator: withoutOperator}
	cmd := &cobra.Command{
		Use: "plan [DIR]", Short: "Print what the operator would do, without doing it",
		Long: `Prints which modules would start, be upgraded, stop or be purged, with the reason, and how their objects would
change. Nothing is written to the cluster: charts are applied as dry runs of the API server. The running operator
makes the plan. With DIR, it is made from the modules in that directory and the cluster; the values that hooks would
set are then unknown. Hooks are never run, but enabled scripts are.`,
		Example: "  addon-operator plan\n  addon-operator plan modules\n  addon-operator plan -f configmap.yaml --detailed-exitcode",
		Args:    cli.Arguments([]string{"[DIR]"}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return p.run(cmd, strings.Join(args, ""))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&p.file, "file", "f", "", "file with a ConfigMap that would replace the one in the cluster: a manifest, or only its data")
	flags.StringVarP(&p.output, "output", "o", "text", "format: text, json, yaml")
	flags.StringVar(&p.color, "color", "auto", "colors: always, never, auto (on a terminal, unless $NO_COLOR is set)")
	flags.BoolVar(&p.secrets, "show-secrets", false, "show the values of Secrets")
	flags.BoolVar(&p.detailed, "detailed-exitcode", false, "exit with code 0 if nothing would be done, and with 2 otherwise")
	return cmd
}

// check refuses wrong flags before the operator is asked. The error joins all mistakes.
func (p *planning) check() error {
	var errs []error
	// "table" is another word for "text", as in all commands.
	for _, f := range []struct{ flag, value, allowed string }{
		{"output", p.output, "text table json yaml"}, {"color", p.color, "auto always never"},
	} {
		if allowed := strings.Fields(f.allowed); !slices.Contains(allowed, f.value) {
			errs = append(errs, fmt.Errorf("%s: %q is not one of %s", f.flag, f.value, strings.Join(allowed, ", ")))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// run prints the plan, and turns it into an exit code for pipelines: a plan that could not work is
// an error, and was printed all the same.
func (p *planning) run(cmd *cobra.Command, dir string) error {
	question := view.PlanRequest{Secrets: p.secrets}
	if p.file != "" {
		data, err := cli.ReadConfigMap(p.file)
		if err != nil {
			return err
		}
		// A file without data proposes an empty ConfigMap; nil would mean the one in the cluster.
		if question.Proposed = data; data == nil {
			question.Proposed = map[string]string{}
		}
	}
	var plan view.Plan
	var err error
	source := "the running operator"
	if dir == "" {
		plan, err = p.askOperator(cmd, question)
	} else {
		source = "the modules in " + dir + ", without an operator"
		plan, err = p.ofFiles(cmd, dir, question)
	}
	if err != nil {
		return err
	}
	if p.file != "" {
		source += " with the ConfigMap in " + p.file
	}
	if err := p.print(cmd.OutOrStdout(), plan, source); err != nil {
		return err
	}
	switch {
	case plan.Refused != "":
		return errors.New("the ConfigMap would be refused")
	// Before the exit code for changes: a pipeline must not continue with this plan.
	case plan.Summary.Failing > 0:
		return fmt.Errorf("modules that would fail: %d", plan.Summary.Failing)
	case p.detailed && plan.Changes():
		return exitChanges
	}
	return nil
}

// ofFiles makes the plan of a directory without an operator. Global hooks are optional.
func (p *planning) ofFiles(cmd *cobra.Command, dir string, question view.PlanRequest) (plan view.Plan, err error) {
	c := p.config
	_, done, err := c.UseDirectory([]string{dir})
	if err != nil {
		return plan, err
	}
	defer done()
	if err := c.Complete(); err != nil {
		return plan, err
	}
	return p.withoutOperator(cmd.Context(), c, cli.Log(cmd, slog.LevelWarn), question)
}

// askOperator gets the plan of the running operator: with POST when it is about another ConfigMap.
func (p *planning) askOperator(cmd *cobra.Command, question view.PlanRequest) (plan view.Plan, _ error) {
	path, method, content := "/plan", http.MethodGet, ""
	if question.Secrets {
		path += "?show-secrets=true"
	}
	if question.Proposed != nil {
		body, err := json.Marshal(question.Proposed)
		if err != nil {
			return plan, err
		}
		method, content = http.MethodPost, string(body)
	}
	found, err := send(cmd.Context(), p.config, planTimeout, method, path, content)
	if away := (errUnreachable{}); errors.As(err, &away) {
		return plan, fmt.Errorf("%w. Without an operator: %s plan DIR", err, p.config.Program())
	}
	if err != nil {
		return plan, err
	}
	found.tell(cmd)
	return plan, decoded(found.body, &plan)
}

// print prints a plan. "table" is accepted for text, as by other commands.
func (p *planning) print(w io.Writer, plan view.Plan, source string) error {
	if p.output != "json" && p.output != "yaml" {
		return writePlan(w, plan, source, p.color == "always" || p.color == "auto" && colored(w))
	}
	body, err := json.MarshalIndent(plan, "", "  ")
	if err == nil && p.output == "yaml" {
		body, err = yaml.JSONToYAML(body)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, strings.TrimSpace(string(body)))
	return err
}
