package hooks

import (
	"slices"
	"strings"
	"time"
)

// ParseConfig reads what a hook printed for --config: JSON or YAML of protocol v0 or v1 (C4, C5).
// It is strict (C7). The error is a *ConfigError with every mistake, or explains why the output
// cannot be read at all.
//
// The schema checks the structure (schema.go), and readV0 and readV1 the meaning. A value of the
// wrong type reads as absent in the second step, so that one report holds the mistakes of both.
func ParseConfig(scope Scope, data []byte) (*Config, error) {
	return parseConfig(scope, data, nil)
}

// parseConfig is ParseConfig for jq expressions that may import modules from the directories of
// jqLibrary.
func parseConfig(scope Scope, data []byte, jqLibrary []string) (*Config, error) {
	tree, err := parseDocument(data)
	if err != nil {
		return nil, err
	}
	found := &report{jqLibrary: jqLibrary}
	document := place{value: tree, report: found}
	config := &Config{Version: version(document), Orders: map[BindingType]float64{}}
	withdrawForeign(document, scope, config.Version)
	switch config.Version {
	case V1:
		if err := checkShape(document, formatV1); err != nil {
			return nil, err
		}
		readV1(document, config)
	case V0:
		if err := checkShape(document, formatV0); err != nil {
			return nil, err
		}
		readV0(document, config)
	}
	for _, binding := range orderBindings() {
		if order, ok := document.at(string(binding)).number(); ok {
			config.Orders[binding] = order
		}
	}
	if config.empty() && len(found.violations) == 0 {
		document.fail("the hook has no bindings; add one of %s", strings.Join(allowedBindings(scope, config.Version), ", "))
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	config.Warnings = found.warnings
	return config, nil
}

// empty reports whether the hook binds to nothing: it would never run, so that is a mistake (C7).
func (c *Config) empty() bool {
	return len(c.Orders) == 0 && len(c.Schedules) == 0 && len(c.Kubernetes) == 0
}

// version returns the protocol (C5). It reports an unknown one and returns "", for which nothing
// else is checked: any further mistake would be a consequence.
func version(document place) string {
	at := document.at("configVersion")
	object := document.value.(map[string]any)
	if _, ok := object["configVersion"]; !ok {
		return V0
	}
	if at.value != V1 {
		at.fail("must be \"v1\", not %s; leave it out for protocol v0", show(at.value))
		return ""
	}
	return V1
}

// withdrawForeign reports and removes the bindings that exist, but not for such a hook (C8). They
// are removed so that the schema, which is one for both scopes, does not report them a second time
// as unknown. It writes into the document, which was parsed for this.
func withdrawForeign(document place, scope Scope, version string) {
	if version == "" {
		return
	}
	object := document.value.(map[string]any)
	allowed := allowedBindings(scope, version)
	for _, key := range append(allowedBindings(Global, V1), append(allowedBindings(Module, V1), "settings", "onKubernetesEvent",
		"kubernetesValidating", "kubernetesMutating", "kubernetesCustomResourceConversion")...) {
		_, used := object[key]
		if !used || slices.Contains(allowed, key) || (key == "settings" && version == V1) {
			continue
		}
		at := document.at(key)
		switch {
		case slices.Contains(allowedBindings(scope, V1), key) || key == "settings":
			at.fail("needs \"configVersion\": \"v1\"")
		case key == "onKubernetesEvent":
			at.fail("belongs to protocol v0; write kubernetes, or leave configVersion out")
		case strings.HasPrefix(key, string(OnKubernetes)):
			at.fail("is a webhook, and webhooks are not served; see docs/hooks.md (What is not served)")
		default:
			at.fail("is not available to %s hooks; they can use %s", scope, strings.Join(allowed, ", "))
		}
		delete(object, key)
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

// readSchedule reads what both protocols have in common.
func readSchedule(p place) Schedule {
	crontab := p.at("crontab")
	schedule := Schedule{
		Binding: Binding{Name: p.at("name").textOr(string(OnSchedule)), Queue: MainQueue},
		Crontab: crontab.text(),
	}
	if schedule.Crontab == "" {
		return schedule // the schema has said so
	}
	parsed, err := parseCrontab(schedule.Crontab)
	if err != nil {
		crontab.fail("%q %s", schedule.Crontab, err)
		return schedule
	}
	schedule.Parsed = parsed
	if neverFires(parsed) {
		crontab.warn("%q never fires: there is no such day", schedule.Crontab)
	}
	if firesEachSecond(schedule.Crontab) {
		crontab.warn("%q fires at each second of the minute; write 0 in the first field for once a minute", schedule.Crontab)
	}
	return schedule
}

// readFilter compiles a jq expression once, when the hook is loaded; nil when there is none. A
// mistake in it is thus an error of the configuration and not of each object.
func readFilter(p place) *Filter {
	if p.text() == "" {
		return nil
	}
	filter, err := CompileFilter(p.text(), p.report.jqLibrary...)
	if err != nil {
		p.fail("%s; try it with jq", err)
	}
	return filter
}

// readDuration reads a positive Go duration; 0 when there is none.
func readDuration(p place) time.Duration {
	if p.text() == "" {
		return 0
	}
	duration, err := time.ParseDuration(p.text())
	if err != nil || duration <= 0 {
		p.fail("must be a positive duration such as 30s or 1h30m, not %s", show(p.value))
		return 0
	}
	return duration
}
