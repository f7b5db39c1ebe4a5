package local

import (
	"cmp"
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

// trial is one run of a hook by a person, without an operator. Files that are not given count as empty, as for a hook
// of a new module.
type trial struct {
	global                         bool
	binding, context, values, conf string
	hook                           string // which one of a batch; empty when the file has one
}

// HookRun is the command hook run. It uses the runner of the operator, so that files, variables,
// limits and checks of results are the same; what the hook wrote is printed and not applied.
func HookRun(c *cli.Config) *cobra.Command {
	t := &trial{}
	cmd := &cobra.Command{
		Use: "run PATH", Short: "Run a hook once, with the files it would get, and print what it writes",
		Long: `Runs a hook once with the files that the operator would pass to it, and prints what it wrote. Nothing
is applied to values or objects, but a hook that calls kubectl connects to the cluster of your
KUBECONFIG. The hook gets the contexts of a file, or one of a binding that is not about objects.`,
		Example: "  addon-operator hook run modules/010-dns/hooks/nodes.sh --binding beforeHelm --values values.yaml",
		Args:    cli.OneArg("the path of one hook"),
		RunE:    func(cmd *cobra.Command, args []string) error { return t.run(cmd, c, args[0]) },
	}
	cmd.Flags().BoolVar(&t.global, "global", false, "PATH is a global hook, not a hook of a module")
	cmd.Flags().StringVar(&t.binding, "binding", "", "binding it runs for: onStartup, beforeHelm …, or the name of a schedule")
	cmd.Flags().StringVar(&t.hook, "hook", "", "the hook to run, if the file contains several: its number, or the end of its name")
	cmd.Flags().StringVar(&t.context, "context", "", "file with binding contexts: JSON or YAML, one or a list")
	cmd.Flags().StringVar(&t.values, "values", "", "file with merged values: JSON or YAML, with the key global and the key of the module")
	cmd.Flags().StringVar(&t.conf, "config-values", "", "file with the values of the ConfigMap, in the same form")
	return cmd
}

// load asks a file for the configuration of its hooks, and guesses the directory in which the operator would run them:
// MODULES for MODULES/MODULE/hooks/…, for a global hook the directory hooks itself, and that of the file when no
// directory above it is called hooks. The operator ignores files that are not executable, which surprises people, so
// here that is an error.
func (t *trial) load(ctx context.Context, runner *hooks.Runner, path string) (found []hooks.Hook, workingDir string, err error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, "", err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return nil, "", fmt.Errorf("%s is not executable, so the operator would not load it as a hook; run chmod +x", path)
	}
	scope, dir := hooks.Module, filepath.Dir(absolute)
	if workingDir = dir; t.global {
		scope = hooks.Global
	}
	for filepath.Base(dir) != "hooks" && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	if filepath.Base(dir) == "hooks" {
		if workingDir = dir; !t.global {
			workingDir = filepath.Dir(filepath.Dir(dir))
		}
	}
	// The hook is named by the path as it was given; in the operator its name begins below its root
	// (A16).
	found, err = runner.Configure(ctx, hooks.File{Name: path, Path: absolute}, workingDir, scope)
	return found, workingDir, err
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

// run runs the hook and prints the context before and the results after it. A hook that fails is
// the error of the command; its output was logged while it ran. Hooks inherit all variables, unlike
// in the operator: KUBECONFIG is one that a person means.
func (t *trial) run(cmd *cobra.Command, c *cli.Config, path string) error {
	// The files are read before the hook is started, and mistakes in both reported at once.
	merged, err1 := readTree(t.values)
	config, err2 := readTree(t.conf)
	dir, err3 := os.MkdirTemp("", "addon-operator-hook-")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	runner, err := hooks.NewRunner(hooks.Options{TmpDir: dir, Log: cli.Log(cmd, slog.LevelInfo), Timeout: c.HookTimeout, JQLibrary: c.JQDirs()})
	if err != nil {
		return err
	}
	found, workingDir, err := t.load(cmd.Context(), runner, path)
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
	result, err := runner.Run(cmd.Context(), hooks.Run{Hook: hook, WorkingDir: workingDir, Contexts: contexts, Values: merged, ConfigValues: config})
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
	if _, refused := objectpatch.Parse(result.ObjectPatches, c.JQDirs()...); refused != nil {
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

// contexts are those of the file, or one that is made for the binding. One with objects cannot be guessed: the hook
// would run with a snapshot that no cluster has. In v0 a schedule has no type.
func (t *trial) contexts(c *hooks.Config) ([]hooks.Context, error) {
	if (t.context == "") == (t.binding == "") {
		return nil, cli.Usagef("hook run needs either --binding or --context")
	}
	if t.context != "" {
		data, err := os.ReadFile(t.context)
		if err != nil {
			return nil, fmt.Errorf("--context: %w", err)
		}
		contexts, err := hooks.ParseContexts(data)
		if err != nil {
			return nil, fmt.Errorf("--context: %s: %w", t.context, err)
		}
		return contexts, nil
	}
	made, names := hooks.Context{Binding: t.binding}, []string{}
	for b := range c.Orders {
		names = append(names, string(b))
	}
	for _, s := range c.Schedules {
		names = append(names, s.Name)
		if s.Name == t.binding && c.Version == hooks.V1 {
			made.Type = hooks.TypeSchedule
		}
	}
	if !slices.Contains(names, t.binding) {
		slices.Sort(names)
		const text = "--binding: the bindings of the hook that need no objects are: %s; pass the contexts of others in a file with --context"
		return nil, cli.Usagef(text, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return []hooks.Context{made}, nil
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
