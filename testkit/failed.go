package testkit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"addon-operator/actors/scenario"
	"addon-operator/hooks"
	"addon-operator/values"
)

// markOfFailed is the key of the values that failed runs write, and failedObject the object. A run
// of a hook that fails, or whose result is refused, must change nothing. So that it would show if
// it did, each writes what nothing else writes: a value, a config value, an object, and a flag in
// global hooks. The observer and the models look for these.
const (
	markOfFailed = "ofFailedRun"
	failedObject = "of-failed-run"
)

// wrongRuns are the next runs of a hook that write an operation that cannot be right.
type wrongRuns struct {
	n         int    // how many are left
	operation string // a key of wrongOperations
}

// wrongOperations are, by word, object patches that are refused before the result is committed.
func wrongOperations() map[string]string {
	return map[string]string{
		"delete":    `{"operation": "Delete", "kind": "Secrett", "namespace": "default", "name": "x"}`,
		"kind":      `{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "Secrett", "metadata": {"namespace": "default", "name": "x"}}}`,
		"namespace": `{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}}`,
	}
}

// marked adds to a result what must never be visible, and operations. It leaves the lists of the
// result alone, which a script shares with its later runs.
func marked(run hooks.Run, result hooks.Result, operations ...string) hooks.Result {
	key, flag := values.GlobalKey, "" // the section of the hook's owner: the one that is not global
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
	result.ValuesPatch = slices.Concat(result.ValuesPatch, changes)
	result.ConfigPatch = slices.Concat(result.ConfigPatch, config)
	object := `{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "` + scenario.Namespace + `", "name": "` + failedObject + `"}, "data": {"x": "y"}}}`
	result.ObjectPatches = append(slices.Clip(result.ObjectPatches), strings.Join(append([]string{object}, operations...), "\n")...)
	return result
}

// spoil adds a wrong operation to the result, if the step refuse wants it. The result is marked,
// because the operator must refuse it as a whole.
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
func (o *observer) seen(run hooks.Run) {
	for _, given := range []any{run.Values, run.ConfigValues} {
		all, _ := given.(map[string]any)
		for key, section := range all {
			if fields, _ := section.(map[string]any); fields[markOfFailed] != nil {
				o.problem("hook %s receives what a failed run of a hook has written to %s", run.Hook.Name, key)
			}
		}
	}
	o.lacking(run)
}

// problem notes what must not be in any script.
func (o *observer) problem(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
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
