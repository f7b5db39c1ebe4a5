package bring

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// upgrading are the flags of 'module upgrade-chart'.
type upgrading struct {
	fetch.Request
	config        *cli.Config
	dryRun, force bool
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
		Example: "  addon-operator module upgrade-chart ingress-nginx --version 4.15.1 --dry-run",
		Args:    cli.Arguments("the name of a module"),
		RunE:    func(cmd *cobra.Command, args []string) error { return u.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&u.Ref, "from-chart", "", "source of the new version, as for init module, if module.yaml has none or the chart has moved")
	f.BoolVar(&u.dryRun, "dry-run", false, "check the new version, and write nothing")
	f.BoolVar(&u.force, "force", false, "write the new chart even if it does not render with your values")
	chartFlags(f, &u.Request)
	return cmd
}

// run finds the module and the new chart, and upgrades.
func (u *upgrading) run(cmd *cobra.Command, name string) error {
	m, err := u.find(name)
	if err != nil {
		return err
	}
	old, err := fetch.Read(filepath.Join(m.Dir, chartDir))
	if err != nil {
		return fmt.Errorf("module %s has no third-party chart: %s: %w", m.Name, filepath.Join(m.Dir, chartDir), err)
	}
	request, err := u.request(m)
	if err != nil {
		return err
	}
	return onStage(cmd, m.Root, func(s *stage) error {
		if err := s.share(u.config.Dirs.Global); err != nil {
			return err
		}
		fresh, err := fetch.Get(request, s.path(m.Base, chartDir))
		if err := cmp.Or(err, cmd.Context().Err()); err != nil { // a download does not end by itself
			return err
		}
		// Most likely a mistake in --from-chart: no value of the module would fit.
		if fresh.Name != old.Name {
			return fmt.Errorf("%s is another chart than %s; create a separate module for it", fresh.Origin, old.Name)
		}
		fmt.Fprintf(&s.out, "%s: %s -> %s\n", m.Name, old.Origin, fresh.Version)
		written, err := prepare(s, m, old, fresh)
		if err != nil {
			return err
		}
		if _, _, err := s.render(cmd.Context(), m.Base); err != nil {
			text := s.placed(fmt.Sprintf("the new chart does not render with the values on disk: %v", err))
			if !u.force {
				return fmt.Errorf("nothing is written: %s; change them first, or use --force", text)
			}
			fmt.Fprintln(&s.out, text)
		}
		if u.dryRun {
			fmt.Fprintln(&s.out, "Nothing is written.")
		} else if err := replace(s, m, written); err != nil {
			return err
		}
		for _, file := range append([]string{chartDir}, written...) {
			fmt.Fprintln(&s.out, filepath.Join(m.Dir, filepath.FromSlash(file)))
		}
		return nil
	})
}

// find returns a module on disk, by its name or that of its directory. One that
// cannot be loaded counts, too: another version of its chart may be the repair. Errors of other
// modules are not its business.
func (u *upgrading) find(name string) (addons.Module, error) {
	tree, err := addons.Load(u.config.Dirs)
	all := slices.Concat(tree.Modules, tree.Broken)
	i := slices.IndexFunc(all, func(m addons.Module) bool { return m.Name == name || m.Base == name })
	if i < 0 {
		return addons.Module{}, errors.Join(fmt.Errorf("module %s not found in %s", name, u.config.ModulesDir), err)
	}
	return all[i], nil
}

// request returns where the new version is fetched from: the flags, or else module.yaml (A21).
func (u *upgrading) request(m addons.Module) (fetch.Request, error) {
	r := u.Request
	file, err := addons.ReadModuleFile(m.Dir)
	if err != nil || r.Ref != "" {
		return r, err
	}
	r.RepoURL, r.Ref = cmp.Or(r.RepoURL, file.Chart.Repository), cmp.Or(file.Chart.Name, m.Name)
	if r.RepoURL == "" {
		path := filepath.Join(m.Dir, "module.yaml")
		err = cli.Usagef("%s does not contain the source of the chart; use --from-chart, or set chart.repository there", path)
	}
	return r, err
}

// prepare puts the files that decide how the new chart renders on the stage, and returns those that
// differ from the ones on disk. A schema that is not what was made of the old chart is its author's.
func prepare(s *stage, m addons.Module, old, fresh *fetch.Chart) (written []string, err error) {
	for _, name := range []string{"values.yaml", "openapi/values.yaml", schemaFile, "module.yaml"} {
		text, err := os.ReadFile(filepath.Join(m.Dir, filepath.FromSlash(name)))
		missing := errors.Is(err, fs.ErrNotExist)
		if missing && name != "module.yaml" {
			continue
		}
		if err != nil && !missing {
			return nil, err
		}
		now, err := string(text), error(nil)
		switch {
		case missing:
			var made []byte
			made, err = moduleFile(fresh.Origin, "")
			now = string(made)
		case name == "module.yaml":
			now, err = editSource(now, m.File.Chart.Repository, fresh.Origin)
		case name == schemaFile:
			if string(configSchema(old, m.Key)) == now {
				now = string(configSchema(fresh, m.Key))
			}
		}
		if now != string(text) {
			written = append(written, name)
		}
		if err := errors.Join(err, s.write(m.Base, name, []byte(now))); err != nil {
			return nil, err
		}
	}
	return written, nil
}

// editSource changes the source of the chart in module.yaml, and nothing else, with its comments. The
// repository stays when the new chart is from a path: the next upgrade may fetch from there again.
func editSource(text, repository string, o fetch.Origin) (string, error) {
	const file = "file" // the text is edited as a section is
	o.Repository = cmp.Or(o.Repository, repository)
	edited, err := values.Edit{Path: []string{file, "chart"}, Value: source(o)}.Apply(map[string]string{file: text})
	if err == nil && edited.Text != nil {
		text = *edited.Text
	}
	return text, err
}

// replace moves what is new to its place. The old chart is in no place that is removed until then.
func replace(s *stage, m addons.Module, files []string) error {
	place, aside := filepath.Join(m.Dir, chartDir), s.root+"-before"
	if err := os.Rename(place, aside); err != nil {
		return err
	}
	if err := os.Rename(s.path(m.Base, chartDir), place); err != nil {
		return errors.Join(err, os.Rename(aside, place))
	}
	for _, name := range files {
		if err := os.Rename(s.path(m.Base, name), filepath.Join(m.Dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("%w; the chart is replaced, and the old one is in %s", err, aside)
		}
	}
	return os.RemoveAll(aside)
}
