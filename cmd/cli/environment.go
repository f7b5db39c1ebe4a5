package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"

	"addon-operator/values"
)

// unserved is a variable that existing installations set and that this operator does not
// serve: what it would have done, and what to do now.
type unserved struct {
	advice  string                  // what to do, without the name of the variable
	refused bool                    // the start is refused: without it other things would happen
	same    func(value string) bool // reports values that ask for what happens anyway; nil: none do
}

// unservedVariables by name. An empty value counts as absent, as for the operator's own variables.
func unservedVariables() map[string]unserved {
	// Another Lease is no lock: while the operator that holds it runs, both would write. The others are restrictions.
	dangerous := []string{"ADDON_OPERATOR_HA_LEASE_NAME", "ADDON_OPERATOR_HOOK_ENV", "ADDON_OPERATOR_PURGE_SHARE"}
	all := ofOthers()
	for name, now := range formerOptions() {
		all[name] = unserved{
			advice:  "it is no longer an option, its value is always " + now + "; remove it",
			same:    func(value string) bool { return value == now },
			refused: slices.Contains(dangerous, name),
		}
	}
	lease := all["ADDON_OPERATOR_HA_LEASE_NAME"]
	lease.advice += " when no operator is running that has it"
	all["ADDON_OPERATOR_HA_LEASE_NAME"] = lease
	for name, now := range map[string]string{
		"ADDON_OPERATOR_DEBUG_ADDRESS": "DEBUG_HTTP_SERVER_ADDR", "SHELL_OPERATOR_TMP_DIR": "ADDON_OPERATOR_TMP_DIR",
		"SHELL_OPERATOR_NAMESPACE": "ADDON_OPERATOR_NAMESPACE", "UNNUMBERED_MODULE_ORDER": "UNNUMBERED_MODULES_ORDER",
	} {
		all[name] = unserved{advice: "set " + now + " in its place"}
	}
	return all
}

// formerOptions are the variables of options that are constants now, and their values.
func formerOptions() map[string]string {
	return map[string]string{
		"ADDON_OPERATOR_HA_LEASE_NAME":        LeaseName,
		"ADDON_OPERATOR_HA_LEASE_DURATION":    "15s",
		"ADDON_OPERATOR_HA_RENEW_DEADLINE":    "10s",
		"OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT":  "10s",
		"ADDON_OPERATOR_HA_RETRY_PERIOD":      "2s",
		"ADDON_OPERATOR_ADVERTISE_ADDRESS":    "the listen address, or the first one of the machine",
		"ADDON_OPERATOR_METRICS_TLS_CERT":     "that of files in /etc/addon-operator/tls",
		"ADDON_OPERATOR_METRICS_TLS_KEY":      "that of files in /etc/addon-operator/tls",
		"ADDON_OPERATOR_PROMETHEUS_OLD_NAMES": "true",
		"ADDON_OPERATOR_HOOK_ENV":             "*,!OTEL_EXPORTER_OTLP_*HEADERS",
		"ADDON_OPERATOR_HOOK_METRICS_SERIES":  "1000",
		"ADDON_OPERATOR_SNAPSHOT_LIMIT":       "128",
		"ADDON_OPERATOR_PURGE_SHARE":          "25",
		"ADDON_OPERATOR_HELM_EXTRA_LABELS":    "heritage=addon-operator",
		"ADDON_OPERATOR_PROGRESS_DEADLINE":    "10m",
		"ADDON_OPERATOR_DRIFT_PERIOD":         "5m",
		"OBJECT_PATCHER_KUBE_CLIENT_QPS":      "that of KUBE_CLIENT_QPS",
		"OBJECT_PATCHER_KUBE_CLIENT_BURST":    "that of KUBE_CLIENT_BURST",
	}
}

// ofOthers are the variables of other operators.
func ofOthers() map[string]unserved {
	off := func(value string) bool { return isBoolean(value, false) }
	helm2 := unserved{advice: "it belongs to Helm 2, which is not supported; remove it", refused: true} // B7
	watched := unserved{advice: "it is not needed: watches report deleted objects; remove it"}
	return map[string]unserved{
		"TILLER_NAMESPACE": helm2, "TILLER_LISTEN_PORT": helm2, "TILLER_PROBE_LISTEN_PORT": helm2, "TILLER_MAX_HISTORY": helm2, "HELM2": helm2,
		"HELM_MONITOR_KUBE_CLIENT_QPS": watched, "HELM_MONITOR_KUBE_CLIENT_BURST": watched,
		"ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS": {
			advice:  "only the complete list of Static, DynamicallyEnabled, KubeConfig and ScriptEnabled is supported; without the variable, other modules would be enabled than with this list; remove it if that is what you want",
			refused: true, same: everyExtender,
		},
		"STRICT_CHECK_VALUES_MODE_ENABLED": {
			advice: "modules need no values.yaml next to them here, so nothing fails when it is missing; values are always checked against their schemas; remove it", same: off,
		},
		"ADDON_OPERATOR_STRICT_CHECK_VALUES_MODE_ENABLED": {
			advice: "modules need no values.yaml next to them here, so nothing fails when it is missing; values are always checked against their schemas; remove it", same: off,
		},
		"USE_NELM": {advice: "the Helm library is the only engine; remove it", same: off},
		"ADDON_OPERATOR_ADMISSION_SERVER_ENABLED": {
			advice: "webhooks are not served (docs/rules.md, chapter O); remove it", same: off,
		},
		"DEBUG_KUBERNETES_API": {advice: "set LOG_LEVEL=debug to log requests to the API server; remove it", same: off},
		"QUEUE_ACTIONS_METRICS": {
			advice: "the metrics of queues are always served; drop them in Prometheus if they are too many; remove it",
			same:   func(value string) bool { return isBoolean(value, true) },
		},
	}
}

// isBoolean reports whether a value is a boolean and has the wanted value, in any spelling of an
// option.
func isBoolean(value string, want bool) bool {
	var b boolean
	return b.Set(value) == nil && bool(b) == want
}

// everyExtender reports whether a list names exactly the rules that are always applied, in any
// order.
func everyExtender(value string) bool {
	names := map[string]bool{}
	for name := range strings.SplitSeq(value, ",") {
		names[strings.TrimSpace(name)] = true
	}
	return maps.Equal(names, map[string]bool{"Static": true, "DynamicallyEnabled": true, "KubeConfig": true, "ScriptEnabled": true})
}

// refuseVariables returns an error for every variable with which the operator must not start: it
// would run other modules, or use another Helm, than the person has asked for.
func refuseVariables(lookup func(string) (string, bool)) error {
	var errs []error
	known := unservedVariables()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if value, _ := lookup(name); known[name].asksFor(value) && known[name].refused {
			errs = append(errs, fmt.Errorf("environment variable %s: %s", name, known[name].advice))
		}
	}
	return errors.Join(errs...)
}

// asksFor reports whether a value asks for something that does not happen.
func (u unserved) asksFor(value string) bool {
	return value != "" && (u.same == nil || !u.same(value))
}

// WarnOfVariables logs every variable that looks like one of the operator's and that it does not
// read. The environment also has variables for hooks and other programs, so a name without the
// operator's prefix is reported only when it is unserved, or nearly one of its options. Values are
// not logged: a variable for hooks may hold a password.
func (c *Config) WarnOfVariables(log *slog.Logger, environ []string) {
	served := c.variables()
	known := unservedVariables()
	meant := slices.Concat(served, slices.Sorted(maps.Keys(known)))
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		switch u, unserved := known[name]; {
		case value == "" || slices.Contains(served, name):
		case unserved && u.asksFor(value):
			log.Warn("environment variable is not supported", "variable", name, "advice", u.advice)
		case unserved:
		case looksLikeOurs(name):
			hint := values.DidYouMean(name, meant, "it is not an option of the operator; hooks inherit it")
			log.Warn("environment variable is ignored", "variable", name, "hint", hint)
		case nearOption(name, served) != "":
			log.Warn("environment variable is ignored", "variable", name, "hint", "did you mean "+nearOption(name, served)+"?")
		}
	}
}

// looksLikeOurs reports whether a name has a prefix of the operator's variables. The variables that
// Kubernetes sets in every Pod for a Service called addon-operator-… have it, too, and are no
// mistake.
func looksLikeOurs(name string) bool {
	if !strings.HasPrefix(name, "ADDON_OPERATOR_") && !strings.HasPrefix(name, "SHELL_OPERATOR_") {
		return false
	}
	return !regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_.+)?$|_PORT$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`).MatchString(name)
}

// nearOption is the option that was probably meant by a name without the operator's prefix. Its
// first word must be right: KUBE_CONTXT means KUBE_CONTEXT, while a name of another program may be
// near by chance.
func nearOption(name string, served []string) string {
	near := values.Nearest(name, served)
	mine, _, _ := strings.Cut(name, "_")
	its, _, _ := strings.Cut(near, "_")
	if near == "" || mine != its {
		return ""
	}
	return near
}
