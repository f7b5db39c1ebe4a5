package hooks

import (
	"bytes"
	"cmp"
	_ "embed" // the schemas are files of their own so that editors and CI of hook authors can use them
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/values"
)

// ParseConfig reads what a hook printed for --config: JSON or YAML of protocol v0 or v1 (C4, C5).
// It is strict (C7). The error is a *ConfigError with every mistake, or explains why the output
// cannot be read at all.
//
// The schema checks the structure; only of one that is right is the meaning checked.
func ParseConfig(scope Scope, data []byte) (*Config, error) {
	return parseConfig(scope, data, nil)
}

// parseConfig is ParseConfig for jq expressions that may import modules from the directories of
// jqLibrary.
func parseConfig(scope Scope, data []byte, jqLibrary []string) (*Config, error) {
	document, err := parseDocument(data)
	if err != nil {
		return nil, err
	}
	found := &report{jqLibrary: jqLibrary}
	config := &Config{Version: found.version(document), Orders: map[BindingType]float64{}}
	format, read := formatV1, found.readV1
	switch config.Version {
	case "":
		return nil, found.err()
	case V0:
		format, read = formatV0, found.readV0
	}
	found.withdrawForeign(document, scope, config.Version)
	if err := found.checkShape(document, format); err != nil {
		return nil, err
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	var from written
	if err := decode(document, &from, config.Orders); err != nil {
		return nil, err
	}
	read(from, config)
	if len(config.Orders)+len(config.Schedules)+len(config.Kubernetes) == 0 && !config.HasWebhooks() { // it would never run (C7)
		found.fail("", "the hook has no bindings; add one of %s", strings.Join(allowedBindings(scope, config.Version), ", "))
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	config.Warnings = found.warnings
	return config, nil
}

// parseDocument reads the one JSON or YAML object that a hook printed (C4), as values are read.
func parseDocument(data []byte) (map[string]any, error) {
	tree, err := values.ParseYAML(data)
	switch object, ok := tree.(map[string]any); {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("the hook printed nothing; print a JSON or YAML object with configVersion and the bindings")
	case err != nil:
		return nil, fmt.Errorf("the hook printed neither JSON nor YAML that can be read: %w", err)
	case !ok:
		return nil, fmt.Errorf("the hook printed %s; print a JSON or YAML object, and nothing else, to stdout", show(tree))
	default:
		return object, nil
	}
}

// report collects mistakes and warnings while a document is read. It also carries where jq
// expressions find the modules that they import.
type report struct {
	violations []Violation
	warnings   []string
	jqLibrary  []string
}

// version returns the protocol (C5). It reports an unknown one and returns "", for which nothing
// else is checked: any further mistake would be a consequence.
func (r *report) version(document map[string]any) string {
	version, ok := document["configVersion"]
	switch {
	case !ok:
		return V0
	case version != V1:
		r.fail("configVersion", "must be \"v1\", not %s; leave it out for protocol v0", show(version))
		return ""
	}
	return V1
}

// withdrawForeign reports and removes the bindings that exist, but not for such a hook (C8). They
// are removed so that the schema, which is one for both scopes, does not report them a second time
// as unknown. It writes into the document, which was parsed for this.
func (r *report) withdrawForeign(document map[string]any, scope Scope, version string) {
	allowed := allowedBindings(scope, version)
	for _, key := range append(allowedBindings(Global, V1), append(allowedBindings(Module, V1), "settings", "onKubernetesEvent")...) {
		_, used := document[key]
		if !used || slices.Contains(allowed, key) || (key == "settings" && version == V1) {
			continue
		}
		switch {
		case slices.Contains(allowedBindings(scope, V1), key) || key == "settings":
			r.fail(key, "needs \"configVersion\": \"v1\"")
		case key == "onKubernetesEvent":
			r.fail(key, "belongs to protocol v0; write kubernetes, or leave configVersion out")
		default:
			r.fail(key, "is not available to %s hooks; they can use %s", scope, strings.Join(allowed, ", "))
		}
		delete(document, key)
	}
}

// allowedBindings returns the bindings of C8 for a scope and a protocol.
func allowedBindings(scope Scope, version string) []string {
	kubernetes := string(OnKubernetes)
	if version == V0 {
		kubernetes = "onKubernetesEvent"
	}
	bindings := []string{string(OnStartup), string(OnSchedule), kubernetes}
	for _, order := range orderBindings()[1:] {
		if global := order == BeforeAll || order == AfterAll; global == (scope == Global) {
			bindings = append(bindings, string(order))
		}
	}
	if version == V1 {
		bindings = append(bindings, string(OnValidating), string(OnMutating), string(OnConversion))
	}
	return bindings
}

// orderBindings returns the order bindings in the order in which they run in the life of an owner;
// allowedBindings relies on OnStartup being the first.
func orderBindings() []BindingType {
	return []BindingType{OnStartup, BeforeAll, AfterAll, BeforeHelm, AfterHelm, BeforeDeleteHelm, AfterDeleteHelm}
}

// schedule reads what both protocols have in common.
func (r *report) schedule(at string, from writtenBinding) Schedule {
	binding := Binding{Name: cmp.Or(from.Name, string(OnSchedule)), Queue: MainQueue, AllowFailure: bool(from.AllowFailure)}
	schedule := Schedule{Binding: binding, Crontab: from.Crontab}
	at += ".crontab"
	parsed, err := parseCrontab(schedule.Crontab)
	if err != nil {
		r.fail(at, "%q %s", schedule.Crontab, err)
		return schedule
	}
	schedule.Parsed = parsed
	if neverFires(parsed) {
		r.warn(at, "%q never fires: there is no such day", schedule.Crontab)
	}
	if firesEachSecond(schedule.Crontab) {
		r.warn(at, "%q fires at each second of the minute; write 0 in the first field for once a minute", schedule.Crontab)
	}
	return schedule
}

// filter compiles a jq expression once, when the hook is loaded; nil when there is none. A mistake
// in it is thus an error of the configuration and not of each object.
func (r *report) filter(at, expression string) *Filter {
	if expression == "" {
		return nil
	}
	filter, err := CompileFilter(expression, r.jqLibrary...)
	if err != nil {
		r.fail(at+".jqFilter", "%s; try it with jq", err)
	}
	return filter
}

// duration reads a positive Go duration; 0 when there is none.
func (r *report) duration(at, text string) time.Duration {
	if text == "" {
		return 0
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 {
		r.fail(at, "must be a positive duration such as 30s or 1h30m, not %q", values.Shorten(text, 60))
		return 0
	}
	return duration
}

// events is the list of an author, each event once; all events without one.
func events(list []string) []string {
	if list == nil {
		return []string{Added, Modified, Deleted}
	}
	return once(list)
}

// readV1 reads a document of protocol v1 and checks what its schema cannot (C10, C11, C15). Names
// of snapshots are resolved last, because a schedule may name a binding that follows it.
func (r *report) readV1(from written, config *Config) {
	config.Settings = Settings{
		ExecutionMinInterval: r.duration("settings.executionMinInterval", from.Settings.ExecutionMinInterval),
		ExecutionBurst:       from.Settings.ExecutionBurst,
		Timeout:              r.duration("settings.timeout", from.Settings.Timeout),
	}
	for i, one := range from.Schedule {
		at := fmt.Sprintf("schedule[%d]", i)
		schedule := r.schedule(at, one)
		schedule.Binding = bindingOf(one, schedule.Name)
		config.Schedules = append(config.Schedules, schedule)
	}
	for i, one := range from.Kubernetes {
		config.Kubernetes = append(config.Kubernetes, r.kubernetes(fmt.Sprintf("kubernetes[%d]", i), one))
	}
	for i := range config.Schedules {
		r.resolveSnapshots(fmt.Sprintf("schedule[%d]", i), &config.Schedules[i].Binding, config.Kubernetes)
	}
	for i := range config.Kubernetes {
		r.resolveSnapshots(fmt.Sprintf("kubernetes[%d]", i), &config.Kubernetes[i].Binding, config.Kubernetes)
	}
	r.readAsked(from, config)
}

// bindingOf reads what schedules and kubernetes bindings have in common; name is the default.
func bindingOf(from writtenBinding, name string) Binding {
	name = cmp.Or(from.Name, name)
	return Binding{
		Name: name, Queue: cmp.Or(from.Queue, MainQueue), AllowFailure: bool(from.AllowFailure),
		Group: from.Group, Snapshots: once(from.IncludeSnapshotsFrom),
	}
}

func (r *report) kubernetes(at string, from writtenBinding) KubernetesBinding {
	orTrue := func(flag *bool) bool { return flag == nil || *flag }
	binding := KubernetesBinding{
		Binding: bindingOf(from, string(OnKubernetes)),
		Selection: Selection{
			APIVersion: from.APIVersion,
			Kind:       from.Kind,
			Names:      r.names(at+".nameSelector.matchNames", from.NameSelector.MatchNames),
			Labels:     r.labels(at+".labelSelector", from.LabelSelector),
			Fields:     r.fields(at+".fieldSelector", from.FieldSelector, from.NameSelector.MatchNames),
		},
		Filter:                   r.filter(at, from.JQFilter),
		Events:                   r.eventsV1(at, from),
		ExecuteOnSynchronization: orTrue(from.ExecuteHookOnSynchronization),
		WaitForSynchronization:   orTrue(from.WaitForSynchronization),
		KeepFullObjects:          orTrue(from.KeepFullObjectsInMemory),
	}
	r.namespaces(at+".namespace", from, &binding.Selection)
	if !validAPIVersion(binding.APIVersion) {
		r.fail(at+".apiVersion", "must be v1 or group/version such as apps/v1, not %s", show(from.APIVersion))
	}
	if !binding.KeepFullObjects && from.JQFilter == "" {
		r.warn(at+".keepFullObjectsInMemory", "is false without a jqFilter, so the hook sees neither objects nor filter results")
	}
	// Only together with an explicit queue: in main, module runs and Synchronizations follow each
	// other anyway (X25).
	if !binding.WaitForSynchronization && (from.Queue == "" || from.Queue == MainQueue) {
		r.warn(at+".waitForSynchronization", "is false, which has no effect in queue %s: there, the Synchronization runs before the module; name another queue", MainQueue)
		binding.WaitForSynchronization = from.Queue == ""
	}
	if at += ".resynchronizationPeriod"; r.duration(at, from.ResynchronizationPeriod) > 0 { // hooks of other operators have it
		r.warn(at, "has no effect; a schedule with includeSnapshotsFrom shows the hook all objects again")
	}
	return binding
}

// eventsV1 prefers executeHookOnEvent over its old name.
func (r *report) eventsV1(at string, from writtenBinding) []string {
	if from.ExecuteHookOnEvent == nil {
		return events(from.WatchEvent)
	}
	if from.WatchEvent != nil {
		r.warn(at+".watchEvent", "is ignored because executeHookOnEvent is set, too")
	}
	return events(from.ExecuteHookOnEvent)
}

// namespaces reads the namespaces of a binding. A selector on their labels takes precedence over
// their names (C15).
func (r *report) namespaces(at string, from writtenBinding, selection *Selection) {
	names := from.Namespace.NameSelector.MatchNames
	selection.NamespaceLabels = r.labels(at+".labelSelector", from.Namespace.LabelSelector)
	if selection.NamespaceLabels == nil {
		selection.Namespaces = r.names(at+".nameSelector.matchNames", names)
	} else if len(names) > 0 {
		r.warn(at+".nameSelector.matchNames", "is ignored because namespace.labelSelector is set, too")
	}
}

// resolveSnapshots checks the names of includeSnapshotsFrom and adds the kubernetes bindings of the
// group (C11, C34). A name that is referenced must be unique, because it is a key in the context.
// all must be complete.
func (r *report) resolveSnapshots(at string, binding *Binding, all []KubernetesBinding) {
	for i, name := range binding.Snapshots {
		at := fmt.Sprintf("%s.includeSnapshotsFrom[%d]", at, i)
		switch count := countNamed(all, name); count {
		case 0:
			r.fail(at, "%q is not the name of a kubernetes binding of this hook", name)
		case 1:
		default:
			r.fail(at, "%q is the name of %d kubernetes bindings of this hook; give each a unique name", name, count)
		}
	}
	if binding.Group == "" {
		return
	}
	for _, member := range all {
		if member.Group != binding.Group {
			continue
		}
		if countNamed(all, member.Name) > 1 {
			r.fail(at+".group", "has the member %q, which is the name of several kubernetes bindings of this hook; give each a unique name", member.Name)
		}
		if !slices.Contains(binding.Snapshots, member.Name) {
			binding.Snapshots = append(binding.Snapshots, member.Name)
		}
	}
}

func countNamed(all []KubernetesBinding, name string) int {
	count := 0
	for _, binding := range all {
		if binding.Name == name {
			count++
		}
	}
	return count
}

// validAPIVersion reports whether a text is v1 or group/version. ParseGroupVersion alone accepts
// more, for example "/v1".
func validAPIVersion(apiVersion string) bool {
	if apiVersion == "" {
		return true
	}
	parsed, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && parsed.Version != "" && parsed.String() == apiVersion // "/v1" has an empty group
}

// readV0 reads a document of protocol v0 (C18, C19). Its bindings are always in queue main and have
// neither Synchronization nor snapshots (C20), so those fields keep their zero values. Contexts of
// v0 carry coordinates only, so nothing needs the objects (C22).
func (r *report) readV0(from written, config *Config) {
	for i, one := range from.Schedule {
		config.Schedules = append(config.Schedules, r.schedule(fmt.Sprintf("schedule[%d]", i), one))
	}
	for i, one := range from.OnKubernetesEvent {
		config.Kubernetes = append(config.Kubernetes, r.eventV0(fmt.Sprintf("onKubernetesEvent[%d]", i), one))
	}
}

func (r *report) eventV0(at string, from writtenBinding) KubernetesBinding {
	var changes []string // watch events for add, update and delete
	if from.Event != nil {
		changes = []string{}
	}
	for _, word := range from.Event {
		changes = append(changes, map[string]string{"add": Added, "update": Modified, "delete": Deleted}[word])
	}
	binding := KubernetesBinding{
		Binding:   Binding{Name: cmp.Or(from.Name, "onKubernetesEvent"), Queue: MainQueue, AllowFailure: bool(from.AllowFailure)},
		Selection: Selection{Kind: from.Kind, Labels: r.labels(at+".selector", from.Selector)},
		Filter:    r.filter(at, from.JQFilter),
		Events:    events(changes),
	}
	if from.ObjectName != "" {
		r.name(at+".objectName", from.ObjectName)
		binding.Names = []string{from.ObjectName}
	}
	switch namespaces := from.NamespaceSelector; {
	case !bool(namespaces.Any):
		binding.Namespaces = r.names(at+".namespaceSelector.matchNames", namespaces.MatchNames)
	case len(namespaces.MatchNames) > 0:
		r.warn(at+".namespaceSelector.matchNames", "is ignored because namespaceSelector.any is true")
	}
	return binding
}

//go:embed config.v1.schema.json
var configV1Schema []byte

//go:embed config.v0.schema.json
var configV0Schema []byte

// Compiling a schema takes a millisecond, which adds up with hundreds of hooks: so it is done once,
// at the first use.
var (
	formatV1 = sync.OnceValues(func() (*values.Format, error) { return values.NewFormat("hook configurations", configV1Schema) })
	formatV0 = sync.OnceValues(func() (*values.Format, error) { return values.NewFormat("hook configurations", configV0Schema) })
)

// checkShape reports every violation of the schema. An error is one of the operator: the schema is
// part of it.
func (r *report) checkShape(document any, format func() (*values.Format, error)) error {
	schema, err := format()
	if err != nil {
		return err
	}
	for _, v := range schema.Violations(document) {
		r.fail(v.Path, "%s", v.Message)
	}
	return nil
}

// written is a configuration of either protocol that fits its schema, as its author has written it.
type written struct {
	Settings struct {
		ExecutionMinInterval, Timeout string
		ExecutionBurst                int
	}
	Schedule, Kubernetes, OnKubernetesEvent  []writtenBinding
	KubernetesValidating, KubernetesMutating []writtenReview
	KubernetesCustomResourceConversion       []writtenConversion
}

// writtenBinding has the fields of all bindings. Pointers distinguish absent ones where that matters.
type writtenBinding struct {
	Name, Queue, Group   string
	AllowFailure         flag
	IncludeSnapshotsFrom []string

	Crontab string

	APIVersion, Kind, JQFilter, ResynchronizationPeriod                           string
	ExecuteHookOnEvent, WatchEvent                                                []string
	ExecuteHookOnSynchronization, WaitForSynchronization, KeepFullObjectsInMemory *bool
	NameSelector                                                                  writtenNames
	LabelSelector                                                                 *writtenLabels
	FieldSelector                                                                 writtenFields
	Namespace                                                                     struct {
		NameSelector  writtenNames
		LabelSelector *writtenLabels
	}

	// Of v0 alone.
	Event             []string
	Selector          *writtenLabels
	ObjectName        string
	NamespaceSelector struct {
		MatchNames []string
		Any        flag
	}
}

type writtenNames struct{ MatchNames []string }

type writtenLabels struct {
	MatchLabels      map[string]string
	MatchExpressions []struct {
		Key, Operator, Operation string
		Values                   []string
	}
}

type writtenFields struct {
	MatchExpressions []struct{ Field, Operator, Value string }
}

// flag is also yes, no, on or off in v0, in quotes, too (C21, X32).
type flag bool

// UnmarshalJSON implements json.Unmarshaler. Its schema allows no other words.
func (f *flag) UnmarshalJSON(text []byte) error {
	switch strings.ToLower(strings.Trim(string(text), `"`)) {
	case "yes", "on", "true":
		*f = true
	}
	return nil
}

// decode reads a configuration that fits its schema, and the orders in it.
func decode(document any, into *written, orders map[BindingType]float64) error {
	text, err := values.JSON(document)
	if err != nil {
		return err
	}
	var numbers map[BindingType]json.RawMessage
	err = errors.Join(json.Unmarshal(text, into), json.Unmarshal(text, &numbers))
	for _, binding := range orderBindings() {
		if number, ok := numbers[binding]; ok {
			var order float64
			err = errors.Join(err, json.Unmarshal(number, &order))
			orders[binding] = order
		}
	}
	return err
}

// maxProblems bounds how many mistakes in one output of a hook are reported: it may contain nothing
// else, and each takes memory.
const maxProblems = 100

// longestPath and longestProblem bound a reported mistake, in bytes. Keys and names in a
// configuration may be as long as all of it, and mistakes quote them.
const longestPath, longestProblem = 300, 1000 // bytes

var errTooManyProblems = errors.New("there are more problems; fix these first")

// ConfigError lists what is wrong with the configuration of one hook: everything, or the first
// hundred mistakes (C7).
type ConfigError struct {
	Violations []Violation // sorted by path
}

// Violation is one mistake: its place, as in
// "kubernetes[1].labelSelector.matchExpressions[0].operator", or "" for the document itself, and what
// is wrong there and how to fix it.
type Violation = values.Violation

// Error names every violation in a line of its own, so that one pass fixes the hook.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Violations))
	for i, violation := range e.Violations {
		lines[i] = violation.String()
	}
	if len(lines) == 1 {
		return "hook configuration: " + lines[0]
	}
	return fmt.Sprintf("hook configuration has %d mistakes:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// fail records a mistake, once. After maxProblems one more says that there are others.
func (r *report) fail(path, format string, args ...any) {
	if len(r.violations) > maxProblems {
		return
	}
	violation := Violation{Path: values.Shorten(path, longestPath), Message: values.Shorten(fmt.Sprintf(format, args...), longestProblem)}
	if len(r.violations) == maxProblems {
		violation = Violation{Message: errTooManyProblems.Error()}
	}
	if !slices.Contains(r.violations, violation) {
		r.violations = append(r.violations, violation)
	}
}

func (r *report) warn(path, format string, args ...any) {
	r.warnings = append(r.warnings, Violation{Path: path, Message: fmt.Sprintf(format, args...)}.String())
}

// err returns the mistakes as a *ConfigError; nil if there are none.
func (r *report) err() error {
	if len(r.violations) == 0 {
		return nil
	}
	slices.SortStableFunc(r.violations, func(x, y Violation) int { return strings.Compare(x.Path, y.Path) })
	return &ConfigError{Violations: r.violations}
}

// show prints a value of the document for a message, shortened.
func show(value any) string {
	text, _ := values.Encode(value) // a parsed document can be encoded
	return values.Shorten(string(text), 60)
}
