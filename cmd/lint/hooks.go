package lint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/actors/plan"
	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// hooks runs each hook of a directory with --config, as the operator does when it loads them (C1),
// and checks its configuration. prefix and workingDir are those of hooks.Find and of the runner.
func (c *checks) hooks(ctx context.Context, dir, prefix, workingDir string, scope hooks.Scope) {
	files, _, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return // loading reports it
	}
	var all []hooks.Hook
	for _, file := range files {
		if !c.starts(file.Path) {
			continue
		}
		limited, cancel := context.WithTimeoutCause(ctx, c.HookLimit, fmt.Errorf("it did not answer --config within %s", c.HookLimit))
		found, err := c.runner.Configure(limited, file, workingDir, scope)
		cancel()
		// A batch returns those of its hooks that are right together with the error about the
		// others.
		c.misconfigured(file.Path, err)
		for _, hook := range found {
			c.bindings(ctx, hook)
		}
		all = append(all, found...)
	}
	if err := hooks.CheckWebhookNames(all); err != nil {
		c.found.add(Error, dir, place{}, err.Error())
	}
}

// starts checks the first line of a script. It returns false when the script cannot start, which is
// reported: the error of the kernel would only be that there is no such file.
func (c *checks) starts(path string) bool {
	err := hooks.CheckInterpreter(c.Chroot, path)
	if err != nil {
		at, text := c.found.locate(path, err.Error())
		c.found.add(Error, path, at, text)
	}
	return err == nil
}

// misconfigured reports why a hook has no valid configuration. The configuration exists only as
// output of the script, with places in the output, which are translated into places in the script.
func (c *checks) misconfigured(path string, err error) {
	var printed *hooks.PrintedError
	var config *hooks.ConfigError
	switch {
	case err == nil:
	// The cause that the context carries follows its text.
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		_, why, _ := strings.Cut(err.Error(), "context deadline exceeded: ")
		c.found.add(Error, path, place{}, strings.TrimSpace(why)+"; handle --config first, and exit")
	case !errors.As(err, &printed):
		c.found.add(Error, path, place{}, err.Error())
	case errors.As(err, &config):
		output := parsed(printed.Printed)
		for _, v := range config.Violations {
			c.found.add(Error, path, c.found.yamlOf(path).origin(output, output.at(v.Path)), v.String())
		}
	default:
		text, at := printed.Err.Error(), place{}
		if m := regexp.MustCompile(`line (\d+): (.*)`).FindStringSubmatch(text); m != nil {
			at = c.found.yamlOf(path).origin(parsed(printed.Printed), numbered(m[1], ""))
			text = "it printed neither JSON nor YAML for --config: " + m[2]
		}
		c.found.add(Error, path, at, text+"; correct the indentation, or another mistake in or above this line")
	}
}

// bindings reports warnings about the configuration of a hook, and kinds that do not exist. The
// severity of a kind is that of kinds.unknown: a hook may wait for one (C16).
func (c *checks) bindings(ctx context.Context, hook hooks.Hook) {
	for _, warning := range hook.Config.Warnings {
		c.found.add(Warning, hook.Path, place{}, warning)
	}
	for _, r := range hook.Config.Reviews {
		for _, rule := range r.Webhook.Rules {
			all := func(words []string) bool { return slices.Contains(words, "*") || slices.Contains(words, "*/*") }
			if r.Webhook.NamespaceSelector == nil && r.Webhook.ObjectSelector == nil && all(rule.APIGroups) && all(rule.Resources) {
				c.found.add(Warning, hook.Path, c.found.yamlOf(hook.Path).find(r.Name, 0), fmt.Sprintf("webhook %s: a rule matches all objects of the cluster, and while the operator is away their writes fail, unless failurePolicy is Ignore; name groups and resources, or select namespaces or labels", r.Name))
			}
		}
	}
	for _, b := range hook.Config.Kubernetes {
		if problem, severity := c.kinds.unknown(ctx, b.APIVersion, b.Kind); problem != "" {
			script := c.found.yamlOf(hook.Path)
			at := script.find(b.Kind, script.find("name: "+b.Name, 0).line) // one kind may be in several bindings
			c.found.add(severity, hook.Path, at, fmt.Sprintf("binding %s: %s", b.Name, problem))
		}
	}
}

// enabled runs the enabled script of a module with the values on disk, and with all modules of the
// tree as the enabled ones. A script that fails is only a warning: it may need what hooks find out,
// or a cluster. A script that answers neither true nor false is an error (E6).
func (c *checks) enabled(ctx context.Context, m addons.Module, own *values.Section) {
	if m.EnabledScript == "" || !c.starts(m.EnabledScript) {
		return
	}
	var all []string
	for _, other := range c.tree.Modules {
		all = append(all, other.Name)
	}
	_, err := c.runner.Enabled(ctx, plan.Script(m, c.global, own, all))
	text := strings.TrimPrefix(fmt.Sprint(err), "hook "+m.Name+"/enabled: ")
	switch {
	case err == nil:
	case errors.As(err, new(*hooks.ExitError)): // it may look for what hooks find out, or into the cluster
		c.found.add(Warning, m.EnabledScript, place{}, "it fails with the values on disk, without a cluster: "+text+"; make it write false when something is missing")
	case errors.As(err, new(*hooks.TimeoutError)):
		c.found.add(Error, m.EnabledScript, place{}, fmt.Sprintf("it did not answer within %s; it must write true or false, and exit", c.HookLimit))
	default:
		c.found.add(Error, m.EnabledScript, c.found.yamlOf(m.EnabledScript).find("MODULE_ENABLED_RESULT", 0), "it "+text)
	}
}

// hasHooks reports whether a directory has hooks, whose results may add values. base is the name of
// the directory of the module, "" for global hooks.
func hasHooks(dir, base string, scope hooks.Scope) bool {
	found, _, err := hooks.Find(dir, filepath.Join(base, "hooks"), scope)
	return err == nil && len(found) > 0
}

// testFiles returns the scenarios of a module, or of the global hooks. Files that end with
// .golden.yaml are expected renders of scenarios.
func testFiles(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "tests", "*.yaml"))
	var files []string
	for _, file := range found {
		if !strings.HasSuffix(file, ".golden.yaml") {
			files = append(files, file)
		}
	}
	return files
}

// valuesOfTests returns for each test of a module the values that it gives and those that it
// expects hooks to find out: together they are what a complete chart would be rendered with. The
// files are read as plain YAML, so that a test with a mistake still helps.
func valuesOfTests(m addons.Module) (all []any) {
	for _, file := range testFiles(m.Dir) {
		data, err := os.ReadFile(file)
		tree, wrong := values.ParseYAML(data)
		if err != nil || wrong != nil {
			continue // the play reports it
		}
		at := func(tree any, path ...string) any {
			for _, key := range path {
				fields, _ := tree.(map[string]any)
				tree = fields[key]
			}
			return tree
		}
		merged := values.Merge(map[string]any{}, map[string]any{values.GlobalKey: at(tree, "given", "fromGlobalHooks")}, at(tree, "given", "values"))
		steps, _ := at(tree, "steps").([]any)
		// A test without steps has its expectations at the top.
		for _, step := range append(steps, tree) {
			if expected, isMap := at(step, "expect", "values").(map[string]any); isMap {
				merged = values.Merge(merged, expected)
			}
		}
		all = append(all, merged)
	}
	return all
}

// scenarios plays the tests of a module, or of the global hooks. Of a test that fails the first
// problem is a finding: those after it mostly follow from it.
func (c *checks) scenarios(ctx context.Context, dir string) {
	files := testFiles(dir)
	if !c.Tests || len(files) == 0 {
		return
	}
	list, err := scenario.Find(files...)
	if err != nil {
		c.found.add(Error, dir, place{}, err.Error())
		return
	}
	c.played += len(list)
	for _, r := range scenario.Play(ctx, list, scenario.Options{JQLibrary: c.JQLibrary, CRDSkip: c.CRDSkip, StepTimeout: c.StepTimeout}, nil) {
		if r.Passed() {
			continue
		}
		file := r.Scenario.Path()
		text := strings.TrimPrefix(r.Problems[0], file+":")
		part, _, _ := strings.Cut(text, ": ")
		at := c.found.yamlOf(file).at(part)
		// A file that is wrong itself: the message names a place as an editor reads it.
		if m := regexp.MustCompile(`^(\d+):(\d+): `).FindStringSubmatch(text); m != nil {
			at, text = numbered(m[1], m[2]), text[len(m[0]):]
		}
		if more := len(r.Problems) - 1; more > 0 {
			text += fmt.Sprintf(" (and %s, which 'addon-operator test' shows)", view.Count(more, "more problem"))
		}
		c.found.add(Error, file, at, text)
	}
}
