package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"addon-operator/actors"
	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages/view"
	"addon-operator/server"
)

// hookGrace is the time that a hook has between TERM and KILL. It is cut to half of the grace
// period of the process, so that both fit into a stop.
const hookGrace = 10 * time.Second

// Start is the command that starts the operator.
func Start(c *cli.Config) *cobra.Command {
	return &cobra.Command{Use: "start", Short: "Start the operator (the default)", Args: cli.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		if err := c.Complete(); err != nil {
			return err
		}
		return Run(cmd.Context(), c, Process())
	}}
}

// Process is the Host of start: this process is only for the operator.
func Process() Host {
	return Host{
		Log: os.Stderr, Exit: os.Exit,
		Klog:          func(log *slog.Logger) { kube.RedirectKlog(log); charts.RedirectLog(log) },
		SetKubeconfig: func(files string) error { return os.Setenv("KUBECONFIG", files) },
	}
}

// Host is the process that the operator runs in: that of start, or that of dev, which shows the
// operator in its own way. Whatever is global to a process comes from here.
type Host struct {
	// Log gets one record of the log with each Write.
	Log io.Writer
	// Exit ends the process after the crash of an actor, with exit code 4. It does not return.
	Exit func(code int)
	// Klog redirects what the Kubernetes libraries and Helm's log; nil where their loggers, which are global to
	// the process, are set already.
	Klog func(*slog.Logger)
	// SetKubeconfig sets $KUBECONFIG of the process, which hooks inherit; nil where it is set already.
	SetKubeconfig func(files string) error
	// Begins is called before the start. HookRan is that of actors.Services. Both may be nil.
	Begins  func(o *actors.Operator)
	HookRan func(view.HookRun)
	// Limits are shorter and smaller in tests.
	Limits Limits
}

// Limits are constants: zero means that of each package.
type Limits struct {
	Lease         kube.LeaseOptions // the times of the election
	DriftPeriod   time.Duration
	Webhooks      struct{ Life, Settle time.Duration } // of certificates
	SnapshotLimit int                                  // bytes
}

// Run starts the operator and returns when it has stopped, after ctx is done. It returns early when
// it cannot start, and with exit code 3 in its error when the leadership is lost (leadershipLost).
//
// The order matters. Secrets exist first, because the log hides them; the replica is made before
// the clients and the runner of hooks, which its fence is below; addresses are opened before
// anything is loaded, so that probes are answered from the beginning (G0). Deferred calls undo it
// in the reverse order: the last spans are sent after the stop.
func Run(ctx context.Context, c *cli.Config, host Host) error {
	if err := c.CheckDebugAddress(); err != nil { // commands may ask any address
		return err
	}
	secrets := &actors.Secrets{}
	log, level, err := c.Logger(host.Log, secrets.Hide)
	if err != nil {
		return err
	}
	c.WarnOfVariables(log, os.Environ())
	if host.Klog != nil {
		host.Klog(log)
	}
	limitMemory(log)
	log.Info("addon-operator starts", "version", c.Version, "modulesDir", c.ModulesDir, "globalHooksDir", c.GlobalHooksDir, "namespace", c.Namespace)
	metrics := newMetrics(c)
	// Helm writes until this context ends, not until ctx does: a stop lets Helm finish, and only
	// the end of the grace period interrupts it (stop).
	writes, stopWrites := context.WithCancel(context.Background())
	defer stopWrites()
	replica, err := newReplica(c, log, host.Limits)
	if err != nil {
		return err
	}
	replica.hide = secrets.Hide
	world, err := newWorld(writes, c, replica, metrics)
	if err != nil {
		return err
	}
	unshare, err := shareCluster(c, replica.runner, host.SetKubeconfig)
	defer unshare()
	if err != nil {
		return err
	}
	history := &server.History{Hide: secrets.Hide}
	world.Secrets, world.HookRan = secrets, func(r view.HookRun) {
		history.Add(r)
		if host.HookRan != nil {
			host.HookRan(r)
		}
	}
	world.Mailboxes.Crashed = func() { replica.crashed(host.Exit) }
	var lastTraces func()
	if world.Tracer, lastTraces, err = newTracer(ctx, c, secrets, log); err != nil {
		return err
	}
	defer lastTraces()
	// From here on ctx also ends when the leadership is lost.
	ctx, unbind := replica.bind(ctx)
	defer unbind()
	operator := actors.New(world)
	if replica.reviews != nil {
		replica.reviews.Review = operator.Review
	}
	if host.Begins != nil {
		host.Begins(operator)
	}
	// The pages are served to the end: a stop that takes long is when people look.
	pages, closePages := context.WithCancel(context.WithoutCancel(ctx))
	defer closePages()
	source := server.Source{
		Parameters: &logLevel{log: log, level: level, usual: level.Level()}, History: history, Leadership: world.Leadership,
		Cluster: replica.apiServer, ConfigMap: c.Namespace + "/" + c.ConfigMap,
	}
	if err := serve(pages, c, operator, source, replica.reviewer, log); err != nil {
		return err
	}
	// When ctx has ended, the error is a consequence of that, and what was started must be stopped.
	if err := replica.start(ctx, operator); err != nil && ctx.Err() == nil {
		return err
	}
	go returnMemory(ctx, operator)
	<-ctx.Done()
	if cause := context.Cause(ctx); errors.Is(cause, leadershipLost) {
		return cause // there is no time for an orderly stop
	}
	defer replica.leave()
	return errors.Join(replica.ended(), stop(c, operator, stopWrites, log))
}

// Plan makes a plan without a running operator, from the modules directory and the cluster. The
// replica is an empty one: without a fence, which nothing needs that writes nothing.
func Plan(ctx context.Context, c *cli.Config, log *slog.Logger, question plan.Request) (plan.Plan, error) {
	world, err := newWorld(ctx, c, &replica{config: c, log: log}, actors.NewMetrics(c.MetricsPrefix))
	if err != nil {
		return plan.Plan{}, err
	}
	return actors.Plan(ctx, world, question)
}

// returnMemory gives memory back a moment after each reload: listing many objects and
// installing many charts leaves far more garbage than it keeps, once, and the process
// then idles on what it took. Collecting more often all the time would cost CPU where it
// is wanted, during a converge.
func returnMemory(ctx context.Context, operator *actors.Operator) {
	const pause = 5 * time.Second
	done := 0
	for tick := time.Tick(pause); ctx.Err() == nil; <-tick {
		if c := operator.Converge(); c.Ready && c.Phase == view.ConvergeIdle && c.Reload != done {
			done = c.Reload
			debug.FreeOSMemory()
		}
	}
}

// stop ends the operator within the grace period (F18). When that is over, Helm must stop writing
// at once; the three seconds after it are for Helm to notice, and what then still runs is left
// behind. ctx of the start has ended, so this needs contexts of its own.
func stop(c *cli.Config, operator *actors.Operator, stopWrites func(), log *slog.Logger) error {
	deadline := time.AfterFunc(c.GracePeriod, func() {
		log.Warn("the grace period is over: Helm stops writing")
		stopWrites()
	})
	defer deadline.Stop()
	const last = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), c.GracePeriod+last)
	defer cancel()
	if err := operator.Stop(ctx); err != nil {
		return fmt.Errorf("not everything stopped within the grace period: %w", err)
	}
	log.Info("addon-operator has stopped")
	return nil
}

// newMetrics makes the metrics, and adds those of the process and of all clients of the API server.
// The latter two are global to the process.
func newMetrics(c *cli.Config) *actors.Metrics {
	m := actors.NewMetrics(c.MetricsPrefix)
	m.ShowVersion(c.Version)
	m.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	kube.ObserveRequests(m.Requests)
	return m
}

// newWorld connects the actors with what is outside: the API server, Helm, hooks and files. writes
// ends Helm's writes and the recording of Events; with the empty replica of Plan nothing competes
// for a Lease.
//
// All clients are derived from one, with the fence below it. Patches of hooks have limits of their
// own, so that a hook that writes much does not slow down Helm.
func newWorld(writes context.Context, c *cli.Config, replica *replica, metrics *actors.Metrics) (actors.World, error) {
	log := replica.log
	client, err := kube.Connect(kube.Options{
		Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer,
		QPS: float32(c.KubeQPS), Burst: c.KubeBurst, UserAgent: "addon-operator/" + c.Version, Log: log,
		Watches: metrics, Fence: replica.fence, WentBack: replica.end,
	})
	if err != nil {
		return actors.World{}, err
	}
	shownOn := kube.RecorderOptions{Namespace: c.Namespace, ConfigMap: c.ConfigMap, Pod: c.PodName, Log: log}
	recorder := client.NewRecorder(writes, shownOn)
	presence := kube.NewPresence(client, absencePoll)
	asked, reviews, err := newWebhooks(writes, c, client, replica)
	if err != nil {
		return actors.World{}, err
	}
	replica.reviews = reviews
	releases, err := helm.New(helm.Options{
		Config: client.RESTConfig(), Namespace: c.Namespace, Driver: c.HelmDriver, HistoryMax: c.HelmHistoryMax,
		Timeout: c.HelmTimeout, Labels: helm.UsualLabels(), Log: log, Watcher: client, Presence: presence,
		Notify: func(text string) {
			recorder.Record(kube.Notice{Warning: true, Reason: "ObjectsStay", Message: replica.hide(text)})
		},
	})
	if err != nil {
		return actors.World{}, err
	}
	runner, err := hooks.NewRunner(hooks.Options{
		TmpDir: c.TmpDir, KeepFiles: c.KeepTmpFiles, ProxyJSON: c.LogProxyHook, Grace: min(hookGrace, c.GracePeriod/2), Log: log,
		Timeout: c.HookTimeout, Chroot: c.ChrootDir, JQLibrary: c.JQDirs(),
		May: replica.may(), Hide: replica.hide,
	})
	if err == nil {
		err = replica.join(client, runner)
	}
	if err != nil {
		return actors.World{}, err
	}
	patches, err1 := client.WithLimits(kube.Limits{QPS: float32(c.KubeQPS), Burst: c.KubeBurst, Timeout: patchTimeout})
	shown, err2 := client.ModuleObjects(c.Namespace)
	if err := errors.Join(err1, err2); err != nil {
		return actors.World{}, err
	}
	var kept actors.LastValid
	if c.StartWithLastValid {
		kept = client.LastValid(c.Namespace, c.ConfigMap)
	}
	world := actors.World{
		Services: actors.Services{
			Log: log, Hooks: runner, Releases: releases, Charts: releases.Charts(), Plans: releases, Metrics: metrics, Objects: patches, JQLibrary: c.JQDirs(),
			CRDs: actors.NewDefinitions(client, releases, c.CRDOptions()), Width: c.ParallelModules,
			WriteContext: writes, Dirs: c.Dirs, IgnoredRelease: c.HelmIgnoreRelease,
		},
		Drift: c.Drift, DriftPeriod: replica.limits.DriftPeriod,
		ConfigMap: client.ConfigMap(c.Namespace, c.ConfigMap), LastValid: kept,
		Secret: client.Secret(c.Namespace, c.SecretName()), ModuleObjects: shown,
		Notices: recorder, ReleaseWatch: releases, Renderer: releases,
		Watch: func(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (actors.Watch, error) {
			return client.Watch(ctx, spec, notify, synced)
		},
		Disk:          watchDisk(c),
		SnapshotLimit: cmp.Or(replica.limits.SnapshotLimit, kube.SnapshotLimit),
		AllowPurge:    c.AllowPurge, Namespace: c.Namespace, ConfigMapName: c.ConfigMap,
		Leadership: replica.leadership(),
		Isolate:    c.FailurePolicy == "isolate",
	}
	if asked != nil {
		world.Webhooks, world.WebhookPeriod = asked, replica.limits.Webhooks.Settle
	}
	return world, nil
}

// watchDisk is the Disk of actors.World; nil when the directories are not watched. It begins a moment after the start,
// which has just read all files: a second look at them at once would only make the first hook later.
func watchDisk(c *cli.Config) func(context.Context, func()) {
	if !c.WatchModules {
		return nil
	}
	return func(ctx context.Context, notify func()) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
			addons.Watch(ctx, c.Dirs, addons.Seldom, notify)
		}
	}
}

// patchTimeout is for one request of what hooks write to KUBERNETES_PATCH_PATH. The run of the hook waits for it, and
// fails and is retried after it.
const patchTimeout = 10 * time.Second

// absencePoll is how often the operator looks for objects of releases that it may not watch.
const absencePoll = time.Minute

// serve opens the addresses before the start, so that probes are answered from the beginning (G0);
// until then pages show what the start waits for. The caller sets a part of the fields of source; the
// others are set from the operator. Both addresses are tried, so that one error names all that are taken.
func serve(ctx context.Context, c *cli.Config, operator *actors.Operator, source server.Source, reviewer *kube.Reviewer, log *slog.Logger) error {
	source.Inspector, source.Ask, source.Converge, source.Version = operator.Inspector(), operator.Ask, operator.Converge, c.Version
	source.Metrics, source.HookMetrics = operator.Metrics().Registry, operator.Metrics().HookRegistry
	source.Render, source.Plan, source.Hide = operator.Render, operator.Plan, operator.Hide
	source.Hanging, source.NotInForce, source.Observed = operator.HangingHooks, operator.NotInForce, operator.Observed
	public, debug := net.JoinHostPort(c.ListenAddress, strconv.Itoa(c.ListenPort)), server.Debug(source)
	var err error
	if c.SecureMetrics {
		err = serveSecurely(ctx, public, source, reviewer, log)
	} else {
		err = server.Serve(ctx, public, server.Public(source), log)
	}
	if c.DebugAddress != "" {
		err = errors.Join(err, server.Serve(ctx, c.DebugAddress, debug, log))
	}
	if err != nil {
		return err
	}
	if c.DebugSocket != "" {
		// Next to the loopback address the socket is a convenience: a file system that is
		// read-only must not keep the operator from starting.
		if err := server.Serve(ctx, "unix:"+c.DebugSocket, debug, log); err != nil {
			log.Warn("the debug socket is not served", "err", err)
		}
	}
	return nil
}

// CertificateDir has the certificate of secure metrics, tls.crt and tls.key as in a Secret for TLS; without tls.crt
// the operator creates one. The chart mounts the Secret there, and no one needs another place.
const CertificateDir = "/etc/addon-operator/tls"

// serveSecurely opens the public address with TLS; the API server decides which clients may see its pages
// (J11). If it cannot decide, the reason is logged and not shown: the client is not authenticated yet.
func serveSecurely(
	ctx context.Context, address string, source server.Source, reviewer *kube.Reviewer, log *slog.Logger,
) error {
	certificate, err := server.SelfSigned()
	file := filepath.Join(CertificateDir, corev1.TLSCertKey)
	if _, missing := os.Stat(file); !errors.Is(missing, fs.ErrNotExist) {
		certificate, err = server.CertificateFiles(file, filepath.Join(CertificateDir, corev1.TLSPrivateKeyKey), log)
	}
	if err != nil {
		return err
	}
	source.Authorize = func(ctx context.Context, token, verb, path string) (int, string) {
		// Verdicts are remembered for a short time, so scrapes do not ask the API server each time.
		verdict, err := reviewer.Review(ctx, token, verb, path)
		switch {
		case errors.Is(err, kube.ErrBusy):
			return http.StatusTooManyRequests, err.Error()
		case err != nil:
			log.Warn("request for a page refused: the token could not be checked", "page", path, "err", err)
			return http.StatusServiceUnavailable, "the API server cannot check the token; the log of the operator contains the reason"
		case verdict == kube.Allowed:
			return http.StatusOK, ""
		case verdict == kube.Refused:
			return http.StatusForbidden, "the user of this token is not allowed to " + verb + " the nonResourceURL " + path
		}
		return http.StatusUnauthorized, "the API server rejects this token"
	}
	return server.ServeTLS(ctx, address, server.Public(source), certificate, log)
}

// limitMemory sets the memory limit of the container in the runtime, so that it collects garbage
// before the kernel kills the process. A GOMEMLIMIT in the environment wins.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return // the runtime has read it
	}
	if limit := goMemoryLimit(os.DirFS("/")); limit > 0 {
		debug.SetMemoryLimit(limit)
		log.Debug("memory limit taken from the container", "goMemoryLimit", limit)
	}
}

// goMemoryLimit is 90 % of the memory limit of the container, in bytes; 0 for none. The rest is for what the
// runtime does not count: the program itself, and pages of files. In a container the root of the mount is its own
// control group, of version 2 or of version 1, which represents no limit by a number that is near the largest.
func goMemoryLimit(root fs.FS) int64 {
	const percent = 90
	for _, file := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit < math.MaxInt64/2 { // "max" is no number
			return max(0, limit/100*percent)
		}
	}
	return 0
}

// logLevel is what people may change while the operator runs (J4). A change lasts until the next one, until its
// time is over, or until the process ends: it is never written anywhere.
type logLevel struct {
	log   *slog.Logger
	level *slog.LevelVar
	usual slog.Level // of the options

	mu    sync.Mutex // guards until, and is held while the level is set
	until time.Time  // when the usual level returns; zero for a change for good
}

// List implements server.Parameters.
func (l *logLevel) List() []view.Parameter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return []view.Parameter{{
		Name: "log.level", Help: "log level", Choices: []string{"debug", "info", "warn", "error"},
		Value: strings.ToLower(l.level.Level().String()), Default: strings.ToLower(l.usual.String()), Until: l.until,
	}}
}

// Set implements server.Parameters. When the time of a change is over, it counts only if no other one has followed.
func (l *logLevel) Set(_, value string, back time.Duration) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(value)) // one of the choices
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
	l.change(level)
	if back <= 0 || level == l.usual {
		return
	}
	until := time.Now().Add(back)
	l.until = until
	time.AfterFunc(back, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.until.Equal(until) {
			l.until = time.Time{}
			l.change(l.usual)
		}
	})
}

// change sets the level and logs it. The caller holds the mutex.
func (l *logLevel) change(level slog.Level) {
	if was := l.level.Level(); was != level {
		l.log.Info("parameter changed", "parameter", "log.level", "from", was, "to", level)
		l.level.Set(level)
	}
}

// PinCluster makes the operator, and kubectl in hooks, use one context and server, also when the kubeconfig has
// another current context, or gets one later. It writes its part into the new file. The result is $KUBECONFIG for
// hooks: kubectl takes the current context, and each cluster, from the first file that has it, and all else from the
// files behind it.
func PinCluster(c *cli.Config, target kube.Target, file string) (kubeconfig string, err error) {
	if c.Kubeconfig, err = absolute(target.Kubeconfig); err != nil {
		return "", err
	}
	c.KubeContext = target.Context
	return file + string(filepath.ListSeparator) + c.Kubeconfig, os.WriteFile(file, target.Pin, 0o600)
}

// absolute gives a list of files the absolute paths: hooks run in other directories.
func absolute(files string) (string, error) {
	list := slices.DeleteFunc(filepath.SplitList(files), func(file string) bool { return file == "" })
	for i, file := range list {
		var err error
		if list[i], err = filepath.Abs(file); err != nil {
			return "", err
		}
	}
	return strings.Join(list, string(filepath.ListSeparator)), nil
}

// shareCluster makes hooks use the cluster of the operator, if that comes from a kubeconfig: without this, one that
// is given by an option would be unknown to them, and so would a context or a server. In a Pod both use its service
// account. done removes what was written; the next operator does so for one that is killed.
func shareCluster(c *cli.Config, runner *hooks.Runner, setKubeconfig func(string) error) (done func(), err error) {
	done = func() {}
	if setKubeconfig == nil || c.Kubeconfig == "" {
		return done, nil
	}
	if c.KubeContext == "" && c.KubeServer == "" { // kubectl finds the rest in the files
		kubeconfig, err := absolute(c.Kubeconfig)
		if err != nil {
			return done, err
		}
		return done, setKubeconfig(kubeconfig)
	}
	target, err := kube.FindTarget(kube.Options{Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer})
	if err != nil {
		return done, err
	}
	dir, err := runner.MakeDir("kubeconfig")
	if err != nil {
		return done, err
	}
	done = func() { _ = os.RemoveAll(dir) } // what stays is removed at the next start
	kubeconfig, err := PinCluster(c, target, filepath.Join(dir, "context"))
	if err != nil {
		return done, err
	}
	return done, setKubeconfig(kubeconfig)
}
