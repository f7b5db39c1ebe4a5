package remote

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"addon-operator/actors/plan"
	"addon-operator/cmd/cli"
	"addon-operator/hooks"
	"addon-operator/server"
)

// exitChanges is the exit code of plan --detailed-exitcode when something would be done.
const exitChanges cli.ExitError = 2

// planTimeout is how long a plan may take: enabled scripts run, and every chart is applied as a dry
// run.
const planTimeout = 10 * time.Minute

// planning are the flags of plan. It is no asking: a plan may also come from files.
type planning struct {
	config            *cli.Config
	file, output      string
	secrets, detailed bool
	withoutOperator   cli.Planner
}

// Plan is the command plan. It asks the running operator, which has the values that hooks have set,
// or makes the plan of a directory.
func Plan(c *cli.Config, withoutOperator cli.Planner) *cobra.Command {
	p := &planning{config: c, withoutOperator: withoutOperator}
	cmd := &cobra.Command{
		Use: "plan [DIR]", Short: "Print what the operator would do, without doing it",
		Long: `Prints which modules would start, be upgraded, stop or be purged, with the reason, and how their objects would
change. Nothing is written to the cluster: charts are applied as dry runs of the API server. The running operator
makes the plan. With DIR, it is made from the modules in that directory and the cluster; the values that hooks would
set are then unknown. Hooks are never run, but enabled scripts are.`,
		Example: "  addon-operator plan\n  addon-operator plan modules\n  addon-operator plan -f configmap.yaml --detailed-exitcode",
		Args:    cli.Arguments("[DIR]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if allowed := []string{"text", "json", "yaml"}; !slices.Contains(allowed, p.output) {
				return cli.Usagef("output: %q is not one of %s", p.output, strings.Join(allowed, ", "))
			}
			return p.run(cmd, strings.Join(args, ""))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&p.file, "file", "f", "", "file with a ConfigMap that would replace the one in the cluster: a manifest, or only its data")
	flags.StringVarP(&p.output, "output", "o", "text", "format: text, json, yaml")
	flags.BoolVar(&p.secrets, "show-secrets", false, "show the values of Secrets")
	flags.BoolVar(&p.detailed, "detailed-exitcode", false, "exit with code 0 if nothing would be done, and with 2 otherwise")
	return cmd
}

// run prints the plan, and turns it into an exit code for pipelines: a plan that could not work is
// an error, and was printed all the same.
func (p *planning) run(cmd *cobra.Command, dir string) error {
	question, ask, source := plan.Request{Secrets: p.secrets}, p.askOperator, "the running operator"
	if dir != "" {
		ask, source = p.ofFiles, "the modules in "+dir+", without an operator"
	}
	if p.file != "" {
		data, err := cli.ReadConfigMap(p.file)
		if err != nil {
			return err
		}
		// A file without data proposes an empty ConfigMap; nil would mean the one in the cluster.
		if question.Proposed = data; data == nil {
			question.Proposed = map[string]string{}
		}
		source += " with the ConfigMap in " + p.file
	}
	shown, outcome, err := ask(cmd, dir, question)
	if err != nil {
		return err
	}
	if out := cmd.OutOrStdout(); p.output == "json" || p.output == "yaml" {
		_, err = out.Write(shown)
	} else {
		text := hooks.Printable("Plan of " + source + ".\n" + string(shown)) // names of objects come from tenants (J10)
		if printers.AllowsColorOutput(out) {
			text = colored(text)
		}
		_, err = io.WriteString(out, text)
	}
	switch {
	case err != nil:
		return err
	case outcome == plan.PlanRefused:
		return errors.New("the ConfigMap would be refused")
	case outcome == plan.PlanFailing:
		return errors.New("modules would fail")
	case p.detailed && outcome == plan.PlanChanges:
		return exitChanges
	}
	return nil
}

// changes are the lines of a plan that begin with a sign, and those of its differences.
var changes = regexp.MustCompile(`(?m)^(| {4}| {8})[-+~!].*$`)

// colored gives these lines the color of their sign.
func colored(text string) string {
	return changes.ReplaceAllStringFunc(text, func(line string) string {
		color := map[byte]string{'+': "32", '-': "31"}[strings.TrimLeft(line, " ")[0]]
		return "\x1b[" + cmp.Or(color, "33") + "m" + line + "\x1b[0m"
	})
}

// ofFiles makes the plan of a directory without an operator. Global hooks are optional.
func (p *planning) ofFiles(cmd *cobra.Command, dir string, question plan.Request) (shown []byte, outcome string, err error) {
	c := p.config
	_, done, err := c.UseDirectory([]string{dir})
	if err != nil {
		return nil, "", err
	}
	defer done()
	if err := c.Complete(); err != nil {
		return nil, "", err
	}
	plan, err := p.withoutOperator(cmd.Context(), c, cli.Log(cmd, slog.LevelWarn), question)
	if err != nil {
		return nil, "", err
	}
	switch p.output {
	case "json":
		shown, err = json.MarshalIndent(plan, "", "  ")
		shown = append(shown, '\n')
	case "yaml":
		shown, err = yaml.Marshal(plan)
	default:
		shown = []byte(plan.Text())
	}
	return shown, plan.Outcome(), err
}

// askOperator gets the plan of the running operator: with POST when it is about another ConfigMap.
func (p *planning) askOperator(cmd *cobra.Command, _ string, question plan.Request) (shown []byte, outcome string, err error) {
	path, method, content := fmt.Sprintf("/plan?show-secrets=%t&output=%s", question.Secrets, p.output), http.MethodGet, []byte(nil)
	if question.Proposed != nil {
		method = http.MethodPost
		if content, err = json.Marshal(question.Proposed); err != nil {
			return nil, "", err
		}
	}
	found, err := send(cmd.Context(), p.config, planTimeout, method, path, string(content))
	if err != nil {
		return nil, "", err
	}
	found.tell(cmd)
	return found.body, found.header.Get(server.OutcomeHeader), nil
}
