package lint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"addon-operator/actors/decide"
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
			c.bindings(hook)
		}
	}
}

// starts checks the first line of a script. It returns false when the script cannot start, which is
// reported: the error of the kernel would only be that there is no such file.
func (c *checks) starts(path string) bool {
	err := hooks.CheckInterpreter(c.Chroot, path)
	if err != nil {
		c.passing = true // it may be installed
		at, text, _ := numbered(err.Error())
		c.found.add(Error, path, c.found.src.of(path).start(at.line), text)
	}
	return err == nil
}

// misconfigured reports why a hook has no valid configuration. The configuration exists only as
// output of the script, with places in the output; back translates them into places in the script.
// Anything but wrong output may have a cause outside of the files, so it is checked again next
// time.
func (c *checks) misconfigured(path string, err error) {
	var printed *hooks.PrintedError
	var config *hooks.ConfigError
	c.passing = c.passing || err != nil && !errors.As(err, &printed)
	switch {
	case err == nil:
	// The cause that the context carries follows its text.
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		_, why, _ := strings.Cut(err.Error(), "context deadline exceeded: ")
		c.found.add(Error, path, place{}, strings.TrimSpace(why)+"; handle --config first, and exit")
	case !errors.As(err, &printed):
		c.found.add(Error, path, place{}, err.Error())
	case errors.As(err, &config):
		output := newSource(printed.Printed)
		for _, v := range config.Violations {
			at := place{}
			if steps, err := values.ParsePath(v.Path); err == nil {
				at, _ = output.at(steps, strings.HasPrefix(v.Problem, "is unknown"))
			}
			c.found.add(Error, path, c.found.back(path, output, at), v.String())
		}
	default:
		text, at := printed.Err.Error(), place{}
		if m := regexp.MustCompile(`line (\d+): (.*)`).FindStringSubmatch(text); m != nil {
			at, _, _ = numbered(m[0])
			text = "it printed neither JSON nor YAML for --config: " + m[2]
			at.line = badLine(printed.Printed, at.line)
		}
		c.found.add(Error, path, c.found.back(path, newSource(printed.Printed), at), text+"; correct the indentation, or another mistake in or above this line")
	}
}

// badLine corrects the line that the YAML parser names, which may be off by one in either
// direction. The right one is the first with which the text can no longer be parsed, if that is
// next to the named one.
func badLine(text []byte, named int) int {
	lines := strings.SplitAfter(string(text), "\n")
	for n := max(named-1, 1); n <= min(named+1, len(lines)); n++ {
		if _, err := values.ParseYAML([]byte(strings.Join(lines[:n], ""))); err != nil {
			return n
		}
	}
	return min(named, len(lines))
}

// bindings reports warnings about the configuration of a hook, and kinds that do not exist. The
// severity of a kind is that of kinds.unknown: a hook may wait for one (C16).
func (c *checks) bindings(hook hooks.Hook) {
	src := c.found.src.of(hook.Path)
	for _, warning := range hook.Config.Warnings {
		c.found.add(Warning, hook.Path, place{}, warning)
	}
	for _, b := range hook.Config.Kubernetes {
		problem, severity := c.kinds.unknown(b.APIVersion, b.Kind)
		if problem == "" {
			continue
		}
		c.found.add(severity, hook.Path, src.binding(b.Name, b.Kind), fmt.Sprintf("binding %s: %s", b.Name, problem))
	}
}

// enabled runs the enabled script of a module with the values on disk, and with all modules of the
// tree as the enabled ones. A script that fails is only a warning: it may need what hooks find out,
// or a cluster. A script that answers neither true nor false is an error (E6).
func (c *checks) enabled(ctx context.Context, m addons.Module, own *values.Section) {
	if m.EnabledScript == "" || !c.starts(m.EnabledScript) {
		return
	}
	script := decide.Script(m, c.global, own, c.names())
	_, err := c.runner.Enabled(ctx, script)
	var failed *hooks.ExitError
	var slow *hooks.TimeoutError
	c.passing = c.passing || err != nil && !errors.As(err, &failed)
	switch {
	case err == nil:
	case errors.As(err, &failed):
		// It may look for what hooks find out, or into the cluster.
		c.found.add(Warning, m.EnabledScript, place{}, fmt.Sprintf("it fails with the values on disk, without a cluster: %s; make it write false when something is missing", strings.TrimPrefix(err.Error(), "hook "+m.Name+"/enabled: ")))
	case errors.As(err, &slow):
		c.found.add(Error, m.EnabledScript, place{}, fmt.Sprintf("it did not answer within %s; it must write true or false, and exit", slow.Limit))
	default:
		at, _ := c.found.src.of(m.EnabledScript).find("MODULE_ENABLED_RESULT")
		c.found.add(Error, m.EnabledScript, at, "it "+strings.TrimPrefix(err.Error(), "hook "+m.Name+"/enabled: "))
	}
}

// names are the modules that could be loaded, in their order.
func (c *checks) names() (all []string) {
	for _, m := range c.tree.Modules {
		all = append(all, m.Name)
	}
	return all
}

// hasHooks reports whether a directory has hooks, whose results may add values. base is the name of
// the directory of the module, "" for global hooks.
func hasHooks(dir, base string, scope hooks.Scope) bool {
	found, _, err := hooks.Find(dir, filepath.Join(base, "hooks"), scope)
	return err == nil && len(found) > 0
}
