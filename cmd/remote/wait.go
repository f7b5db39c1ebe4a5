package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
)

// waitPause is the time between two looks of wait.
const waitPause = 500 * time.Millisecond

// Wait is the command wait, for scripts: it returns when modules are ready, or fails when the time
// is over. It is often started before the operator, or right after an edit of the ConfigMap.
func Wait(c *cli.Config) *cobra.Command {
	timeout := time.Duration(0)
	cmd := &cobra.Command{
		Use: "wait [MODULE...]", Short: "Wait until modules are ready, with all objects of their releases",
		Long: `Waits until the given modules, or all enabled ones, are ready: their last runs have succeeded, and the objects of
their releases match their specs. It prints what is not ready whenever that changes. The exit code is 1 when the
timeout expires. The command also waits for an operator that does not answer yet.`,
		Example:           "  addon-operator wait --timeout 10m\n  addon-operator wait cert-manager ingress-nginx",
		RunE:              func(cmd *cobra.Command, args []string) error { return wait(cmd, c, args, timeout) },
		ValidArgsFunction: each(c),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

// wait looks again and again until the modules are ready, or the time is over. Only a mistake in
// the command line ends it early: whatever else fails may get better. Ready counts when it is
// answered twice: after an edit of the ConfigMap, the first answer may be about the modules before
// what follows from the edit has begun.
func wait(cmd *cobra.Command, c *cli.Config, modules []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	tick := time.NewTicker(waitPause)
	defer tick.Stop()
	page := "/module/ready?" + url.Values{"module": modules}.Encode()
	const ready = "ready\n"
	for said := ""; ; { // what was printed last; a change is printed, and the error at the end repeats it
		found, err := send(ctx, c, answerLimit, http.MethodGet, page, "")
		if string(found.body) == ready {
			found, err = send(ctx, c, answerLimit, http.MethodGet, page, "")
		}
		text := string(found.body)
		if errors.As(err, new(cli.UsageError)) {
			return err
		}
		if err != nil {
			text = "the operator does not answer: " + err.Error() + "\n"
		}
		// When the time is over, the last request is cut, which is no news.
		if text != said && (err == nil || ctx.Err() == nil) {
			said = text
			if err := printText(cmd.OutOrStdout(), c, []byte(text)); err != nil {
				return err
			}
		}
		if err == nil && text == ready {
			found.tell(cmd)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			// Ctrl-C ends the context differently, and needs no list of what is missing.
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready after %s: %s", timeout, strings.ReplaceAll(strings.TrimSpace(said), "\n", "; "))
			}
			return ctx.Err()
		}
	}
}
