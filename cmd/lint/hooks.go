package lint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
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
		at, text, _ := numbered(err.Error())
		c.add(Error, path, c.src.of(path).start(at.line), text)
	}
	return err == nil
}

// misconfigured places what is wrong with what a hook printed where the script has it.
func (c *checks) misconfigured(path string, err error) {
	var printed *hooks.PrintedError
	var config *hooks.ConfigError
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		_, why, _ := strings.Cut(err.Error(), "context deadline exceeded: ")
		c.add(Error, path, place{}, strings.TrimSpace(why)+"; answer it before everything else, and exit")
	case !errors.As(err, &printed):
		c.add(Error, path, place{}, err.Error())
	case errors.As(err, &config):
		output := newSource(printed.Printed)
		for _, v := range config.Violations {
			at := place{}
			if steps, err := values.ParsePath(v.Path); err == nil {
				at, _ = output.at(steps, strings.HasPrefix(v.Problem, "is unknown"))
			}
			c.add(Error, path, c.back(path, output, at), v.String())
		}
	default:
		text, at := printed.Err.Error(), place{}
		if m := regexp.MustCompile(`line (\d+): (.*)`).FindStringSubmatch(text); m != nil {
			at, _, _ = numbered(m[0])
			text = "it printed neither JSON nor YAML for --config: " + m[2]
			at.line = badLine(printed.Printed, at.line)
		}
		c.add(Error, path, c.back(path, newSource(printed.Printed), at), text+"; correct the indent, or what else is wrong in or above this line")
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

// back is the place in a script, or a template, of a place in what it printed.
func (c *checks) back(path string, output *source, at place) place {
	src := c.src.of(path)
	if at.line == 0 {
		return place{}
	}
	line, ok := src.origin(output, at.line)
	if !ok {
		return place{}
	}
	if at.column == 0 {
		return src.start(line)
	}
	printed := []rune(output.line(at.line))
	if here := src.line(line); same(here, string(printed)) {
		return place{line, at.column + src.start(line).column - output.start(at.line).column}
	}
	word := string(printed[min(at.column-1, len(printed)):])
	if first, _, found := strings.Cut(word, ":"); found {
		word = first
	}
	return src.word(line, word)
}

// bindings looks at what a hook binds to.
func (c *checks) bindings(hook hooks.Hook) {
	src := c.src.of(hook.Path)
	for _, warning := range hook.Config.Warnings {
		c.add(Warning, hook.Path, place{}, warning)
	}
	for _, b := range hook.Config.Kubernetes {
		problem, severity := c.unknownKind(b.APIVersion, b.Kind)
		if problem == "" {
			continue
		}
		c.add(severity, hook.Path, src.binding(b.Name, b.Kind), fmt.Sprintf("binding %s: %s", b.Name, problem))
	}
}

// unknownKind says what is wrong with a kind that neither Kubernetes nor a definition of the tree has.
func (c *checks) unknownKind(apiVersion, kind string) (problem, severity string) {
	verdict := c.kinds.Find(apiVersion, kind)
	brought := c.brought[strings.ToLower(kind)]
	name := strings.TrimSpace(apiVersion + " " + kind)
	meant := values.Nearest(kind, c.kindNames())
	switch {
	case verdict.Served || apiVersion == "" && len(brought) > 0 || slices.Contains(brought, apiVersion):
		return "", ""
	case len(verdict.Instead) > 0 && (c.kinds.Owns(apiVersion) || verdict.Reason != ""):
		return c.served(name, verdict.Reason, verdict.Instead), Error
	case len(brought) > 0 && c.ofGroup(apiVersion, brought):
		return fmt.Sprintf("the definition in this tree has no %s; it is served as %s", name, strings.Join(brought, ", ")), Error
	case verdict.Reason == "" && c.isWord(apiVersion, kind):
		return "", "" // a plural, a short name, or the kind in another case
	case meant != "" && c.ofTree(apiVersion):
		return fmt.Sprintf("no definition in this tree has %s; did you mean %s?", name, meant), Error
	case c.kinds.Owns(apiVersion):
		return c.unknownHere(apiVersion, name, meant)
	}
	return c.unknownThere(name)
}

// unknownHere is about a kind of a group of Kubernetes itself, or of none.
func (c *checks) unknownHere(apiVersion, name, meant string) (problem, severity string) {
	switch {
	case meant != "":
		return fmt.Sprintf("Kubernetes %s has no %s; did you mean %s?", c.Release, name, meant), Error
	case apiVersion == "":
		return c.unknownThere(name)
	}
	return fmt.Sprintf("Kubernetes %s has no %s; correct the kind or the apiVersion", c.Release, name), Error
}

// unknownThere is about a kind that others may bring.
func (c *checks) unknownThere(name string) (problem, severity string) {
	return fmt.Sprintf("neither Kubernetes %s nor a definition in this tree has %s, so the hook sees nothing until something else brings it; put the definition into crds/ of a module, or correct the name", c.Release, name), Warning
}

// isWord reports whether hooks may name a kind so.
func (c *checks) isWord(apiVersion, word string) bool {
	client, err := kube.Connect(kube.Options{Config: c.server.RESTConfig(), QPS: -1})
	if err != nil {
		return false
	}
	_, _, err = client.FindKind(context.Background(), apiVersion, word)
	return err == nil
}

func (c *checks) served(name, reason string, instead []string) string {
	if reason != "" {
		return fmt.Sprintf("%s %s; it is served as %s", name, reason, strings.Join(instead, ", "))
	}
	return fmt.Sprintf("Kubernetes %s has no %s; it is served as %s", c.Release, name, strings.Join(instead, ", "))
}

func (c *checks) kindNames() []string {
	names := c.kinds.Names()
	for _, crd := range c.crds {
		names = append(names, kindOf(crd))
	}
	return names
}

// ofTree reports whether a module brings kinds of the group of an apiVersion.
func (c *checks) ofTree(apiVersion string) bool {
	for _, versions := range c.brought {
		if apiVersion != "" && c.ofGroup(apiVersion, versions) {
			return true
		}
	}
	return false
}

// ofGroup reports whether an apiVersion is of the group of others.
func (c *checks) ofGroup(apiVersion string, others []string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(other, group+"/") })
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
	switch {
	case err == nil:
	case errors.As(err, &failed):
		// It may look for what hooks find out, or into the cluster.
		c.add(Warning, m.EnabledScript, place{}, fmt.Sprintf("it fails with the values on disk, without a cluster: %s; let it answer false when something is missing", strings.TrimPrefix(err.Error(), "hook "+m.Name+"/enabled: ")))
	case errors.As(err, &slow):
		c.add(Error, m.EnabledScript, place{}, fmt.Sprintf("it did not answer within %s; let it write true or false, and exit", slow.Limit))
	default:
		at, _ := c.src.of(m.EnabledScript).find("MODULE_ENABLED_RESULT")
		c.add(Error, m.EnabledScript, at, "it "+strings.TrimPrefix(err.Error(), "hook "+m.Name+"/enabled: "))
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
