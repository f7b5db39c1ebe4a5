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
// serve: what to do now.
type unserved struct {
	advice  string // without the name of the variable
	same    string // values that ask for what happens anyway, separated by blanks
	refused bool   // the start is refused: without the variable other things would happen
}

// unservedVariables by name. An empty value counts as absent, as for the operator's own variables.
func unservedVariables() map[string]unserved {
	const on, off, extenders = "true yes on 1", "false no off 0", "Static,DynamicallyEnabled,KubeConfig,ScriptEnabled"
	helm2 := unserved{"it belongs to Helm 2, which is not supported; remove it", "", true} // B7
	watched := unserved{"it is not needed: watches report deleted objects; remove it", "", false}
	strict := unserved{"modules need no values.yaml next to them here, so nothing fails when it is missing; values are always " +
		"checked against their schemas; remove it", off, false}
	all := map[string]unserved{
		"TILLER_NAMESPACE": helm2, "TILLER_LISTEN_PORT": helm2, "TILLER_PROBE_LISTEN_PORT": helm2,
		"TILLER_MAX_HISTORY": helm2, "HELM2": helm2,
		"HELM_MONITOR_KUBE_CLIENT_QPS": watched, "HELM_MONITOR_KUBE_CLIENT_BURST": watched,
		"STRICT_CHECK_VALUES_MODE_ENABLED": strict, "ADDON_OPERATOR_STRICT_CHECK_VALUES_MODE_ENABLED": strict,
		"ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS": {"only the complete list, " + extenders + ", is supported; without the " +
			"variable, other modules would be enabled than with this list; remove it if that is what you want", extenders, true},
		"USE_NELM":             {"the Helm library is the only engine; remove it", off, false},
		"DEBUG_KUBERNETES_API": {"set LOG_LEVEL=debug to log requests to the API server; remove it", off, false},
		"QUEUE_ACTIONS_METRICS": {"the metrics of queues are always served; drop them in Prometheus if they are too many; " +
			"remove it", on, false},
		"ADDON_OPERATOR_ADMISSION_SERVER_ENABLED": {"it is for programs that use the operator as a library, which do not exist here; remove it", off, false},
	}
	// Another Lease is no lock: while the operator that holds it runs, both would write. The two others are
	// restrictions.
	refused := []string{"ADDON_OPERATOR_HA_LEASE_NAME", "ADDON_OPERATOR_HOOK_ENV", "ADDON_OPERATOR_PURGE_SHARE"}
	for line := range strings.Lines(strings.TrimSpace(formerOptions)) {
		name, now, _ := strings.Cut(strings.TrimSpace(line), " ")
		advice := "it is no longer an option, its value is always " + now + "; remove it"
		if name == refused[0] {
			advice += " when no operator is running that has another one"
		}
		all[name] = unserved{advice, now, slices.Contains(refused, name)}
	}
	for line := range strings.Lines(strings.TrimSpace(otherNames)) {
		name, now, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = unserved{advice: "set " + now + " in its place"}
	}
	return all
}

// formerOptions are the variables of options that are constants now, and their values.
const formerOptions = `
ADDON_OPERATOR_HA_LEASE_NAME ` + LeaseName + `
ADDON_OPERATOR_HA_LEASE_DURATION 15s
ADDON_OPERATOR_HA_RENEW_DEADLINE 10s
ADDON_OPERATOR_HA_RETRY_PERIOD 2s
ADDON_OPERATOR_ADVERTISE_ADDRESS the listen address, or that of the interface with the default route
ADDON_OPERATOR_METRICS_TLS_CERT that of files in /etc/addon-operator/tls
ADDON_OPERATOR_METRICS_TLS_KEY that of files in /etc/addon-operator/tls
ADDON_OPERATOR_PROMETHEUS_OLD_NAMES true
ADDON_OPERATOR_HOOK_ENV *,!OTEL_EXPORTER_OTLP_*HEADERS
ADDON_OPERATOR_HOOK_METRICS_SERIES 1000
ADDON_OPERATOR_SNAPSHOT_LIMIT 128
ADDON_OPERATOR_PURGE_SHARE 25
ADDON_OPERATOR_HELM_EXTRA_LABELS heritage=addon-operator
ADDON_OPERATOR_PROGRESS_DEADLINE 10m
ADDON_OPERATOR_DRIFT_PERIOD 5m
OBJECT_PATCHER_KUBE_CLIENT_QPS that of KUBE_CLIENT_QPS
OBJECT_PATCHER_KUBE_CLIENT_BURST that of KUBE_CLIENT_BURST
OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT 10s
`

// otherNames are variables of which another name is read.
const otherNames = `
ADDON_OPERATOR_DEBUG_ADDRESS DEBUG_HTTP_SERVER_ADDR
SHELL_OPERATOR_TMP_DIR ADDON_OPERATOR_TMP_DIR
SHELL_OPERATOR_NAMESPACE ADDON_OPERATOR_NAMESPACE
UNNUMBERED_MODULE_ORDER UNNUMBERED_MODULES_ORDER
`

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
	is := func(same string) bool { return strings.EqualFold(same, value) }
	return value != "" && !slices.ContainsFunc(strings.Fields(u.same), is)
}

// WarnOfVariables logs every variable that looks like one of the operator's and that it does not
// read. The environment also has variables for hooks and other programs, so a name without the
// operator's prefix is reported only when it is unserved. Values are
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
		}
	}
}

// looksLikeOurs reports whether a name has a prefix of the operator's variables. The variables that
// Kubernetes sets in every Pod for a Service called addon-operator-… have it, too, and are no
// mistake.
func looksLikeOurs(name string) bool {
	const service = `_SERVICE_HOST$|_SERVICE_PORT(_.+)?$|_PORT$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`
	ours := strings.HasPrefix(name, "ADDON_OPERATOR_") || strings.HasPrefix(name, "SHELL_OPERATOR_")
	return ours && !regexp.MustCompile(service).MatchString(name) // few names come so far
}
