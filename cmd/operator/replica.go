package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"addon-operator/actors"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/coldstart"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages/view"
	"addon-operator/server"
)

// leadershipLost is the exit code after the loss of the Lease. The process ends at once (L4); what
// started it starts it again, as a standby.
const leadershipLost cli.ExitError = 3

// crashed is the exit code after a bug in an actor.
const crashed cli.ExitError = 4

// replica is what makes this process one of several, of which one leads. Without a Lease (option
// ha) it has no fence and no lease, and leads from the start; its methods then do nothing.
//
// Its fields are set in the order newReplica, join, start, all before the actors run; after that
// only their own methods change anything.
type replica struct {
	config    *cli.Config
	limits    Limits
	log       *slog.Logger
	identity  string // in the Lease (cli.NewIdentity)
	fence     *kube.Fence
	lease     *kube.Lease
	apiServer string // its address
	runner    *hooks.Runner
	reviewer  *kube.Reviewer      // of secure metrics, whether this replica leads or not
	reviews   *server.Reviews     // nil: the API server asks no hooks
	client    *kube.Client        // of join
	started   func()              // is called once, when files are read
	hide      func(string) string // gives a text without known secrets; nil hides none

	over context.Context         // done when this process must end, in good order, with the reason as its cause
	end  context.CancelCauseFunc // ends it
}

// newReplica makes what the clients and the hooks of a replica are bound to.
func newReplica(c *cli.Config, log *slog.Logger, limits Limits) (*replica, error) {
	r := &replica{config: c, limits: limits, log: log, started: coldstart.Over}
	r.over, r.end = context.WithCancelCause(context.Background())
	if !c.HA {
		return r, nil
	}
	host, err := os.Hostname()
	if err != nil && c.PodName == "" {
		return nil, fmt.Errorf("the name of this replica: %w; set ADDON_OPERATOR_POD", err)
	}
	r.identity = cli.NewIdentity(cmp.Or(c.PodName, host), advertised(c), c.PodUID)
	r.limits.Lease = cmp.Or(limits.Lease, kube.UsualLease())
	r.fence = kube.NewFence()
	return r, nil
}

// advertised is the address of the probes of this replica, which followers show as that of their
// leader. An unspecified listen address, such as 0.0.0.0, is replaced by that of the interface with the default route;
// without one, by that of loopback.
func advertised(c *cli.Config) string {
	host := c.ListenAddress
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if found, err := utilnet.ChooseHostInterface(); err == nil {
			host = found.String()
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(c.ListenPort))
}

// may is what the runner calls before it starts a hook or an enabled script; nil when all may
// start.
func (r *replica) may() func() error {
	if r.fence == nil {
		return nil
	}
	return r.fence.Check
}

// join completes the replica with what its own fence had to exist for.
func (r *replica) join(client *kube.Client, runner *hooks.Runner) (err error) {
	r.runner, r.client, r.apiServer = runner, client, client.RESTConfig().Host
	if r.config.SecureMetrics {
		if r.reviewer, err = client.NewReviewer(); err != nil {
			return err
		}
	}
	if r.fence != nil {
		options := r.limits.Lease
		options.Namespace, options.Name, options.Identity = r.config.Namespace, cli.LeaseName, r.identity
		r.lease, err = client.NewLease(options)
	}
	return err
}

// leadership is what pages and metrics show; nil without an election. It reads what the Lease has
// observed and asks nothing.
func (r *replica) leadership() func() view.Leadership {
	if r.lease == nil {
		return nil
	}
	return func() view.Leadership {
		s := r.lease.Status()
		l := view.Leadership{Leading: s.Leading, Since: s.Since, Transitions: s.Transitions, Problem: s.Problem}
		l.Self, _ = cli.ParseIdentity(s.Identity)
		l.Leader, l.Address = cli.ParseIdentity(s.Holder)
		return l
	}
}

// ended is why this process must end by itself; nil when there is no reason. What started it starts it again.
func (r *replica) ended() error { return context.Cause(r.over) }

// bind ends ctx when the process must end, and, with the cause leadershipLost, when the leadership is lost. Then it
// kills what runs first, before it logs or ends anything: the time until another replica acts is short (L5). After an
// orderly release nothing is lost; hooks are killed then, too. unbind frees what the binding holds.
func (r *replica) bind(ctx context.Context) (bound context.Context, unbind func()) {
	bound, cancel := context.WithCancelCause(ctx)
	stopOver := context.AfterFunc(r.over, func() { cancel(r.ended()) })
	free := func() { stopOver(); cancel(nil) }
	if r.fence == nil {
		return bound, free
	}
	lost := r.fence.Lost()
	stop := context.AfterFunc(lost, func() {
		r.runner.Kill()
		cause := context.Cause(lost)
		if errors.Is(cause, kube.ErrReleased) {
			return // leave has released it
		}
		r.log.Error("leadership lost: hooks were killed and nothing more is written; this process exits, to be restarted as a standby", "err", cause, "exitCode", int(leadershipLost))
		cancel(fmt.Errorf("%w: %w", leadershipLost, cause))
	})
	return bound, func() { stop(); free() }
}

// start begins to act, at once or when this replica leads. It returns early when ctx ends.
//
// The Lease is not taken before files are read and hooks are asked: it could not act.
func (r *replica) start(ctx context.Context, operator *actors.Operator) error {
	if r.lease == nil {
		defer r.started()
		return operator.Start(ctx)
	}
	err := operator.Load(ctx)
	r.started()
	if err != nil {
		return err
	}
	r.yield(ctx)
	r.lease.Compete(ctx)
	err = r.lead(ctx, operator)
	if err != nil && ctx.Err() == nil {
		r.leave() // another replica may be able to
	}
	return err
}

// lead waits until this replica leads and begins the first converge: after a wait with files and values as they are
// then.
func (r *replica) lead(ctx context.Context, operator *actors.Operator) error {
	if err := r.lease.Await(ctx); err != nil {
		return err
	}
	r.log.Info("this replica leads", "identity", r.identity, "lease", cli.LeaseName)
	if r.lease.Waited() {
		if err := operator.Load(ctx); err != nil {
			return err
		}
	}
	return operator.Start(ctx)
}

// leave releases the Lease after everything has ended, so that another replica takes over at once.
// What did not end in time is killed before: two replicas must never run hooks. It is called after
// stop, or when the start of a leader fails.
func (r *replica) leave() {
	if r.lease == nil {
		return
	}
	r.runner.Kill()
	r.lease.Release()
}

// crashed ends the process after the crash of an actor, as a kill would. The Lease is not released:
// requests of Helm may be in progress, so another replica waits until the Lease expires. A
// container that is restarted in this Pod has the same identity, and need not.
func (r *replica) crashed(exit func(code int)) {
	// A kill waits for hooks that are being started, which may hang with their file system: the end
	// must not.
	const killTime = 5 * time.Second
	time.AfterFunc(killTime, func() { exit(int(crashed)) })
	r.runner.Kill() // what hooks have started would outlive them
	exit(int(crashed))
}
