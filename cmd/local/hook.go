package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/hooks"
	"addon-operator/kube/objectpatch"
	"addon-operator/values"
)

// trial is one run of a hook by a person, without an operator. It has the flags of both commands.
// Files that are not given count as empty, as for a hook of a new module.
type trial struct {
	global                         bool
	workingDir                     string
	binding, context, values, conf string
	hook                           string // which one of a batch; empty when the file has one
	library                        []string
}

// flags declares what both commands have: one path, and where the hook runs.
func (t *trial) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.global, "global", false, "PATH is a global hook, not a hook of a module")
	cmd.Flags().StringVar(&t.workingDir, "hook-working-dir", "", "WORKING_DIR of the hook (default: the directory that contains hooks/, or for a module the directory above it)")
	cmd.Args = cli.OneArg("the path of one hook")
}

// HookConfig is the command hook config. It prints the hooks of a batch that are valid, also when
// others in the same file are not; the error has those.
func HookConfig(c *cli.Config) *cobra.Command {
	t := &trial{}
	cmd := &cobra.Command{
		Use: "config PATH", Short: "Run a hook with --config, check its configuration and print its bindings",
		Example: "  addon-operator hook config modules/010-dns/hooks/nodes.sh",
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withRunner(c, cmd, func(runner *hooks.Runner) error {
				found, err := t.load(cmd.Context(), runner, args[0])
				for _, hook := range found {
					if hook.Batch != "" {
						fmt.Fprintf(cmd.OutOrStdout(), "hook %s\n", hook.Name)
					}
					printBindings(cmd.OutOrStdout(), hook.Config)
				}
				return err
			})
		},
	}
	t.flags(cmd)
	return cmd
}

// HookRun is the command hook run. It uses the runner of the operator, so that files, variables,
// limits and checks of results are the same; what the hook wrote is printed and not applied.
func HookRun(c *cli.Config) *cobra.Command {
	t := &trial{}
	cmd := &cobra.Command{
		Use: "run PATH", Short: "Run a hook once, with the files it would get, and print what it writes",
		Long: `Runs a hook once with the files that the operator would pass to it, and prints what it wrote. Nothing
is applied to values or objects, but a hook that calls kubectl connects to the cluster of your
KUBECONFIG. Without --context the hook gets one context of the binding.`,
		Example: "  addon-operator hook run modules/010-dns/hooks/nodes.sh --binding beforeHelm --values values.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withRunner(c, cmd, func(runner *hooks.Runner) error { return t.run(cmd, runner, args[0]) })
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&t.binding, "binding", "", "binding it runs for: onStartup, beforeHelm …, or the name of a schedule or kubernetes binding")
	cmd.Flags().StringVar(&t.hook, "hook", "", "the hook to run, if the file contains several: its number, or the end of its name")
	cmd.Flags().StringVar(&t.context, "context", "", "file with binding contexts: JSON or YAML, one or a list")
	cmd.Flags().StringVar(&t.values, "values", "", "file with merged values: JSON or YAML, with the key global and the key of the module")
	cmd.Flags().StringVar(&t.conf, "config-values", "", "file with the values of the ConfigMap, in the same form")
	return cmd
}

// withRunner calls use with a runner whose directory of temporary files is removed afterwards.
// Hooks inherit all variables, unlike in the operator: KUBECONFIG is one that a person means.
func (t *trial) withRunner(c *cli.Config, cmd *cobra.Command, use func(*hooks.Runner) error) error {
	dir, err := os.MkdirTemp("", "addon-operator-hook-")
	if err != nil {
		return err
	}
	log := cli.Log(cmd, slog.LevelInfo)
	t.library = c.JQDirs()
	runner, err := hooks.NewRunner(hooks.Options{TmpDir: dir, Log: log, Timeout: c.HookTimeout, JQLibrary: t.library})
	if err == nil {
		err = use(runner)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// load asks a file for the configuration of its hooks. The operator ignores files that are not
// executable, which surprises people, so here that is an error. The error may come with hooks
// (Runner.Configure). It also completes workingDir.
func (t *trial) load(ctx context.Context, runner *hooks.Runner, path string) ([]hooks.Hook, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("%s is not executable, so the operator would not load it as a hook; run chmod +x", path)
	}
	scope := hooks.Module
	if t.global {
		scope = hooks.Global
	}
	// --hook-working-dir is for a hook that is not in a directory of modules yet.
	if t.workingDir == "" {
		t.workingDir = workingDirOf(absolute, scope)
	}
	// The hook is named by the path as it was given; in the operator its name begins below its root
	// (A16).
	return runner.Configure(ctx, hooks.File{Name: path, Path: absolute}, t.workingDir, scope)
}

// chosen is the one hook to run. A batch has several in one file: --hook names one by its number or
// by the end of its name. A file with a single hook needs no choice.
func (t *trial) chosen(found []hooks.Hook) (hooks.Hook, error) {
	names := make([]string, 0, len(found))
	for _, hook := range found {
		names = append(names, hook.Name)
		// Without --hook this is the hook of a file that is no batch, whose Batch is empty, too.
		if t.hook == hook.Batch || strings.HasSuffix(hook.Name, ":"+t.hook) {
			return hook, nil
		}
	}
	if t.hook == "" && len(found) == 1 {
		return found[0], nil
	}
	return hooks.Hook{}, cli.Usagef("choose one hook of the file with --hook: %s", strings.Join(names, ", "))
}

// workingDirOf guesses the directory in which the operator would run a hook, from its path: MODULES
// for MODULES/MODULE/hooks/…, for a global hook the directory hooks itself, and that of the file
// when no directory above it is called hooks.
func workingDirOf(path string, scope hooks.Scope) string {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) != "hooks" {
			continue
		}
		if scope == hooks.Global {
			return dir
		}
		return filepath.Dir(filepath.Dir(dir))
	}
	return filepath.Dir(path)
}

// printBindings prints what the configuration of a hook means, with defaults filled in, which is
// what an author wants to check.
func printBindings(w io.Writer, c *hooks.Config) {
	fmt.Fprintf(w, "configVersion: %s\n", c.Version)
	// In the order in which the operator runs them in the life of a module.
	for _, b := range []hooks.BindingType{hooks.OnStartup, hooks.BeforeAll, hooks.BeforeHelm, hooks.AfterHelm, hooks.AfterAll, hooks.BeforeDeleteHelm, hooks.AfterDeleteHelm} {
		if order, ok := c.Order(b); ok {
			fmt.Fprintf(w, "%s: order %v\n", b, order)
		}
	}
	for _, s := range c.Schedules {
		fmt.Fprintf(w, "schedule %q: %s%s\n", s.Name, s.Crontab, common(s.Binding))
	}
	for _, k := range c.Kubernetes {
		kind := strings.TrimSpace(k.APIVersion + " " + k.Kind)
		fmt.Fprintf(w, "kubernetes %q: %s%s", k.Name, kind, common(k.Binding))
		for _, part := range []struct {
			name string
			list []string
		}{{"names", k.Names}, {"namespaces", k.Namespaces}, {"events", k.Events}} {
			if len(part.list) > 0 {
				fmt.Fprintf(w, ", %s %s", part.name, strings.Join(part.list, " "))
			}
		}
		if k.Filter != nil {
			fmt.Fprint(w, ", jqFilter")
		}
		fmt.Fprintln(w)
	}
	// Zero settings are those of a hook that has none.
	if c.Settings != (hooks.Settings{}) {
		fmt.Fprintf(w, "settings: executionMinInterval %s, executionBurst %d, timeout %s\n", c.Settings.ExecutionMinInterval, c.Settings.ExecutionBurst, c.Settings.Timeout)
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

// common is what schedules and kubernetes bindings share.
func common(b hooks.Binding) string {
	text := ", queue " + b.Queue
	if b.Group != "" {
		text += ", group " + b.Group
	}
	if len(b.Snapshots) > 0 {
		text += ", snapshots " + strings.Join(b.Snapshots, " ")
	}
	if b.AllowFailure {
		text += ", allowFailure"
	}
	return text
}

// run runs the hook and prints the context before and the results after it. A hook that fails is
// the error of the command; its output was logged while it ran.
func (t *trial) run(cmd *cobra.Command, runner *hooks.Runner, path string) error {
	// The files are read before the hook is started, and mistakes in both reported at once.
	merged, err1 := readTree(t.values)
	config, err2 := readTree(t.conf)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	// The configuration is needed to check the binding; the operator asks for it once, this command
	// each time.
	found, err := t.load(cmd.Context(), runner, path)
	if err != nil {
		return err
	}
	hook, err := t.chosen(found)
	if err != nil {
		return err
	}
	contexts, err := t.contexts(hook.Config)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if err := section(out, "binding context", contexts); err != nil {
		return err
	}
	result, err := runner.Run(cmd.Context(), hooks.Run{Hook: hook, WorkingDir: t.workingDir, Contexts: contexts, Values: merged, ConfigValues: config})
	if err != nil {
		return err
	}
	for _, warning := range result.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", warning)
	}
	err = errors.Join(section(out, "values patch", result.ValuesPatch), section(out, "config values patch", result.ConfigPatch), section(out, "metrics", result.Metrics))
	if len(result.ObjectPatches) > 0 {
		fmt.Fprintf(out, "object patches:\n%s\n", result.ObjectPatches)
	}
	if _, refused := objectpatch.Parse(result.ObjectPatches, t.library...); refused != nil {
		err = errors.Join(err, fmt.Errorf("the operator would refuse the object patches: %w", refused))
	}
	return err
}

// section prints a list as JSON under a title; without elements nothing, so that only what a hook
// wrote is shown.
func section[T any](w io.Writer, title string, list []T) error {
	if len(list) == 0 {
		return nil
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	_, err = fmt.Fprintf(w, "%s:\n%s\n", title, data)
	return err
}

// contexts are those of the file, or one that is made for the binding. With both, the binding
// replaces the names in the file, so that one file serves several bindings.
func (t *trial) contexts(c *hooks.Config) ([]hooks.Context, error) {
	if err := t.checkBinding(c); err != nil {
		return nil, err
	}
	if t.context == "" {
		return t.madeUp(c)
	}
	data, err := os.ReadFile(t.context)
	if err != nil {
		return nil, fmt.Errorf("--context: %w", err)
	}
	contexts, err := hooks.ParseContexts(data)
	if err != nil {
		return nil, fmt.Errorf("--context: %s: %w", t.context, err)
	}
	// --binding names a binding that the hook has, which the file, perhaps of another hook, need
	// not.
	for i := range contexts {
		if t.binding != "" {
			contexts[i].Binding = t.binding
		}
	}
	return contexts, nil
}

// madeUp is the context of a binding whose context has no objects. One with objects cannot be
// guessed: the hook would run with a snapshot that no cluster has. In v0 a schedule has no type.
func (t *trial) madeUp(c *hooks.Config) ([]hooks.Context, error) {
	made := hooks.Context{Binding: t.binding}
	isSchedule := slices.ContainsFunc(c.Schedules, func(s hooks.Schedule) bool { return s.Name == t.binding })
	_, isOrder := c.Order(hooks.BindingType(t.binding))
	switch {
	case t.binding == "":
		return nil, cli.Usagef("hook run needs --binding or --context")
	case isSchedule && c.Version == hooks.V1:
		made.Type = hooks.TypeSchedule
	case !isOrder && !isSchedule:
		return nil, cli.Usagef("binding %s needs objects: pass them in a file with --context", t.binding)
	}
	return []hooks.Context{made}, nil
}

// checkBinding refuses a binding that the hook does not have, and lists those it has. An empty one
// is accepted here: contexts from a file name theirs.
func (t *trial) checkBinding(c *hooks.Config) error {
	var names []string
	for b := range c.Orders {
		names = append(names, string(b))
	}
	for _, s := range c.Schedules {
		names = append(names, s.Name)
	}
	for _, k := range c.Kubernetes {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	if t.binding != "" && !slices.Contains(names, t.binding) {
		return cli.Usagef("--binding: the hook has no binding %q; it has %s", t.binding, strings.Join(slices.Compact(names), ", "))
	}
	return nil
}

// readTree reads a file of values, JSON being YAML; without a path there are none.
func readTree(path string) (any, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tree, err := values.ParseYAML(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tree, nil
}
