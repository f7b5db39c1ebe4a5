package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/hooks"
)

// scripted marks a hook that is no program but says in YAML what it does:
//
//	#!testkit
//	config: {configVersion: v1, beforeHelm: 1, afterHelm: 2}
//	runs:
//	  beforeHelm:                 # a binding, by its name in the context
//	    values: [{op: add, path: /dns/zone, value: cluster.local}]
//	    config: []                # the patch for the ConfigMap
//	    times: 1                  # only at its first run; always when it is absent
//	    count: /dns/pods          # write how many objects the snapshots show, too
//	enabled: "true"               # for enabled scripts
//	enabledBy: b.wanted             # or the value of this path, as the script sees it; absent is true
//	reason: no nodes              # what they write to MODULE_ENABLED_REASON
const scripted = "#!testkit"

// script is the YAML of a scripted hook.
type script struct {
	Config  json.RawMessage        `json:"config"`
	Runs    map[string]scriptedRun `json:"runs"`
	Enabled string                 `json:"enabled"`
	// EnabledBy is a path of values that decides instead of Enabled.
	EnabledBy string `json:"enabledBy"`
	Reason    string `json:"reason"`
}

// scriptedRun is what a hook does for one binding. A path is a JSON pointer into the values; "" for
// none.
type scriptedRun struct {
	Values []json.RawMessage `json:"values"`
	Config []json.RawMessage `json:"config"`
	// Objects are what the hook writes to KUBERNETES_PATCH_PATH.
	Objects []json.RawMessage `json:"objects"`
	Times   int               `json:"times"` // in how many of its first runs; 0: in all
	// Count is a path: the number of objects in all snapshots is written there.
	Count string `json:"count"`
}

// seen is the operation on values that depends on the snapshots in the context of the run.
func (s scriptedRun) seen(c hooks.Context) json.RawMessage {
	if s.Count == "" {
		return nil
	}
	n := 0
	for _, objects := range c.Snapshots {
		n += len(objects)
	}
	return fmt.Appendf(nil, `{"op": "add", "path": %q, "value": %d}`, s.Count, n)
}

// readScript returns nil for a file that is no scripted hook.
func readScript(path string) (*script, error) {
	data, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(data, []byte(scripted)) {
		return nil, err
	}
	var s script
	if err := readYAML(data[len(scripted):], &s); err != nil {
		return nil, fmt.Errorf("scripted hook %s: %w", path, err)
	}
	if s.Config == nil && s.Enabled == "" && s.EnabledBy == "" {
		return nil, errors.New("scripted hook " + path + ": it has neither config nor enabled")
	}
	return &s, nil
}

// enabled is the answer of an enabled script that sees these values. With enabledBy, only a false
// at the path disables the module; what is absent does not.
func (s *script) enabled(seen any) bool {
	if s.EnabledBy == "" {
		return s.Enabled == "true"
	}
	values, _ := seen.(map[string]any)
	wanted, there, _ := unstructured.NestedBool(values, strings.Split(s.EnabledBy, ".")...)
	return wanted || !there
}
