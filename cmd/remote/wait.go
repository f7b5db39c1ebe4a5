package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// waitPause is the time between two looks of wait.
const waitPause = 500 * time.Millisecond

// Wait is the command wait, for scripts: it returns when modules are ready, or fails when the time
// is over. It is often started before the operator, or right after an edit of the ConfigMap.
func Wait(c *cli.Config) *cobra.Command {
	names, a, timeout := &completer{c}, &asking{config: c}, time.Duration(0)
	cmd := &cobra.Command{
		Use: "wait [MODULE...]", Short: "Wait until modules are ready, with all objects of their releases",
		Long: `Waits until the given modules, or all enabled ones, are ready: the first reload is over, their
last runs have succeeded, and the objects of their releases match their specs. It prints what is
not ready whenever that changes. The exit code is 0 when all are ready, and 1 when the timeout
expires. The command also waits for an operator that does not answer yet.`,
		Example: "  addon-operator wait --timeout 10m\n  addon-operator wait cert-manager ingress-nginx",
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return cli.Usagef("--timeout must be above 0, not %s", timeout)
			}
			return a.wait(cmd.Context(), cmd.OutOrStdout(), args, timeout)
		},
		ValidArgsFunction: each(names.modules),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

// wait looks again and again until the modules are ready, or the time is over. Only a mistake in
// the command line ends it early: whatever else fails may get better.
//
// After an edit of the ConfigMap the modules are still ready as before it, so ready counts only
// when the operator has seen the ConfigMap as it is in the cluster. It takes two looks: the first
// may have read the modules before what follows from the edit began, the second, without that
// question, reads them after.
func (a *asking) wait(ctx context.Context, out io.Writer, modules []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(waitPause)
	defer tick.Stop()
	said := "" // what was printed last; a change is printed, and the error at the end repeats it
	for {
		missing, err := a.notReady(ctx, modules, true)
		if err == nil && len(missing) == 0 {
			missing, err = a.notReady(ctx, modules, false)
		}
		if errors.As(err, new(cli.UsageError)) {
			return err
		}
		text := strings.Join(missing, "\n")
		// When the time is over, the last request is cut, which is no news.
		if err != nil && ctx.Err() == nil {
			text = "the operator does not answer: " + err.Error()
		}
		switch {
		case err == nil && text == "":
			_, err := fmt.Fprintln(out, "ready")
			return err
		case text != "" && text != said:
			said = text
			if _, err := fmt.Fprintln(printable{Writer: out, whole: true}, text); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			// Ctrl-C ends the context differently, and needs no list of what is missing.
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready after %s: %s", timeout, strings.ReplaceAll(said, "\n", "; "))
			}
			return ctx.Err()
		}
	}
}

// notReady lists the modules that are not ready, by name, with the reasons; an empty list means that all are.
// Without modules it is about all enabled ones and the reload of all modules; modules that are
// named must exist and be enabled. With observed it also has a line when the operator has not received
// the present ConfigMap, which costs the operator a request to the API server.
func (a *asking) notReady(ctx context.Context, modules []string, observed bool) (missing []string, _ error) {
	body, err := a.page(ctx, "/module/list", url.Values{"observed": {strconv.FormatBool(observed)}})
	if err != nil {
		return nil, err
	}
	var list struct {
		Modules   []listedModule
		HeldPurge *view.HeldPurge
		Converge  view.ConvergeStatus
		Observed  *bool
	}
	if err := decoded(body, &list); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, m := range list.Modules {
		found[m.Name] = true
		named := slices.Contains(modules, m.Name)
		switch {
		case len(modules) > 0 && !named, !m.Enabled && !named, m.State == string(view.Ready): // nothing to wait for
		case !m.Enabled:
			missing = append(missing, fmt.Sprintf("%s is %s: %s", m.Name, m.State, cmp.Or(m.Off, "it is not enabled")))
		default:
			text := fmt.Sprintf("%s is %s", m.Name, m.State)
			if problem := m.problem(printable{Writer: io.Discard, program: a.config.Program()}, list.HeldPurge); problem != "" {
				text += ": " + problem
			}
			missing = append(missing, text)
		}
	}
	for _, name := range modules {
		if !found[name] {
			missing = append(missing, fmt.Sprintf("%s: no such module", name))
		}
	}
	// An operator of an older version does not report it; then it counts as observed.
	if list.Observed != nil && !*list.Observed {
		missing = append(missing, "the ConfigMap has changed, and the operator has not received the change yet")
	}
	// Named modules may be ready while a reload of others is in progress.
	if len(modules) == 0 && (!list.Converge.Ready || list.Converge.Phase != "idle") {
		missing = append(missing, "a reload of all modules is not over")
	}
	return missing, nil
}
