package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// Phase is where a module is in its life. actors/phases.go draws what leads from one to the
// next.
type Phase string

// The phases of a module.
const (
	Disabled  Phase = "disabled"
	Waiting   Phase = "waiting"  // an enabled module whose first run has not begun
	Starting  Phase = "starting" // its first run: onStartup and Synchronization hooks, then as running
	Running   Phase = "running"  // beforeHelm, Helm, afterHelm
	Ready     Phase = "ready"
	Suspended Phase = "suspended" // switched off, and the reload that deletes it is on its way; or a person has suspended it
	Deleting  Phase = "deleting"
)

// QueueStatus is what a queue publishes about itself, after each message. Its first task is in
// progress when InProgress is set. Like all statuses it is immutable: slices and maps in it are
// never written to.
type QueueStatus struct {
	Length     int  `json:"length"`
	InProgress bool `json:"inProgress"`
	// Since is when the task in progress came to the head, its waiting between attempts included.
	Since time.Time `json:"since,omitzero"`
	// Head holds the first tasks: up to ShownTasks of hooks, and all of modules, which tell what is due. It has the
	// contexts of bindings, which may hold secrets.
	Head []messages.Task `json:"-"`
	// Triggers that the waiting tasks of hooks have together (C41).
	Triggers int `json:"triggers"`
	// Crowded are the hooks for which many triggers wait, with their numbers.
	Crowded map[string]int `json:"-"`
}

// ShownTasks is how many tasks pages show of a queue: more helps no reader.
const ShownTasks = 100

// String implements fmt.Stringer.
func (s QueueStatus) String() string {
	text := Count(s.Length, "task")
	switch {
	case s.Length == 0:
		text = "empty"
	case s.InProgress:
		text += ", in progress: " + s.Head[0].String()
	}
	if s.Triggers > 1 {
		text += "; " + Count(s.Triggers, "trigger") + " wait"
	}
	return text
}

// FailingTask is a task that failed and is tried again.
type FailingTask struct {
	Task string `json:"task"`
	// Attempts that failed.
	Attempts int       `json:"attempts"`
	RetryAt  time.Time `json:"retryAt"`
	Error    string    `json:"error"`
	// Hook is the one that the task runs, empty for other tasks. Public is the error as everyone
	// who may see the namespace may read it, as in Events.
	Hook   string `json:"hook,omitempty"`
	Public string `json:"-"`
}

// String implements fmt.Stringer.
func (f FailingTask) String() string {
	return fmt.Sprintf("BACKOFF %s: attempt %d failed, next at %s: %s", f.Task, f.Attempts, f.RetryAt.Format(time.TimeOnly), head(f.Error))
}

// ModuleStatus is what a module publishes about itself.
type ModuleStatus struct {
	Phase Phase `json:"phase"`
	// Order is the number of its directory: modules run in this order.
	Order int `json:"order"`
	// Hooks that are loaded.
	Hooks int `json:"hooks"`
	// Loaded are these hooks. A module has none until they were asked for their configuration, which begins when a
	// discovery enables it.
	Loaded []hooks.Hook `json:"-"`
	// Release is the revision of the last Helm action, 0 for none.
	Release int `json:"releaseRevision,omitempty"`
	// Namespace of the release, empty for that of the operator (H20).
	Namespace string `json:"namespace,omitempty"`
	// Section has the values, and Values is the beginning of the checksum of the merged ones.
	Section *values.Section `json:"-"`
	Values  string          `json:"valuesChecksum"`
	Failing []FailingTask   `json:"failing,omitempty"`
	// Maintenance is the mode of maintenance the module is under, empty for none (H15).
	Maintenance string `json:"maintenance,omitempty"`
	// Drift is how many objects of the release others have changed, by the last check.
	Drift int `json:"drift,omitempty"`
	// Drifted is what the last check has found, with the values of Secrets if they are asked for; nil before a check.
	Drifted func(secrets bool) messages.Drift `json:"-"`
	// Loop says by which causes the hooks of the module run in a loop now; empty if they do not.
	Loop string `json:"loop,omitempty"`
	// Held says why an upgrade waits until a person allows it (P1), and how; empty for none.
	Held string `json:"held,omitempty"`
	// Parked: its run or delete has failed, or has lasted a minute, and goes on outside of the main queue (policy
	// isolate).
	Parked bool `json:"parked,omitempty"`
	// LastRun is the last module run that began, with the chain of its causes.
	LastRun *ModuleRun `json:"lastRun,omitempty"`
	// Enabled by the last discovery, and not deleted since; Version is that of the chart that
	// was applied last.
	Enabled bool   `json:"enabled"`
	Version string `json:"chartVersion,omitempty"`
	// AppVersion is that in Chart.yaml.
	AppVersion string `json:"appVersion,omitempty"`
}

// ModuleRun is one run of a module.
type ModuleRun struct {
	Began  time.Time        `json:"began"`
	Causes []messages.Cause `json:"causes"`
	// Release is what happened to the release, empty while the run lasts.
	Release string `json:"release,omitempty"`
	// Unchanged: it has succeeded, and the release was as it should be.
	Unchanged bool `json:"-"`
}

// String implements fmt.Stringer.
func (s ModuleStatus) String() string {
	text := s.state(nil, time.Now())
	if s.Maintenance != "" {
		text += " MAINTENANCE=" + s.Maintenance
	}
	if s.Parked {
		text += " PARKED"
	}
	if s.Release > 0 {
		text += fmt.Sprintf(" revision=%d", s.Release)
	}
	if s.Drift > 0 {
		text += fmt.Sprintf(" DRIFT=%s", Count(s.Drift, "object"))
	}
	if s.Held != "" {
		text += " HELD " + s.Held
	}
	for _, f := range s.Failing {
		text += " " + f.String()
	}
	return text
}

// GlobalStatus is what the global hooks publish about themselves.
type GlobalStatus struct {
	Hooks  int          `json:"hooks"`
	Loaded []hooks.Hook `json:"-"` // these hooks
	// Section has the global values, and Values is the beginning of their checksum.
	Section *values.Section `json:"-"`
	Values  string          `json:"valuesChecksum"`
	Failing []FailingTask   `json:"failing,omitempty"`
}

// String implements fmt.Stringer.
func (s GlobalStatus) String() string {
	text := Count(s.Hooks, "hook")
	for _, f := range s.Failing {
		text += " " + f.String()
	}
	return text
}

// The phases of converge.
const (
	ConvergeStarting  = "starting"
	ConvergeReloading = "reloading"
	ConvergeIdle      = "idle"
)

// ConvergeStatus is what converge publishes about itself.
type ConvergeStatus struct {
	// Phase is starting, reloading or idle.
	Phase string `json:"phase"`
	// Ready: the first converge is over.
	Ready   bool     `json:"ready"`
	Reload  int      `json:"reload"`
	Enabled []string `json:"enabledModules"`
	// Off is, for each module that is not enabled or is switched off, the rule that decided it. It
	// is not changed.
	Off map[string]string `json:"off,omitempty"`
	// On is, for each enabled module, the rule that decided it. It is not changed.
	On map[string]string `json:"on,omitempty"`
	// Problems are what is wrong on disk, by module or GlobalHooks. It is not changed.
	Problems map[string][]string `json:"problems,omitempty"`
	// Waits is what the start waits for before there is anything to converge.
	Waits string `json:"waits,omitempty"`
	// HeldPurge is what the last reload would have purged (P1); nil for nothing.
	HeldPurge *HeldPurge `json:"heldPurge,omitempty"`
}

// What begins or ends [ConvergeStatus.Off] while it is unknown whether the module is enabled.
const (
	discoveryFails = "the discovery fails: "
	undecided      = "; the discovery that enables it has not ended"
)

// DiscoveryFails says why a module stays off while it is unknown whether it is enabled, Undecided that a flag
// has enabled it since.
func DiscoveryFails(err error) string { return discoveryFails + head(err.Error()) }

// Undecided is described with DiscoveryFails.
func Undecided(flag string) string { return "its flag is on, by " + flag + undecided }

// HeldPurge is a purge that waits until a person allows it.
type HeldPurge struct {
	// Releases that would go, sorted.
	Releases []string `json:"releases"`
	// Why they stay, and Confirm, the command that allows to purge them.
	Why     string `json:"why"`
	Confirm string `json:"confirm"`
}

// String implements fmt.Stringer. It is short enough for an Event.
func (h HeldPurge) String() string {
	return fmt.Sprintf("the purge of %s is held back, because %s: %s; to allow it: %s", Count(len(h.Releases), "release"), h.Why, messages.Few(10, h.Releases), h.Confirm)
}

// String implements fmt.Stringer.
func (s ConvergeStatus) String() string {
	ready := "not ready"
	if s.Ready {
		ready = "ready"
	}
	text := fmt.Sprintf("%s, reload %d, %s", s.Phase, s.Reload, ready)
	if s.HeldPurge != nil {
		text += "; " + s.HeldPurge.String()
	}
	for _, owner := range slices.Sorted(maps.Keys(s.Problems)) {
		text += "; " + owner + ": " + head(strings.Join(s.Problems[owner], "; "))
	}
	return text
}

// ConfigStatus is what config publishes about itself.
type ConfigStatus struct {
	// Revision is the resourceVersion of the ConfigMap that is in force.
	Revision string `json:"resourceVersion"`
	// Refused says why a newer content, or the deletion, is not in force.
	Refused string `json:"refused,omitempty"`
	// Warnings are what may be mistakes in what is in force, each a sentence.
	Warnings []string `json:"warnings,omitempty"`
	// Data is the content of the ConfigMap that is in force. It is not changed.
	Data map[string]string `json:"-"`
	// Secret is that of the Secret with values, for plans.
	Secret map[string]string `json:"-"`
}

// String implements fmt.Stringer.
func (s ConfigStatus) String() string {
	if s.Refused != "" {
		return "REFUSED: " + head(s.Notice())
	}
	return "resourceVersion " + s.Revision
}

// Notice is the sentence for people while ConfigMap and Secret with values are not in force; empty when they are.
func (s ConfigStatus) Notice() string {
	if s.Refused == "" {
		return ""
	}
	return "ConfigMap and Secret are refused; their last valid content stays in force: " + s.Refused
}

// MonitorsStatus is what monitors publishes about itself.
type MonitorsStatus struct {
	Bindings []messages.BindingState `json:"bindings"`
	// Snapshots are those of the hooks of an owner, or of one hook, sorted by hook and binding: whatever they have now.
	// They have secrets.
	Snapshots func(owner, hook string) []Snapshot `json:"-"`
}

// String implements fmt.Stringer. It names the bindings whose snapshot is not what the cluster has.
func (s MonitorsStatus) String() string {
	text, complete := "", 0
	for _, b := range s.Bindings {
		if b.Phase == "complete" {
			complete++
		}
		if b.Phase != "complete" || b.FilterErrors > 0 {
			text += "; " + b.String()
		}
	}
	return fmt.Sprintf("%s, %d complete%s", Count(len(s.Bindings), "binding"), complete, text)
}

// bindingProblem returns why the snapshot is not what the cluster has and what to do about it, or
// "": a first list that is not finished yet is no problem.
func bindingProblem(b messages.BindingState) string {
	if b.Phase == "complete" || b.Phase == "syncing" && b.Message == "" {
		return ""
	}
	if b.Phase == "waiting-for-kind" { // its message says so
		return fmt.Sprintf("binding %s: %s; install its CRD, or correct kind and apiVersion of the binding", b.Binding, head(b.Message))
	}
	text := strings.TrimSuffix(fmt.Sprintf("binding %s is %s: %s", b.Binding, b.Phase, head(b.Message)), ": ")
	switch b.Phase {
	case "forbidden":
		text += "; 'addon-operator rbac generate' prints the rules that are needed"
	case "too-large":
		text += "; narrow the binding; when there are fewer objects, suspend and resume the module, or restart the operator"
	}
	return text
}

// AdmissionStatus is what admission publishes about itself.
type AdmissionStatus struct {
	Asked int64    `json:"asked"` // webhook requests
	Hooks []string `json:"hooks"` // that it asks
	Error string   `json:"error,omitempty"`
}

// String implements fmt.Stringer.
func (s AdmissionStatus) String() string {
	text := fmt.Sprintf("%s with webhooks, %s", Count(len(s.Hooks), "hook"), Count(int(s.Asked), "request"))
	if s.Error != "" {
		text += ": " + head(s.Error)
	}
	return text
}

// HealerStatus is what the healer publishes about itself.
type HealerStatus struct {
	// Objects of all releases.
	Objects int `json:"objects"`
	// Incomplete are modules whose releases lack objects that Helm has not applied again yet. Programs
	// read it by its older name.
	Incomplete []string `json:"ailing,omitempty"`
	// Releases are how those with objects are doing, by module; it is replaced, never changed.
	Releases map[string]*Health `json:"releases,omitempty"`
}

// String implements fmt.Stringer.
func (s HealerStatus) String() string { return Count(s.Objects, "object") }

// head brings an error, which may have many lines, into one of bearable length.
func head(s string) string {
	return values.Shorten(strings.Join(strings.Fields(strings.ReplaceAll(s, "\n", " ⏎ ")), " "), 5000)
}

// Count writes a number with its noun, which takes an s.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// MetricsPrefix is the prefix of the names of all metrics of the operator, unless an option names
// another one. Metrics of hooks keep the names that the hooks give them (I6).
const MetricsPrefix = "addon_operator_"

// Leadership is what a replica knows about who leads (L1). A replica without an election leads.
type Leadership struct {
	// Self is the name of this replica, Leader that of the one that leads; empty when there
	// is none. Address is where the leader answers probes.
	Self    string `json:"self,omitempty"`
	Leader  string `json:"leader,omitempty"`
	Address string `json:"leaderAddress,omitempty"`
	Leading bool   `json:"leading"`
	// Since when it is so, as this replica saw it.
	Since       time.Time `json:"since,omitzero"`
	Transitions int       `json:"transitions,omitempty"`
	// Problem is why this replica cannot lead, or does not know who does.
	Problem string `json:"problem,omitempty"`
}

// String implements fmt.Stringer.
func (l Leadership) String() string {
	since := " since " + l.Since.UTC().Format(time.RFC3339)
	switch {
	case l.Leading && l.Since.IsZero():
		return "leader"
	case l.Leading:
		return strings.TrimSpace("leader "+l.Self) + since
	case l.Problem != "":
		return "standby; it cannot compete for the lease: " + l.Problem
	case l.Leader != "":
		return fmt.Sprintf("standby; %s (%s) leads%s", l.Leader, l.Address, since)
	}
	return "standby; no leader" + since
}

// Parameter is something that people may change while the operator runs.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Default is the value of the options.
	Default string `json:"default"`
	// Until is when the value goes back to the default; zero when it stays.
	Until time.Time `json:"until,omitzero"`
	Help  string    `json:"help"`
	// Choices are all values it can have.
	Choices []string `json:"choices"`
}

// Printable returns a text of one or more lines in which nothing controls a terminal (J10).
func Printable(text string) string { return hooks.Printable(text) }
