package hooks

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"addon-operator/values"
)

// A batch file is one executable with several hooks, as the module SDK of Deckhouse builds it. It
// does not support --config: "hook config" prints the configurations of all its hooks, "hook run N"
// runs the hook with that number, "hook ready" runs the readiness probe of the module, if there is one, and "hook check"
// says whether its settings are valid. This file translates each of them into an ordinary [Hook], whose File.Batch selects it;
// the rest of the package only knows the arguments of a run.
const (
	sdkModule  = "github.com/deckhouse/module-sdk"
	readiness  = "ready" // in place of a number
	settings   = "check" // the same
	batchGroup = "main"  // all snapshots of a hook belong together: the SDK reads none else
)

// isBatch reports whether a file is a batch. It only reads the file: an ordinary hook that is run
// with "hook config" would take that for a run and do its work.
func isBatch(path string) bool { return builtWithSDK(path) || scriptOfBatch(path) }

// builtWithSDK reports whether the module SDK is part of a program. For a file that is no Go
// program it reads only the first bytes.
func builtWithSDK(path string) bool {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return false
	}
	for _, module := range info.Deps {
		if module.Path == sdkModule {
			return true
		}
	}
	return info.Main.Path == sdkModule
}

// scriptOfBatch reports whether a script looks like a batch: it has no extension, it contains
// "hook" and "config", and it handles --config neither itself nor by a library of shell functions
// (hook::run).
func scriptOfBatch(path string) bool {
	if filepath.Ext(path) != "" {
		return false
	}
	const enough = 1 << 20
	text := readStart(path, enough)
	has := func(part string) bool { return bytes.Contains(text, []byte(part)) }
	return bytes.HasPrefix(text, []byte("#!")) && has("hook") && has("config") && !has("--config") && !has("hook::")
}

// batchConfig is the output of "hook config". Old versions of the SDK print the list alone.
type batchConfig struct {
	Version   string           `json:"version"`
	Hooks     []map[string]any `json:"hooks"`
	Readiness map[string]any   `json:"readiness"`
	Settings  bool             `json:"has_settings_check"`
}

// errNoBatch means that the output is not that of a batch file.
var errNoBatch = errors.New("it printed no list of hooks for \"hook config\"")

// configureBatch asks a batch for all its hooks. An error in one configuration does not hide the
// other hooks (C6): they are returned together with the error.
func (r *Runner) configureBatch(ctx context.Context, file File, workingDir string, scope Scope) ([]Hook, error) {
	printed, err := r.ask(ctx, file, workingDir, "hook", "config")
	if err != nil {
		return nil, err
	}
	batch, err := parseBatch(printed)
	if err != nil {
		return nil, &PrintedError{Hook: file.Name, Printed: printed, Err: err}
	}
	var found []Hook
	var errs []error
	add := func(id, name string, raw map[string]any) {
		hook := Hook{File: File{Name: file.Name + ":" + name, Path: file.Path, Batch: id}}
		data, err := json.Marshal(raw)
		if err == nil {
			hook.Config, err = parseConfig(scope, data, r.options.JQLibrary)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("hook %s: %w", hook.Name, err))
			return
		}
		found = append(found, hook)
	}
	for i, raw := range batch.Hooks {
		id := strconv.Itoa(i)
		add(id, hookName(raw, id), ordinary(raw))
	}
	if batch.Readiness != nil {
		add(readiness, readiness, probe(batch.Readiness, readiness+":"+file.Name))
	}
	if batch.Settings { // before all others: what is not valid must not have an effect
		before := map[Scope]BindingType{Global: BeforeAll, Module: BeforeHelm}[scope]
		add(settings, settings, map[string]any{"configVersion": V1, string(before): firstOfAll})
	}
	return found, errors.Join(errs...)
}

// parseBatch finds the list in the output: the SDK may print log records, JSON as well, before it.
func parseBatch(printed []byte) (batchConfig, error) {
	decoder := json.NewDecoder(bytes.NewReader(printed))
	for {
		var document json.RawMessage
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return batchConfig{}, errNoBatch
		case err != nil:
			return batchConfig{}, fmt.Errorf("%w: %w", errNoBatch, err)
		}
		var batch batchConfig
		if json.Unmarshal(document, &batch.Hooks) == nil && len(batch.Hooks) > 0 {
			return batch, nil
		}
		batch = batchConfig{}
		err := json.Unmarshal(document, &batch)
		switch {
		case batch.Version == "" || len(batch.Hooks) == 0 && batch.Readiness == nil && !batch.Settings:
			continue // a log record
		case err != nil:
			return batchConfig{}, err
		case batch.Version != V1:
			return batchConfig{}, fmt.Errorf("the list of hooks has version %q; only %q is supported", batch.Version, V1)
		}
		return batch, nil
	}
}

// hookName returns a name that is unique in its file, even if the one from the SDK is not.
func hookName(raw map[string]any, id string) string {
	about, _ := raw["metadata"].(map[string]any)
	if name, _ := about["name"].(string); name != "" {
		return name + ":" + id
	}
	return id
}

// ordinary translates the configuration of one hook of a batch into the form that --config prints.
// All bindings get one group, because such a hook always reads snapshots. The result shares maps
// with raw and changes them, so a configuration is translated once.
func ordinary(raw map[string]any) map[string]any {
	out := make(map[string]any, len(raw))
	maps.Copy(out, raw)
	allow, allowed := out["allowFailure"]
	for _, key := range []string{"metadata", "allowFailure", "logLevel"} {
		delete(out, key)
	}
	for _, key := range []string{string(OnSchedule), string(OnKubernetes)} {
		list, _ := out[key].([]any)
		for _, each := range list {
			binding, ok := each.(map[string]any)
			if !ok {
				continue // the check of the shape says so
			}
			binding["group"] = batchGroup
			if _, own := binding["allowFailure"]; allowed && !own {
				binding["allowFailure"] = allow
			}
			if on, ok := binding["executeHookOnEvent"].(bool); ok {
				delete(binding, "executeHookOnEvent")
				if !on {
					binding["executeHookOnEvent"] = []any{}
				}
			}
		}
	}
	if settings, ok := out["settings"].(map[string]any); ok {
		out["settings"] = ordinarySettings(settings)
	}
	return out
}

// ordinarySettings writes a time.Duration, in JSON a number of nanoseconds, as text. It drops the
// SDK's setting by which schedules do not wait for the first run of the module: it has no
// counterpart here.
func ordinarySettings(settings map[string]any) map[string]any {
	out := map[string]any{}
	if interval, ok := settings["executionMinInterval"].(float64); ok {
		out["executionMinInterval"] = time.Duration(interval).String()
	}
	if burst, ok := settings["executionBurst"]; ok {
		out["executionBurst"] = burst
	}
	return out
}

// probe translates the readiness hook: it runs by its schedule, in a queue of its own, and a failure is allowed, so
// that it does not hold up anything.
func probe(raw map[string]any, queue string) map[string]any {
	out := ordinary(raw)
	list, _ := out[string(OnSchedule)].([]any)
	for _, each := range list {
		if binding, ok := each.(map[string]any); ok {
			binding["queue"], binding["allowFailure"] = queue, true
		}
	}
	return out
}

// firstOfAll is the order of the settings check.
const firstOfAll = -1_000_000

const envSettings = "SETTINGS_PATH"

// ownSettings are the values of the ConfigMap of the module itself, or the global ones, as the settings check reads
// them.
func ownSettings(configValues any) any {
	sections, _ := configValues.(map[string]any)
	for key, section := range sections {
		if key != values.GlobalKey || len(sections) == 1 {
			return section
		}
	}
	return nil
}

// checked is the outcome of a settings check: it fails to say anything at all, and says it as JSON on stderr.
func checked(failed error) (warnings []string, err error) {
	exit, said := errors.AsType[*ExitError](failed)
	var result struct {
		Valid    bool
		Message  string
		Warnings []string
	}
	if !said || json.Unmarshal([]byte(exit.Stderr[strings.LastIndex(exit.Stderr, "\n")+1:]), &result) != nil {
		return nil, failed
	}
	if !result.Valid {
		return result.Warnings, fmt.Errorf("hook %s: the settings are not valid: %s", exit.Hook, result.Message)
	}
	return result.Warnings, nil
}

// arguments returns the arguments of a run; nil for an ordinary hook (C23).
func (f File) arguments() []string {
	switch f.Batch {
	case "":
		return nil
	case readiness, settings:
		return []string{"hook", f.Batch}
	}
	return []string{"hook", "run", f.Batch}
}
