package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// completer finds the names that a shell can complete: those of the running operator or, of
// modules, those on disk when none answers. A failure completes nothing and prints nothing: the
// person is in the middle of a line.
type completer struct {
	config *cli.Config
}

// completionLimit is the timeout after a person has pressed Tab.
const completionLimit = time.Second

// names finds names to complete. A tab separates a name from its description.
type names func(ctx context.Context) []string

// first completes the first argument, and nothing after it. File names are never meant.
func first(find names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return find(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
}

// each completes every argument, or the value of a flag.
func each(find names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return find(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
}

// fixed completes words that do not depend on an operator.
func fixed(all ...string) names { return func(context.Context) []string { return all } }

// ask reads a page as JSON and reports whether it could. For completion cobra parses the flags but
// does not call the hook of Root that reads the environment, so ask does; and it has no context if
// the command was not started with one.
func (c *completer) ask(ctx context.Context, path string, into any) bool {
	if c.config.Read() != nil {
		return false
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	body, err := get(ctx, c.config, path)
	return err == nil && json.Unmarshal(body, into) == nil
}

// modules are also completed without an operator, because commands that wait for one, or change the
// ConfigMap, are used before it runs.
func (c *completer) modules(ctx context.Context) []string {
	var list struct{ Modules []struct{ Name string } }
	var found []string
	if c.ask(ctx, "/module/list", &list) {
		for _, m := range list.Modules {
			found = append(found, m.Name)
		}
		return found
	}
	// No operator has answered, or the answer is of something else.
	tree, err := addons.Load(c.config.Dirs)
	if err != nil {
		return nil
	}
	for _, m := range tree.Modules {
		found = append(found, m.Name)
	}
	return found
}

// owners are the modules and global, which own hooks.
func (c *completer) owners(ctx context.Context) []string { return append(c.modules(ctx), "global") }

// hooks are those that the operator has loaded; only it has the list.
func (c *completer) hooks(ctx context.Context) []string {
	var list struct{ Hooks []view.HookInfo }
	c.ask(ctx, "/hook/list", &list)
	var found []string
	for _, h := range list.Hooks {
		found = append(found, h.Hook)
	}
	return found
}

// queues are those with tasks first, then the empty ones.
func (c *completer) queues(ctx context.Context) []string {
	var list struct{ Active, Empty []struct{ Name string } }
	c.ask(ctx, "/queue/list?showEmpty=true", &list)
	var found []string
	for _, q := range append(list.Active, list.Empty...) {
		found = append(found, q.Name)
	}
	return found
}

// parameter completes the name of a parameter, then its value. A parameter lists its choices, so
// new ones need no change here.
func (c *completer) parameter(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var list struct{ Parameters []view.Parameter }
	c.ask(cmd.Context(), "/config/list", &list)
	var found []string
	for _, p := range list.Parameters {
		switch {
		case len(args) == 0:
			found = append(found, p.Name+"\t"+p.Help)
		case len(args) == 1 && args[0] == p.Name:
			found = p.Choices
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// pages completes paths of pages. Only those for GET: raw sends nothing else.
func (c *completer) pages(ctx context.Context) []string {
	var list []struct{ Method, Path, Help string }
	c.ask(ctx, "/discovery.json", &list)
	var found []string
	for _, r := range list {
		if r.Method == http.MethodGet {
			found = append(found, r.Path+"\t"+r.Help)
		}
	}
	return found
}
