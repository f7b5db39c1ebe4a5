package testkit

import (
	"addon-operator/actors/scenario"
	"addon-operator/hooks"
	"addon-operator/values"
)

// markOfFailed is the key of the values that failed runs write, and failedObject the object. A run
// of a hook that fails must change nothing. So that it would show if
// it did, each writes what nothing else writes: a value, a config value, an object, and a flag in
// global hooks. The observer looks for these.
const (
	markOfFailed = "ofFailedRun"
	failedObject = "of-failed-run"
)

// marked is a result with what must never be visible.
func marked(run hooks.Run) (result hooks.Result) {
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
	result.ValuesPatch, _, _ = values.ParsePatch([]byte("[" + mark + flag + "]"))
	result.ConfigPatch, _, _ = values.ParsePatch([]byte("[" + mark + "]"))
	result.ObjectPatches = []byte(`{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "` + scenario.Namespace + `", "name": "` + failedObject + `"}, "data": {"x": "y"}}}`)
	return result
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
}
