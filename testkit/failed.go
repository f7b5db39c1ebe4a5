package testkit

import (
	"fmt"
	"strconv"
	"strings"

	"addon-operator/actors/scenario"
	"addon-operator/hooks"
	"addon-operator/values"
)

// A run of a hook that fails, or whose result is refused, changes nothing. So that it would show if
// it did, each writes what nothing else has: a value, a config value, an object, and a flag in global hooks.

// markOfFailed is the key of the values that failed runs write, and failedObject the object.
const (
	markOfFailed = "ofFailedRun"
	failedObject = "of-failed-run"
)

// wrongRuns are runs that ask for an operation that cannot be right.
type wrongRuns struct {
	n         int
	operation string
}

// wrongOperations are, by word, object patches that are refused before the result is committed.
func wrongOperations() map[string]string {
	return map[string]string{
		"delete":    `{"operation": "Delete", "kind": "Secrett", "namespace": "default", "name": "x"}`,
		"kind":      `{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "Secrett", "metadata": {"namespace": "default", "name": "x"}}}`,
		"namespace": `{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}}`,
	}
}

// marked adds to a result what must never be visible.
func marked(run hooks.Run, result hooks.Result, operations ...string) hooks.Result {
	key, flag := values.GlobalKey, ""
	all, _ := run.Values.(map[string]any)
	for section := range all {
		if section != values.GlobalKey {
			key = section
		}
	}
	if key == values.GlobalKey {
		flag = `, {"op": "add", "path": "/eEnabled", "value": true}`
	}
	mark := `{"op": "add", "path": "/` + key + `/` + markOfFailed + `", "value": 1}`
	// These are patches; there is no error.
	changes, _, _ := values.ParsePatch([]byte("[" + mark + flag + "]"))
	config, _, _ := values.ParsePatch([]byte("[" + mark + "]"))
	result.ValuesPatch = append(result.ValuesPatch[:len(result.ValuesPatch):len(result.ValuesPatch)], changes...)
	result.ConfigPatch = append(result.ConfigPatch[:len(result.ConfigPatch):len(result.ConfigPatch)], config...)
	object := `{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "` + scenario.Namespace + `", "name": "` + failedObject + `"}, "data": {"x": "y"}}}`
	result.ObjectPatches = append(result.ObjectPatches[:len(result.ObjectPatches):len(result.ObjectPatches)], strings.Join(append([]string{object}, operations...), "\n")...)
	return result
}

// spoil adds a wrong operation to the result, if that was asked for.
func (h *Hooks) spoil(run hooks.Run, result hooks.Result) hooks.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	wrong := h.wrong[run.Hook.Name]
	if wrong.n == 0 {
		return result
	}
	wrong.n--
	h.wrong[run.Hook.Name] = wrong
	return marked(run, result, wrongOperations()[wrong.operation])
}

// seen checks what a run is shown: nothing of a failed run.
func (w *witness) seen(run hooks.Run) {
	for _, given := range []any{run.Values, run.ConfigValues} {
		all, _ := given.(map[string]any)
		for key, section := range all {
			if fields, _ := section.(map[string]any); fields[markOfFailed] != nil {
				w.problem("hook %s is shown what a failed run of a hook has written to %s", run.Hook.Name, key)
			}
		}
	}
	w.lacking(run)
}

// problem notes what must not be in any script.
func (w *witness) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// stepRefuse: refuse HOOK N OPERATION.
func stepRefuse(p *player, rest string) error {
	words := strings.Fields(rest)
	const parts = 3
	if len(words) != parts || wrongOperations()[words[2]] == "" {
		return fmt.Errorf("%q is not HOOK N OPERATION, with one of delete, kind and namespace", rest)
	}
	n, err := strconv.Atoi(words[1])
	p.hooks.mu.Lock()
	defer p.hooks.mu.Unlock()
	p.hooks.wrong[words[0]] = wrongRuns{n, words[2]}
	return err
}
