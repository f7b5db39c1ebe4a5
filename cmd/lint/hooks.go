package lint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/values"
)

// hooks runs each hook of a directory with --config, as the operator does when it loads them (C1),
// and checks its configuration. prefix and workingDir are those of hooks.Find and of the runner.
func (c *checks) hooks(ctx context.Context, dir, prefix, workingDir string, scope hooks.Scope) {
	files, _, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return // loading reports it
	}
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
