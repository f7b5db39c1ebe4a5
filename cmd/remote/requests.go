package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/kube"
)

// request is a command that requests something of the operator through objects of kind Module
// (J16). It needs no debug address: the API server authorizes it, and keeps the request if
// the operator is unavailable.
type request struct {
	config  *cli.Config
	what    kube.ModuleRequest
	done    string        // what is printed of each module once the operator has taken the request
	timeout time.Duration // 0: do not wait for the operator
}

// Requests are the commands run, retry, suspend and resume.
func Requests(c *cli.Config) []*cobra.Command {
	yes, no := true, false
	return []*cobra.Command{
		requestCommand(&request{config: c, what: kube.ModuleRequest{Run: true}, done: "runs"}, "run", "Run modules now, even if nothing has changed"),
		requestCommand(&request{config: c, what: kube.ModuleRequest{Retry: true}, done: "is retried"}, "retry", "Retry what fails in modules now, without waiting for the next attempt"),
		requestCommand(&request{config: c, what: kube.ModuleRequest{Suspend: &yes}, done: "is suspended"}, "suspend", "Suspend modules: they do not run, and their releases are left alone"),
		requestCommand(&request{config: c, what: kube.ModuleRequest{Suspend: &no}, done: "is resumed"}, "resume", "Resume suspended modules"),
	}
}

// requestCommand makes the command of one request.
func requestCommand(r *request, name, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " MODULE...", Short: short,
		Long: short + `.

The command writes to the objects of kind Module in the namespace of the operator, with your kubeconfig, and waits until
the operator has accepted the request. You need permission to get and patch modules.addon-operator.io there.`,
		Example:           "  addon-operator " + name + " ingress-nginx\n  addon-operator " + name + " grafana loki --namespace addon-operator --context production",
		Args:              cli.Arguments("MODULE..."),
		RunE:              r.run,
		ValidArgsFunction: each(r.config),
	}
	cmd.Flags().DurationVar(&r.timeout, "timeout", time.Minute, "how long to wait for the operator to accept the request; 0 does not wait")
	return cmd
}

// run writes the request to each module and waits until the operator has taken it. A module that
// fails does not keep the others from theirs; the error names all that failed.
func (r *request) run(cmd *cobra.Command, modules []string) error {
	client, err := operatorNamespace(cmd.Context(), r.config)
	if err != nil {
		return err
	}
	objects, err := client.ModuleObjects(r.config.Namespace)
	if err != nil {
		return err
	}
	// One value for all modules. The operator takes each new value once, so it must differ from
	// earlier ones.
	at := time.Now().UTC().Format(time.RFC3339Nano)
	var errs []error
	for _, name := range modules {
		asked, err := objects.Request(cmd.Context(), name, at, r.what)
		if err == nil && r.timeout > 0 {
			err = r.await(cmd.Context(), cmd.ErrOrStderr(), objects, asked, at)
		}
		if err == nil {
			// Without waiting nothing is known of what the operator does with it.
			done := r.done
			if r.timeout <= 0 {
				done = "has the request, which the operator accepts within seconds"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "module %s in namespace %s %s\n", name, r.config.Namespace, done)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sayAfter is how long a command waits in silence.
const sayAfter = 3 * time.Second

// operatorNamespace makes a client for a command that reads or writes objects in the namespace of
// the operator, with the kubeconfig of the person who runs it, and sets that namespace in the
// options: when none gives it, to that of the operator that is found.
func operatorNamespace(ctx context.Context, c *cli.Config) (*kube.Client, error) {
	if c.Namespace == "" && asksCluster(c) {
		pod, err := leader(ctx, c)
		if c.Namespace = pod.Namespace; err != nil {
			return nil, err
		}
	}
	if c.Namespace == "" {
		return nil, cli.Usagef("no namespace is given; set --namespace or $ADDON_OPERATOR_NAMESPACE to that of the operator")
	}
	return c.Connect()
}

// await waits until the operator has taken the request, which stays when the time is over. A
// suspended module keeps run and retry until it is resumed, so waiting makes no sense then.
func (r *request) await(ctx context.Context, out io.Writer, objects *kube.ModuleObjects, asked kube.ModuleObject, at string) error {
	if asked.Suspend && r.what.Suspend == nil {
		return fmt.Errorf("module %s is suspended: the request is kept until it is resumed", asked.Name)
	}
	waiting, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	told := time.AfterFunc(sayAfter, func() {
		fmt.Fprintf(out, "waiting until the operator accepts the request of module %s\n", asked.Name)
	})
	defer told.Stop()
	err := objects.AwaitHandled(waiting, asked, at, r.what)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("module %s: the operator has not accepted the request within %s; the request is kept, and %s status shows what the operator does", asked.Name, r.timeout, r.config.Program())
	}
	return err
}

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
