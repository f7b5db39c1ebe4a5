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

	"github.com/spf13/cobra"

	"addon-operator/actors"
	"addon-operator/actors/shared"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/coldstart"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages/view"
)

// leadershipLost is the exit code after the loss of the Lease. The process ends at once (L4); what
// started it starts it again, as a standby.
const leadershipLost cli.ExitError = 3

// crashed is the exit code after a bug in an actor.
const crashed cli.ExitError = 4

// replica is what makes this process one of several, of which one leads. Without a Lease (option
// ha) it has no fence, keeper, lease and predecessor, and leads from the start; its methods then do
// nothing.
//
// Its fields are set in the order newReplica, join, start, all before the actors run; after that
// only their own methods change anything.
type replica struct {
	config    *cli.Config
	limits    Limits
	log       *slog.Logger
	identity  string // in the Lease: name, address and a random part (cli.NewIdentity)
	fence     *kube.Fence
	keeper    *hooks.Keeper
	lease     *kube.Lease
	apiServer string // its address
	runner    *hooks.Runner
	former    *predecessor
	reviewer  *kube.Reviewer      // of secure metrics, whether this replica leads or not
	started   func()              // is called once, when files are read
	hide      func(string) string // gives a text without known secrets; nil hides none
}

// newReplica makes what the clients and the hooks of a replica are bound to. The keeper inherits
// the file of the predecessor, so that is opened first.
func newReplica(c *cli.Config, log *slog.Logger, limits Limits) (*replica, error) {
	r := &replica{config: c, limits: limits, log: log, started: coldstart.Over}
	if !c.HA {
		return r, nil
	}
	address, err := advertised(c)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil && c.PodName == "" {
		return nil, fmt.Errorf("the name of this replica: %w; set ADDON_OPERATOR_POD", err)
	}
	name := cmp.Or(c.PodName, host)
	r.identity = cli.NewIdentity(name, address)
	r.former = newPredecessor(log, c.TmpDir, name)
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the process that guards hooks: %w", err)
	}
	if r.keeper, err = hooks.StartKeeper(log, r.former.open(), nil, program, keepName, "--log-type="+c.LogType, "--log-no-time="+strconv.FormatBool(c.LogNoTime)); err != nil {
		return nil, err
	}
	// With each renewal the keeper receives the time until which this process may act. If no
	// renewal follows, it kills the hooks then, and this process halfway between then and the
	// expiry of the Lease, in case it is too stuck to end itself.
	r.limits.Lease = cmp.Or(limits.Lease, kube.UsualLease())
	times := r.limits.Lease
	r.fence = kube.NewFence(func(until time.Time) {
		r.keeper.Until(until, until.Add((times.Duration-times.RenewDeadline)/2))
	})
	return r, nil
}

// advertised is the address of the probes of this replica, which followers show as that of their
// leader. An unspecified listen address, such as 0.0.0.0, is replaced by the first address of the
// machine.
func advertised(c *cli.Config) (string, error) {
	host := c.ListenAddress
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		found, err := firstAddress()
		if err != nil {
			return "", fmt.Errorf("the address of this replica: %w; set ADDON_OPERATOR_LISTEN_ADDRESS", err)
		}
		host = found
	}
	return net.JoinHostPort(host, strconv.Itoa(c.ListenPort)), nil
}

// firstAddress is the first address of the machine that others may reach; that of loopback if there
// is none.
func firstAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			return network.IP.String(), nil
		}
	}
	return "127.0.0.1", nil
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
	r.runner, r.apiServer = runner, client.RESTConfig().Host
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

// bind ends ctx, with the cause leadershipLost, when the leadership is lost. It kills what runs
// first, before it logs or ends anything: the time until another replica acts is short (L5). After
// an orderly release nothing is lost; hooks are killed then, too. unbind frees what the binding
// holds.
func (r *replica) bind(ctx context.Context) (bound context.Context, unbind func()) {
	if r.fence == nil {
		return ctx, func() {}
	}
	bound, cancel := context.WithCancelCause(ctx)
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
	return bound, func() { stop(); cancel(nil) }
}

// start begins to act, at once or when this replica leads. It returns early when ctx ends.
//
// Where the Lease has no holder, taking it must cost the start next to nothing. So the
// Lease is looked at while files are read and hooks are asked, and what only a follower
// needs is started only by one that has to wait. The Lease is not taken before all that
// is read: it could not act.
func (r *replica) start(ctx context.Context, operator *actors.Operator) error {
	if r.lease == nil {
		defer r.started()
		return operator.Start(ctx)
	}
	looked := make(chan struct{})
	go func() {
		r.former.await(r.lease.Ended)
		r.lease.Look(ctx)
		close(looked)
	}()
	err := operator.Load(ctx)
	r.started()
	if err != nil {
		return err
	}
	<-looked
	r.lease.Compete(ctx)
	err = r.lead(ctx, operator)
	if err != nil && ctx.Err() == nil {
		r.leave() // another replica may be able to
	}
	return err
}

// lead waits until this replica leads, as stand-by if another one does, and begins the first
// converge. A start that leads at once skips stand-by, which would spawn actors only to replace
// them.
func (r *replica) lead(ctx context.Context, operator *actors.Operator) error {
	begin := operator.Start
	if !r.lease.AtOnce(ctx) {
		if err := operator.StandBy(ctx); err != nil {
			return err
		}
		r.log.Info("standby begins", "identity", r.identity, "lease", cli.LeaseName)
		begin = operator.Lead
	}
	if err := r.lease.Await(ctx); err != nil {
		return err
	}
	r.former.leads(r.identity)
	r.log.Info("this replica leads", "identity", r.identity, "lease", cli.LeaseName)
	return begin(ctx)
}

// leave releases the Lease after everything has ended, so that another replica takes over at once.
// What did not end in time is killed before: two replicas must never run hooks. It is called after
// stop, or when the start of a leader fails.
func (r *replica) leave() {
	if r.lease == nil {
		return
	}
	r.runner.Kill()
	r.keeper.Close() // nothing is left to guard, and the last steps may outlast the lease
	r.lease.Release()
}

// close ends the keeper, if there is one; it kills the hooks that still run.
func (r *replica) close() { r.keeper.Close() }

// crashed ends the process after the crash of an actor, as a kill would. The Lease is not released:
// requests of Helm may be in progress, so another replica waits until the Lease expires. A
// container that is restarted in this Pod need not: it has a proof that this process has ended
// (predecessor.go).
func (r *replica) crashed(exit func(code int)) {
	// A kill waits for hooks that are being started, which may hang with their file system: the end
	// must not.
	const killTime = 5 * time.Second
	time.AfterFunc(killTime, func() { exit(int(crashed)) })
	r.runner.Kill() // alone, there is no Keeper that would
	exit(int(crashed))
}

// keepName is the command behind hooks.StartKeeper, its only caller.
const keepName = "keep-hooks"

// KeepHooks is the process that guards the hooks of a replica.
func KeepHooks(c *cli.Config) *cobra.Command {
	return &cobra.Command{
		Use: keepName, Hidden: true, Args: cli.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // it has no environment
		RunE: func(cmd *cobra.Command, _ []string) error {
			coldstart.Over()
			log, _, err := c.Logger(os.Stderr, (&shared.Secrets{}).Hide)
			if err != nil {
				return err
			}
			return hooks.Keep(log, cmd.InOrStdin(), os.Getppid())
		},
	}
}
