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

// hooks asks each hook of a directory for its configuration, and looks at what it says.
func (c *checks) hooks(ctx context.Context, dir, prefix, workingDir string, scope hooks.Scope) {
	if dir == "" {
		return
	}
	files, _, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return // loading says so
	}
	for _, file := range files {
		if !c.starts(file.Path) {
			continue
		}
		limited, cancel := context.WithTimeoutCause(ctx, c.HookLimit, fmt.Errorf("it did not answer --config within %s", c.HookLimit))
		found, err := c.runner.Configure(limited, file, workingDir, scope)
		cancel()
		c.misconfigured(file.Path, err)
		for _, hook := range found {
			c.bindings(hook)
		}
	}
}

// starts looks at the first line of a script.
func (c *checks) starts(path string) bool {
	err := hooks.CheckInterpreter(c.Chroot, path)
	if err != nil {
		c.passing = true // it may be installed
		at, text, _ := numbered(err.Error())
		c.found.add(Error, path, c.found.src.of(path).start(at.line), text)
	}
	return err == nil
}

// misconfigured places what is wrong with what a hook printed where the script has it.
func (c *checks) misconfigured(path string, err error) {
	var printed *hooks.PrintedError
	var config *hooks.ConfigError
	c.passing = c.passing || err != nil && !errors.As(err, &printed)
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		_, why, _ := strings.Cut(err.Error(), "context deadline exceeded: ")
		c.found.add(Error, path, place{}, strings.TrimSpace(why)+"; answer it before everything else, and exit")
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
		c.found.add(Error, path, c.found.back(path, newSource(printed.Printed), at), text+"; correct the indent, or what else is wrong in or above this line")
	}
}

// badLine corrects the parser of YAML, which may name the line before or behind the one that is wrong: it is the last one with
// which the text can no longer be read.
func badLine(text []byte, named int) int {
	lines := strings.SplitAfter(string(text), "\n")
	for n := max(named-1, 1); n <= min(named+1, len(lines)); n++ {
		if _, err := values.ParseYAML([]byte(strings.Join(lines[:n], ""))); err != nil {
			return n
		}
	}
	return min(named, len(lines))
}

// bindings looks at what a hook binds to.
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

// enabled runs the enabled script of a module with the values on disk.
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
		c.found.add(Warning, m.EnabledScript, place{}, fmt.Sprintf("it fails with the values on disk, without a cluster: %s; let it answer false when something is missing", strings.TrimPrefix(err.Error(), "hook "+m.Name+"/enabled: ")))
	case errors.As(err, &slow):
		c.found.add(Error, m.EnabledScript, place{}, fmt.Sprintf("it did not answer within %s; let it write true or false, and exit", slow.Limit))
	default:
		at, _ := c.found.src.of(m.EnabledScript).find("MODULE_ENABLED_RESULT")
		c.found.add(Error, m.EnabledScript, at, "it "+strings.TrimPrefix(err.Error(), "hook "+m.Name+"/enabled: "))
	}
}

func (c *checks) names() (all []string) {
	for _, m := range c.tree.Modules {
		all = append(all, m.Name)
	}
	return all
}

// hasHooks reports whether scripts may change or read the values of a module.
func hasHooks(dir, base string, scope hooks.Scope) bool {
	found, _, err := hooks.Find(dir, filepath.Join(base, "hooks"), scope)
	return err == nil && len(found) > 0
}
