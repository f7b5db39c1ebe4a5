package hooks

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/values"
)

// ParseConfig reads what a hook printed for --config: JSON or YAML of protocol v0 or v1 (C4, C5).
// It is strict (C7). The error is a *ConfigError with every mistake, or explains why the output
// cannot be read at all.
//
// The schema checks the structure (schema.go); only of one that is right is the meaning checked.
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
	if len(config.Orders)+len(config.Schedules)+len(config.Kubernetes) == 0 { // it would never run (C7)
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
	for _, key := range append(allowedBindings(Global, V1), append(allowedBindings(Module, V1), "settings", "onKubernetesEvent",
		"kubernetesValidating", "kubernetesMutating", "kubernetesCustomResourceConversion")...) {
		_, used := document[key]
		if !used || slices.Contains(allowed, key) || (key == "settings" && version == V1) {
			continue
		}
		switch {
		case slices.Contains(allowedBindings(scope, V1), key) || key == "settings":
			r.fail(key, "needs \"configVersion\": \"v1\"")
		case key == "onKubernetesEvent":
			r.fail(key, "belongs to protocol v0; write kubernetes, or leave configVersion out")
		case strings.HasPrefix(key, string(OnKubernetes)):
			r.fail(key, "is a webhook, and webhooks are not served; see docs/hooks.md (What is not served)")
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
