package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	config                    *cli.Config
	file, from, output, color string
	secrets, detailed         bool
	withoutOperator           Planner
}

// Planner makes a plan from the modules directory and the cluster. It is passed in, so that this
// package does not import the operator.
type Planner func(context.Context, *cli.Config, *slog.Logger, view.PlanRequest) (view.Plan, error)

// Plan is the command plan. It asks the operator if one answers, since that has the values that
// hooks have set, else withoutOperator.
func Plan(c *cli.Config, withoutOperator Planner) *cobra.Command {
	p := &planning{config: c, withoutOperator: withoutOperator}
	cmd := &cobra.Command{
		Use: "plan", Short: "Print what the operator would do, without doing it",
		Long: `Prints which modules would start, be upgraded, stop or be purged, in that order and with
the reason, and how their objects would change. Nothing is written to the cluster: charts
are applied as dry runs of the API server.

The running operator makes the plan if it answers on its debug address, because it has the
values that hooks have set. Otherwise the plan is made from the modules directory and the
cluster. The values that hooks would set are then unknown, and modules that have hooks are
marked. Hooks are never run, but enabled scripts are: they decide which modules are enabled.`,
		Example: "  addon-operator plan\n  addon-operator plan -f configmap.yaml --detailed-exitcode",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return p.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&p.file, "file", "f", "", "file with a ConfigMap that would replace the one in the cluster: a manifest, or only its data")
	flags.StringVar(&p.from, "from", "auto", "source of the plan: operator (the running one), files (without an operator), auto (the operator if it answers)")
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
		{"from", p.from, "auto operator files"}, {"output", p.output, "text table json yaml"}, {"color", p.color, "auto always never"},
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
func (p *planning) run(cmd *cobra.Command) error {
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
	plan, source, err := p.ask(cmd, question)
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

// ask returns the plan, and its source in words. It reads files only when no operator can be reached:
// an operator that answers with an error has more information than the files.
func (p *planning) ask(cmd *cobra.Command, question view.PlanRequest) (view.Plan, string, error) {
	if p.from != "files" {
		plan, err := p.askOperator(cmd.Context(), question)
		if err == nil {
			return plan, "the running operator", nil
		}
		// With --from auto only an operator that is not there leads to the files.
		if away := (errUnreachable{}); p.from == "operator" || !errors.As(err, &away) {
			return plan, "", err
		}
	}
	// Only now: to ask an operator, options of an operator need not be valid.
	if err := p.config.Complete(); err != nil {
		return view.Plan{}, "", err
	}
	plan, err := p.withoutOperator(cmd.Context(), p.config, cli.Log(cmd, slog.LevelWarn), question)
	return plan, "the modules in " + p.config.ModulesDir + ", without an operator", err
}

// askOperator gets the plan of the running operator: with POST when it is about another ConfigMap.
func (p *planning) askOperator(ctx context.Context, question view.PlanRequest) (plan view.Plan, _ error) {
	query := url.Values{}
	if question.Secrets {
		query.Set("show-secrets", "true")
	}
	method, content := http.MethodGet, ""
	if question.Proposed != nil {
		body, err := json.Marshal(question.Proposed)
		if err != nil {
			return plan, err
		}
		method, content = http.MethodPost, string(body)
	}
	body, err := send(ctx, p.config, planTimeout, method, "/plan?"+query.Encode(), "application/json", content)
	if err != nil {
		return plan, err
	}
	return plan, decoded(body, &plan)
}

// print prints a plan. "table" is accepted for text, as by other commands.
func (p *planning) print(w io.Writer, plan view.Plan, source string) error {
	// source is for people: programs have chosen the source themselves.
	if p.output == "json" || p.output == "yaml" {
		return writeData(w, p.output, plan)
	}
	return writePlan(w, plan, source, p.color == "always" || p.color == "auto" && colored(w))
}
