package bring

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// upgrading are the flags of 'module upgrade-chart'.
type upgrading struct {
	fetch.Request
	config                     *cli.Config
	dryRun, force, updateTests bool
}

// UpgradeChart returns the command that brings the chart in a module to another version.
func UpgradeChart(c *cli.Config) *cobra.Command {
	u := &upgrading{config: c}
	cmd := &cobra.Command{
		Use: "upgrade-chart NAME", Short: "Replace the chart of a module on disk with another version",
		Long: `Replaces chart/ in the module directory by another version from the source in module.yaml. values.yaml, hooks,
tests and an edited schema stay. If the new chart does not render with the values on disk, or its schema refuses
them, nothing is written, unless --force is given. Nothing is written to the cluster: 'addon-operator plan' shows
what the new chart does there.`,
		Example: "  addon-operator module upgrade-chart ingress-nginx --version 4.15.1 --dry-run\n  addon-operator module upgrade-chart ingress-nginx --version 4.15.1 --update-tests",
		Args:    cli.OneArg("the name of a module"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var text bytes.Buffer // printed at the end: a closed pipe must not stop the work
			err := u.run(cmd.Context(), &text, args[0])
			_, writeErr := text.WriteTo(cmd.OutOrStdout())
			return errors.Join(err, writeErr)
		},
	}
	f := cmd.Flags()
	f.StringVar(&u.Ref, "from-chart", "", "source of the new version, as for init module, if module.yaml has none or the chart has moved")
	f.BoolVar(&u.dryRun, "dry-run", false, "check the new version, and write nothing")
	f.BoolVar(&u.force, "force", false, "write the new chart even if it does not render with your values")
	f.BoolVarP(&u.updateTests, "update-tests", "u", false, "rewrite the golden files of the tests of the module")
	chartFlags(f, &u.Request)
	return cmd
}

// upgrade is one module that gets another chart. Everything is prepared on the stage; only replace
// changes the module.
type upgrade struct {
	*upgrading
	module addons.Module
	global addons.Global
	// The new chart and the changed files are below stage.modules; the module itself is not touched
	// before replace.
	stage *stage
	// old is the chart in the module, fresh the one on the stage.
	old, fresh *fetch.Chart
	schema     string // the new text of the schema; empty: the file stays as it is
	edited     bool   // the schema on disk is not the one that was made of the old chart
	out        io.Writer
}

// run finds the module and the new chart, and upgrades. Everything is read before anything is
// written.
func (u *upgrading) run(ctx context.Context, out io.Writer, name string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("upgrade-chart: %w", err)
		}
	}()
	m, global, err := u.find(name)
	if err != nil {
		return err
	}
	request, err := u.request(m)
	if err != nil {
		return err
	}
	s, err := newStage(m.Root, u.config.Dirs.Global)
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return err
	}
	up := &upgrade{upgrading: u, module: m, global: global, stage: s, out: out}
	if up.old, err = fetch.Read(filepath.Join(m.Dir, chartDir)); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(m.Dir, chartDir), err)
	}
	if up.fresh, err = fetch.Get(ctx, request, filepath.Join(up.dir(), chartDir)); err != nil {
		return err
	}
	// Most likely a mistake in --from-chart: no value of the module would fit.
	if up.fresh.Name != up.old.Name {
		return fmt.Errorf("%s is another chart than %s; create a separate module for it", up.fresh.Origin, up.old.Name)
	}
	return up.run(ctx)
}

// find returns a module on disk, by its name or that of its directory. One that cannot be loaded
// counts, too: another version of its chart may be the repair. Errors of other modules are not its
// business.
func (u *upgrading) find(name string) (addons.Module, addons.Global, error) {
	tree, err := addons.Load(u.config.Dirs)
	all := slices.Concat(tree.Modules, tree.Broken)
	var known []string
	for _, m := range all {
		if m.Name == name || m.Base == name {
			if _, err := os.Stat(filepath.Join(m.Dir, chartDir, "Chart.yaml")); err != nil {
				return m, tree.Global, fmt.Errorf("module %s has no third-party chart: there is no %s", m.Name, filepath.Join(m.Dir, chartDir, "Chart.yaml"))
			}
			return m, tree.Global, nil
		}
		known = append(known, m.Name)
	}
	if err != nil {
		return addons.Module{}, tree.Global, err
	}
	hint := ""
	if near := values.Near(name, known); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return addons.Module{}, tree.Global, fmt.Errorf("module %s not found in %s%s", name, u.config.ModulesDir, hint)
}

// request returns where the new version is fetched from: the flags, or else module.yaml (A21).
func (u *upgrading) request(m addons.Module) (fetch.Request, error) {
	r := u.Request
	if r.Ref != "" {
		return r, nil
	}
	file, err := addons.ReadModuleFile(m.Dir)
	from := file.Chart
	switch {
	case err != nil:
		return r, err
	case r.Repo == "" && (from.Repository == "" || from.Name == ""):
		return r, cli.Usagef("%s does not contain the source of the chart; use --from-chart, or set chart.repository and chart.name there", filepath.Join(m.Dir, "module.yaml"))
	// The URL of one archive does not contain the places of others.
	case r.Repo == "" && strings.HasSuffix(from.Repository, ".tgz"):
		return r, cli.Usagef("the chart is from a single archive, %s; pass the archive of the new version with --from-chart", from.Repository)
	}
	r.Repo = cmp.Or(r.Repo, from.Repository)
	// --repo was given, and module.yaml names no chart.
	if r.Ref = from.Name; r.Ref == "" {
		r.Ref = m.Name
	}
	return r, nil
}

func (u *upgrade) dir() string { return filepath.Join(u.stage.modules, u.module.Base) }

// run checks that the new chart renders, and replaces the old one.
func (u *upgrade) run(ctx context.Context) error {
	fmt.Fprintf(u.out, "%s: %s -> %s\n", u.module.Name, u.old.Origin, u.fresh.Version)
	u.fresh.Describe(u.out)
	if err := u.prepare(); err != nil {
		return err
	}
	switch {
	case u.schema != "":
		fmt.Fprintf(u.out, "%s is generated again.\n", schemaFile)
	case u.edited:
		fmt.Fprintf(u.out, "%s was edited and stays unchanged.\n", schemaFile)
	}
	if err := u.renders(ctx); err != nil {
		return err
	}
	if u.dryRun {
		_, err := fmt.Fprintln(u.out, "Nothing is written.")
		return err
	}
	if err := u.replace(); err != nil {
		return err
	}
	return u.tests(ctx)
}

// renders returns an error when the new chart does not render with the values on disk and the old one
// did, unless --force is given; when the old one did not either, the upgrade may be the repair.
func (u *upgrade) renders(ctx context.Context) error {
	m, global, err := u.stage.load(u.module.Base)
	if err == nil {
		_, err = renderWith(ctx, m, global)
	}
	if err == nil {
		return nil
	}
	_, before := renderWith(ctx, u.module, u.global)
	text := u.stage.placed(fmt.Sprintf("the new chart does not render with the values on disk: %v", err))
	if before == nil && !u.force {
		return fmt.Errorf("nothing is written: %s; change them first, or use --force", text)
	}
	_, err = fmt.Fprintln(u.out, text)
	return err
}

// prepare puts the module with its new chart on the stage, with the files that decide how it
// renders.
func (u *upgrade) prepare() error {
	// Hooks, the enabled script and tests do not change what the chart renders to.
	for _, name := range []string{"values.yaml", "openapi/config-values.yaml", "openapi/values.yaml"} {
		text, err := os.ReadFile(filepath.Join(u.module.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = u.write(name, string(text))
		}
		if err != nil {
			return err
		}
	}
	// After the copy, which it may overwrite.
	if err := u.schemas(); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(u.module.Dir, "module.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return u.write("module.yaml", moduleFile(u.fresh.Origin))
	}
	if err != nil {
		return err
	}
	edited, err := editProvenance(string(text), u.fresh.Origin)
	if err != nil {
		return err
	}
	return u.write("module.yaml", edited)
}

func (u *upgrade) write(name, text string) error { return u.stage.write(u.module.Base, name, text) }

// editProvenance changes the source of the chart in module.yaml, and nothing else, with its
// comments. The repository stays when the new chart is from a path: the next upgrade may fetch from
// there again.
func editProvenance(text string, o fetch.Origin) (string, error) {
	// Edits of sections keep comments and order, and take a map of sections: the file is the only
	// one.
	const file = "file" // the text is edited as a section is
	for _, f := range []struct{ name, value string }{{"repository", o.Repository}, {"name", o.Name}, {"version", o.Version}, {"digest", o.Digest}} {
		if f.name == "repository" && f.value == "" {
			continue
		}
		edit := values.Edit{Path: []string{file, "chart", f.name}, Value: f.value, Remove: f.value == ""}
		edited, err := edit.Apply(map[string]string{file: text})
		if err != nil {
			return "", fmt.Errorf("module.yaml: %w", err)
		}
		if edited.Text != nil {
			text = *edited.Text
		}
	}
	return text, nil
}

// schemas makes the schema again, if the one on disk is what was made of the old chart; one that
// was edited is its author's.
func (u *upgrade) schemas() error {
	known, err := os.ReadFile(filepath.Join(u.module.Dir, filepath.FromSlash(schemaFile)))
	if err != nil {
		return nil //nolint:nilerr // a person has removed it: the module has no schema
	}
	before, err := configSchema(u.old, u.module.Key)
	if err != nil {
		return err
	}
	after, err := configSchema(u.fresh, u.module.Key)
	if u.edited = before != string(known); err != nil || u.edited || before == after {
		return err
	}
	u.schema = after
	return u.write(schemaFile, after)
}

// replace moves what is new to its place. When that fails, the old chart is put back.
func (u *upgrade) replace() error {
	place, aside := filepath.Join(u.module.Dir, chartDir), filepath.Join(u.stage.root, "before")
	if err := os.Rename(place, aside); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(u.dir(), chartDir), place)
	names := []string{"module.yaml"} // values.yaml is on the stage for the render alone
	if u.schema != "" {
		names = append(names, filepath.FromSlash(schemaFile))
	}
	for _, name := range names {
		if err == nil {
			err = os.Rename(filepath.Join(u.dir(), name), filepath.Join(u.module.Dir, name))
		}
	}
	if err != nil {
		_ = os.RemoveAll(place)
		if back := os.Rename(aside, place); back != nil {
			u.stage.keep = true
			return fmt.Errorf("%w; %w; the old chart is in %s: move it back to %s", err, back, aside, place)
		}
		return err
	}
	_, err = fmt.Fprintf(u.out, "%s now contains %s.\n", place, u.fresh.Origin)
	return err
}

// tests rewrites the golden files of the tests, if that is wanted. The chart stays when tests fail:
// they may expect what has changed.
func (u *upgrade) tests(ctx context.Context) error {
	dir := filepath.Join(u.module.Dir, "tests")
	if _, err := os.Stat(dir); err != nil {
		return nil //nolint:nilerr // there are no tests
	}
	if !u.updateTests {
		_, err := fmt.Fprintf(u.out, "Try it: addon-operator test %s; with --update it rewrites golden files.\n", u.module.Dir)
		return err
	}
	scenarios, err := scenario.Find(u.module.Dir)
	if err != nil {
		return err
	}
	// Every test is played, so that one run shows all that the new chart breaks.
	failed := 0
	scenario.Play(ctx, scenarios, scenario.Options{Update: true, JQLibrary: u.config.JQDirs(), CRDSkip: u.config.CRDPrefixes()}, func(r scenario.Result) {
		if fmt.Fprint(u.out, r); !r.Passed() {
			failed++
		}
	})
	if failed > 0 {
		return fmt.Errorf("the chart was replaced, but tests of the module fail: %d", failed)
	}
	return nil
}
